"""Data sets of one's own: policies play, or a run's replay is taken, and rows with their history are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rl_lightning.behaviors.random_actor import random_actor
from rl_lightning.behaviors.record_transitions import (
    interpolate_policies,
    record_transitions,
    with_noise_scale,
)
from rl_lightning.behaviors.scripted import scripted_actor, scripted_carry
from rl_lightning.datasets.data_files import locate
from rl_lightning.datasets.formats.hdf5 import write_hdf5
from rl_lightning.datasets.formats.raw import Raw
from rl_lightning.datasets.formats.run_replay import joined, read_run_replay, replay_spec, spec_metadata
from rl_lightning.datasets.load import file_digest
from rl_lightning.datasets.local_recipes import (
    LOCAL_ENVS,
    NARROW_NOISE,
    POLICIES,
    UNNAMED,
    LocalRecipe,
    env_of_name,
    make_sparse,
    parse_recipe,
    sparse_rows,
)
from rl_lightning.datasets.published_policies import (
    PublishedPolicy,
    find_policy,
    local_references,
    policy_folders,
)
from rl_lightning.datasets.summary import episode_table
from rl_lightning.envs.make import EnvConfig, make_envs, probe_spec
from rl_lightning.errors import ConfigError, DataError
from rl_lightning.io.checkpoint_files import read_meta
from rl_lightning.io.text import file_size
from rl_lightning.rollout.collect import ActFn, Collector
from rl_lightning.runs.agents.agent import load_agent
from rl_lightning.runs.recording.bar import Bar
from rl_lightning.runs.request import Request
from rl_lightning.runs.store.run_folder import Run, resolve
from rl_lightning.runs.store.select_runs import last_stage
from rl_lightning.seeding import derive, numpy_generator, torch_generator
from rl_lightning.types import Carry, EnvSpec
from rl_lightning.version import version

MOST_ENVS = 8


class RecordingPolicy(NamedTuple):
    """Someone who acts, and what the metadata say about it."""

    act: ActFn
    carry: Callable[[int], Carry]
    about: dict[str, Any]
    reward_carry: int | None = None


@dataclass(frozen=True)
class DatasetRequest:
    """What is to be recorded.

    Args:
        name: Of the data set, below local/.
        rows: How many; null: as the recipe has it, or all that a replay holds.
        seed: Of envs and actions.
        run: Whose policy plays, or whose replay is taken; null: published policies.
        checkpoint: Which of the run's.
        env: Env id, where the name does not say it.
        num_envs: Envs at once; null: by the number of rows.
        greedy: Play the best action, not a drawn one.
        force: Write over a data set of this name.
        command: What was typed, for the metadata.
        imports: Packages of the user's that the run was made with.
    """

    name: str
    rows: int | None = None
    seed: int = 0
    run: str | None = None
    checkpoint: str | None = None
    env: str | None = None
    num_envs: int | None = None
    greedy: bool = False
    force: bool = False
    command: str = ""
    imports: tuple[str, ...] = ()


def record_dataset(wanted: DatasetRequest) -> tuple[Path, dict[str, Any]]:
    """Records a data set of one's own; where it lies, and its metadata."""
    path = locate(wanted.name, missing_ok=True).path.with_suffix(".hdf5")
    if path.exists() and not wanted.force:
        raise DataError(
            f"{wanted.name}: is there already ({path}). Look at it with: rl data info {wanted.name}, or add --force"
        )
    if wanted.run is not None and "replay" in wanted.name:
        raw = from_replay(wanted, resolve(wanted.run))
    else:
        raw = from_policies(wanted, recipe_of(wanted))
    raw = with_metadata(raw, wanted)
    write_hdf5(path, raw)
    return path, raw.metadata


def described(name: str, path: Path, about: dict[str, Any]) -> str:
    """A data set in two lines."""
    return (
        f"{name}: {about['rows']} rows, {about['episodes']} episodes, mean return {about['mean_return']:.2f}\n"
        f"{path} ({file_size(path.stat().st_size)})"
    )


def recipe_of(wanted: DatasetRequest) -> LocalRecipe:
    """What the name asks for; with a run any name is right."""
    try:
        return parse_recipe(wanted.name)
    except DataError:
        if wanted.run is None:
            raise
        return LocalRecipe(wanted.name.removeprefix("local/"), "run")


