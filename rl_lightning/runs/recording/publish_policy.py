"""A run's policy put where data sets are recorded from, with its mean return."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from rl_lightning.behaviors.random_actor import random_actor
from rl_lightning.datasets.data_files import data_dir
from rl_lightning.datasets.published_policies import PublishedPolicy
from rl_lightning.datasets.published_policies import publish as write_policy
from rl_lightning.envs.make import EnvConfig, make_envs
from rl_lightning.rollout.collect import ActFn
from rl_lightning.rollout.evaluate import StepCap, evaluate
from rl_lightning.runs.agents.agent import load_agent
from rl_lightning.runs.recording.record_dataset import MOST_ENVS, as_act, env_key, no_carry
from rl_lightning.runs.request import Request
from rl_lightning.runs.store.run_folder import resolve
from rl_lightning.runs.store.select_runs import last_stage
from rl_lightning.seeding import derive, torch_generator

PUBLISH_EPISODES = 20


def publish_policy(
    name: str,
    level: str,
    output: str | None = None,
    which: str = "best",
    episodes: int = PUBLISH_EPISODES,
    imports: tuple[str, ...] = (),
) -> tuple[Path, dict[str, Any]]:
    """Where the policy lies, and what its file says of it.

    Args:
        name: The run.
        level: How good it is: medium, expert.
        output: The file; null: among the user's own policies.
        which: Checkpoint of the run.
        episodes: Played to measure its mean return.
        imports: Packages of the user's that the run was made with.
    """
    from rl_lightning.io.checkpoint_files import read_meta

    run = resolve(name)
    agent = load_agent(last_stage(run), Request(checkpoint=which, imports=list(imports)))
    model, config = agent.cli.model.eval(), agent.cli.datamodule.env
    checkpoint, spec = run.checkpoint(which), agent.cli.datamodule.spec
    key = env_key(spec.env_id)
    path = Path(output or data_dir() / "policies" / f"{key}-{level}.safetensors").expanduser()
    network = getattr(getattr(model, "actor", None), "torso", None)
    metadata = {
        "env_id": spec.env_id,
        "level": level,
        "algorithm": type(model).__name__,
        "activation": _activation(network),
        "steps": torch.load(checkpoint, map_location="cpu", weights_only=True).get("env_step"),
    }
    if metadata["steps"] is None and (checkpoint.parent / "meta.json").is_file():
        metadata["steps"] = read_meta(checkpoint.parent)["env_step"]
    write_policy(checkpoint, path, metadata)  # refuses what cannot be published, before anything is played
    policy = PublishedPolicy.load(path)
    returns = {
        "return": _mean_return(config, as_act(policy), episodes, None),
        "sampled_return": _mean_return(config, as_act(policy), episodes, torch_generator(0, "publish")),
        "random_return": _mean_return(config, random_actor(spec), 5 * episodes, torch_generator(0, "random")),
        "return_episodes": episodes,
    }
    write_policy(checkpoint, path, metadata | returns)
    return path, metadata | returns


def published_text(path: Path, about: dict[str, Any]) -> str:
    """A published policy in two lines."""
    return (
        f"{path} ({path.stat().st_size / 1e3:.0f} kB): {about['level']} on {about['env_id']}\n"
        f"return {about['return']:.1f} greedy, {about['sampled_return']:.1f} sampled, "
        f"{about['random_return']:.1f} random"
    )


def _activation(torso: Any) -> str:
    """The name of the non-linearity, as MLP takes it."""
    from rl_lightning.nn.init import ACTIVATIONS

    kinds = {type(layer) for layer in torso.layers} if torso is not None else set()
    return next((name for name, kind in ACTIVATIONS.items() if kind in kinds), "relu")


def _mean_return(config: EnvConfig, act: ActFn, episodes: int, generator: torch.Generator | None) -> float:
    envs = make_envs(config, min(episodes, MOST_ENVS), training=False)
    try:
        results = evaluate(act, no_carry, envs, episodes, derive(0, "publish"), generator, StepCap(envs))
        return float(np.mean([episode.episode_return for episode in results]))
    finally:
        envs.close()