def from_policies(asked: DatasetRequest, recipe: LocalRecipe) -> Raw:
    """Plays policies in their env."""
    rows, seed = asked.rows or recipe.default_rows, asked.seed
    config, players = cast_players(asked, recipe)
    wanted = sparse_rows(rows) if recipe.transform == "sparse" else rows
    shares = [wanted // len(players) + (i < wanted % len(players)) for i in range(len(players))]
    if min(shares) < 1:
        raise ConfigError(f"--rows {rows} is too few for {len(players)} policies")
    bar, done, parts = Bar("rows"), 0, []
    spec = probe_spec(config)
    for i, (player, share) in enumerate(zip(players, shares, strict=True)):
        act = with_noise_scale(player.act, NARROW_NOISE, spec) if recipe.transform == "narrow" else player.act
        shown = partial(_further, bar, done, wanted)
        arrays, infos, envs = _record(
            config, player._replace(act=act), share, asked, derive(seed, f"record/{i}"), shown
        )
        parts.append(Raw("", arrays, infos))
        done += share
    raw = parts[0] if len(parts) == 1 else joined(parts)
    source = UNNAMED.get(recipe.env)
    metadata = {
        **({"env_id": spec.env_id} if source is None else {"source": source}),
        "level": recipe.level,
        "policies": [player.about for player in players],
        "seed": seed,
        "num_envs": envs,
        "actions": "greedy" if asked.greedy else "sampled",
        **spec_metadata(spec),
        **_reference(env_key(spec.env_id)),
    }
    if recipe.level == "medium-replay":
        metadata["replay"] = (
            "no replay of a run: actions go from random to medium over each env's fraction of the rows"
        )
    if recipe.transform == "narrow":
        metadata["narrow"] = f"the noise of sampled actions was scaled by {NARROW_NOISE}"
    if recipe.transform == "sparse":
        metadata["mean_return"] = episode_table(raw).mean_return
        raw, sparse_metadata = make_sparse(raw, rows, numpy_generator(seed, "sparse"))
        metadata |= sparse_metadata
    return raw._replace(metadata=metadata)


def _further(bar: Bar, before: int, total: int, now: int, _: int) -> None:
    bar(before + now, total)


def _record(
    config: EnvConfig,
    player: RecordingPolicy,
    rows: int,
    asked: DatasetRequest,
    seed: int,
    progress: Callable[[int, int], None],
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], int]:
    spec = probe_spec(config)
    if len(spec.obs_shape) != 1 and not spec.is_pixels:
        raise DataError(
            f"{spec.env_id}: observations have {len(spec.obs_shape)} axes; only flat ones and pictures are recorded"
        )
    fitting = max(1, min(MOST_ENVS, rows // (spec.max_episode_steps or 1000)))
    num = asked.num_envs or fitting
    envs = make_envs(config, num)
    try:
        collector = Collector(envs, derive(seed, "envs"), player.reward_carry)
        collector.carry = player.carry(num)
        explore = None if asked.greedy else torch_generator(seed, "explore")
        return (*record_transitions(collector, player.act, rows, explore, progress), num)
    finally:
        envs.close()


def cast_players(asked: DatasetRequest, recipe: LocalRecipe) -> tuple[EnvConfig, list[RecordingPolicy]]:
    """The env and who plays in it, one after the other."""
    if asked.run is not None:
        return _player_of_run(asked, asked.run)
    env_id = asked.env or recipe.env_id
    if not env_id:
        raise DataError(
            f"which env is '{recipe.env}'? Give it with --env ID (known without: {', '.join(LOCAL_ENVS)})"
        )
    config = EnvConfig(id=env_id)
    spec = probe_spec(config)
    random = RecordingPolicy(random_actor(spec), no_carry, {"level": "random"})
    levels = POLICIES[recipe.level]
    if levels == ("scripted",):
        return config, [
            RecordingPolicy(scripted_actor(env_id), scripted_carry(env_id), {"level": recipe.level})
        ]
    players = [random if level == "random" else _published(recipe.env, level, spec) for level in levels]
    if recipe.level == "medium-replay":
        rows, seed = asked.rows or recipe.default_rows, asked.seed
        fitting = max(1, min(MOST_ENVS, rows // (spec.max_episode_steps or 1000)))
        calls = rows // (asked.num_envs or fitting)
        act = interpolate_policies(players[0].act, players[1].act, calls, torch_generator(seed, "mixing"))
        players = [RecordingPolicy(act, no_carry, {"level": "random to medium", **players[1].about})]
    return config, players


def no_carry(count: int) -> Carry:
    return ()


def _published(env: str, level: str, spec: EnvSpec) -> RecordingPolicy:
    path = find_policy(env, level)
    if path is None:
        raise DataError(
            f"no published policy {env}-{level}.safetensors, neither shipped nor in {policy_folders()[0]}.\n"
            f"Record from a run instead: rl data make local/{env}-{level} --run RUN\n"
            f"or publish one: rl data publish RUN --level {level}"
        )
    policy = PublishedPolicy.load(path)
    if (policy.about.get("obs_dim"), policy.about.get("action_dim")) != (spec.obs_shape[0], spec.action_dim):
        raise DataError(f"{path}: was trained on {policy.about.get('env_id')} and does not fit {spec.env_id}")

    about = {
        key: policy.about[key] for key in ("level", "algorithm", "return", "steps") if key in policy.about
    }
    return RecordingPolicy(as_act(policy), no_carry, {**about, "sha256": policy.sha256})


def as_act(policy: PublishedPolicy) -> ActFn:
    def act(
        obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        return policy.act(obs, generator), carry

    return act


def _player_of_run(asked: DatasetRequest, run: str) -> tuple[EnvConfig, list[RecordingPolicy]]:
    which = asked.checkpoint or "best"
    agent = load_agent(last_stage(resolve(run)), Request(checkpoint=which, imports=list(asked.imports)))
    model, config = agent.cli.model.eval(), getattr(agent.cli.datamodule, "env", None)
    if asked.env:
        config = EnvConfig(id=asked.env)
    if config is None:
        raise ConfigError(f"run '{run}' has no env; give one with --env ID")
    check_name(asked.name, run, config.id)
    source_run = resolve(run)
    about = {
        "level": "run",
        "run": source_run.name,
        "algorithm": type(model).__name__,
        "checkpoint": which,
        "sha256": file_digest(source_run.checkpoint(which)),
    }
    return config, [RecordingPolicy(model.act_fn(), model.initial_carry, about, model.reward_carry)]


def check_name(name: str, run: str, env_id: str) -> None:
    """A name that speaks of one env must not hold rows of another."""
    meant = env_of_name(name)
    if meant and meant != env_id:
        raise ConfigError(f"{name}: the name says {meant}, but run '{run}' plays {env_id}; give another name")


def from_replay(asked: DatasetRequest, run: Run) -> Raw:
    """What a run's replay held when a checkpoint was saved."""
    which = asked.checkpoint or "last"
    folder = run.checkpoint(which).parent
    if not (folder / "meta.json").is_file():
        raise DataError(
            f"run '{run.name}': checkpoint '{which}' has weights only; its replay is in last or step-N"
        )
    meta, spec = read_meta(folder), replay_spec(folder)
    check_name(asked.name, run.name, spec.env_id)
    raw = read_run_replay(folder)
    rows = asked.rows or len(raw.arrays["rewards"])
    raw = raw._replace(arrays={key: array[:rows] for key, array in raw.arrays.items()})
    metadata = {
        **raw.metadata,
        "level": "medium-replay",
        "policies": [{"run": run.name, "algorithm": meta.get("algorithm"), "checkpoint": folder.name}],
        **_reference(env_key(spec.env_id)),
    }
    return raw._replace(metadata=metadata)


def env_key(env_id: str) -> str:
    return next((key for key, value in LOCAL_ENVS.items() if value == env_id), env_id)


def _reference(env: str) -> dict[str, Any]:
    reference = local_references(env)
    return (
        {}
        if reference is None
        else {"ref_min": reference.low, "ref_max": reference.high, "ref_kind": "local"}
    )


def with_metadata(raw: Raw, asked: DatasetRequest) -> Raw:
    """Adds what is the same for every local data set."""
    table = episode_table(raw)
    common = {
        "kind": "local",
        "rows": len(raw.arrays["rewards"]),
        "episodes": len(table.returns),
        "version": version(),
        "command": f"rl data make {asked.command or asked.name}",
    }
    return raw._replace(metadata={"mean_return": table.mean_return, **raw.metadata, **common})
