"""`rl rank`: checkpoints by each estimator of what their policies are worth, and how well it agrees with the truth."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import lightning.pytorch as lightning
import torch
from torch import Tensor

from rl_lightning.algorithms.offline.fqe import FQE
from rl_lightning.analysis.stats_table import Table, aligned
from rl_lightning.artifacts import load_exported
from rl_lightning.datamodules.offline_data import OfflineData
from rl_lightning.datasets import Dataset, load_dataset
from rl_lightning.envs.make import EnvConfig, make_envs
from rl_lightning.envs.model_env.learned_env import ModelSettings, learned_env
from rl_lightning.envs.model_env.model_envs import ModelEnvs
from rl_lightning.errors import ConfigError
from rl_lightning.functional.off_policy.importance import (
    doubly_robust,
    episode_layout,
    laid_out,
    spearman,
    weighted_importance_sampling,
)
from rl_lightning.functional.score_statistics import mean
from rl_lightning.io.checkpoint_files import read_meta
from rl_lightning.io.text import number
from rl_lightning.models.likelihood import log_likelihood
from rl_lightning.rollout.evaluate import StepCap, evaluate
from rl_lightning.runs.store.run_folder import Run

SEED, MOST_ENVS, PIECE = 0, 16, 10_000
ESTIMATORS = ("model", "fqe", "wis", "dr")
Say = Callable[[str], None]


@dataclass(frozen=True)
class RankRequest:
    """What is to be ranked, and by what.

    Args:
        data: Data set that values are estimated from.
        behavior: Artifact of a policy that tells how likely the recorded actions were; null: no weights, so neither
            importance sampling nor doubly robust values.
        dynamics: Artifact of a dynamics stage that policies are played in; null: none.
        env: Id of the env where the truth is known; null: none.
        episodes: Played in the model and in the env, of each policy.
        updates: Of fitted-Q evaluation, for each policy.
        hidden_dims: Hidden sizes of its critics.
        gamma: Discount of all but what is played.
        horizon: Steps of an episode in the model; null: its own.
    """

    data: str
    behavior: str | None = None
    dynamics: str | None = None
    env: str | None = None
    episodes: int = 20
    updates: int = 5000
    hidden_dims: tuple[int, ...] = (128, 128)
    gamma: float = 0.99
    horizon: int | None = None


class Candidate(NamedTuple):
    """A checkpoint."""

    name: str
    path: Path


def candidates(runs: Sequence[Run], checkpoints: Sequence[str] = ()) -> list[Candidate]:
    """Those named of every run; else all milestones, and the newest checkpoint."""
    chosen = []
    for run in runs:
        names = list(checkpoints) or [*milestones(run), *newest(run)]
        chosen += [Candidate(f"{run.name} {name}", run.checkpoint(name)) for name in names]
    if len(chosen) < 2:
        raise ConfigError(
            "there is one checkpoint, and nothing to rank. Keep more of them: rl fit ... --milestone_every N"
        )
    return chosen


def milestones(run: Run) -> list[str]:
    """Oldest first."""
    names = [path.parent.name for path in (run.folder / "checkpoints").glob("step-*/model.ckpt")]
    return sorted(names, key=lambda name: int(name.rpartition("-")[2]))


def newest(run: Run) -> list[str]:
    """`last`, unless it is the last milestone."""
    saved, last = milestones(run), run.checkpoint("last").parent
    if not saved or not (last / "meta.json").is_file():
        return ["last"]
    clocks = [
        (read_meta(folder)["env_step"], read_meta(folder)["update"])
        for folder in (last, run.checkpoint(saved[-1]).parent)
    ]
    return [] if clocks[0] == clocks[1] else ["last"]


def rank_checkpoints(chosen: Sequence[Candidate], asked: RankRequest, say: Say) -> dict[str, Any]:
    """A row for each checkpoint with its estimates, and Spearman's correlation of each estimator with the truth."""
    rows = load_dataset(asked.data)
    behavior = None
    if asked.behavior is not None:
        policy = load_exported(asked.behavior, "policy")
        behavior = in_pieces(lambda o, a: log_likelihood(policy, o, a, str(asked.behavior)), rows)
    world = None
    if asked.dynamics is not None:
        world = learned_env(ModelSettings(asked.dynamics, dataset=asked.data, horizon=asked.horizon))
    table = []
    for place, candidate in enumerate(chosen, 1):
        say(f"{place} of {len(chosen)}: {candidate.name}")
        row: dict[str, Any] = {"checkpoint": candidate.name}
        policy = load_exported(candidate.path, "policy")
        if asked.env is not None:
            row["true"] = played(policy, env_of(asked), asked.episodes)
        if world is not None:
            row["model"] = played(policy, ModelEnvs(world, min(MOST_ENVS, asked.episodes)), asked.episodes)
        row |= estimates(candidate, policy, rows, behavior, asked)
        table.append(row)
    return {"rows": table, "spearman": correlations(table), "asked": vars(asked)}


def env_of(asked: RankRequest) -> Any:
    assert asked.env is not None
    return make_envs(EnvConfig(asked.env), min(MOST_ENVS, asked.episodes), training=False)


def played(policy: Any, envs: Any, episodes: int) -> float:
    """Mean return of the policy as it draws its actions."""

    def act(obs: Tensor, carry: Any, generator: torch.Generator | None, mask: Tensor | None = None) -> Any:
        assert generator is not None
        with torch.no_grad():
            return policy.choose(obs, generator, greedy=False), carry

    draw = torch.Generator().manual_seed(SEED)
    try:
        return mean(
            [e.episode_return for e in evaluate(act, lambda n: (), envs, episodes, SEED, draw, StepCap(envs))]
        )
    finally:
        envs.close()


def estimates(
    candidate: Candidate, policy: Any, rows: Dataset, behavior: Tensor | None, asked: RankRequest
) -> dict[str, float]:
    """By fitted-Q evaluation and, where it is known how likely the recorded actions were, weighted by that."""
    critic = fitted(candidate.path, asked)
    values = critic.values(rows.obs).mean(0)
    first = rows.episode.diff(prepend=rows.episode[:1] - 1) != 0
    known = {"fqe": float(values[first].double().mean())}
    if behavior is None:
        return known
    target = in_pieces(lambda o, a: log_likelihood(policy, o, a, candidate.name), rows)
    place, step = episode_layout(rows.episode)
    ratio, reward, value = (laid_out(part, place, step) for part in (target - behavior, rows.reward, values))
    alive = laid_out(torch.ones_like(rows.reward), place, step) > 0
    q = laid_out(in_pieces(lambda o, a: taken(critic, o, a), rows), place, step)
    ends = torch.cat([first[1:], torch.tensor([True])])
    after = critic.values(rows.next_obs[ends]).mean(0) * (1.0 - rows.terminated[ends].float())
    wis = weighted_importance_sampling(ratio, reward, alive, asked.gamma)
    robust = doubly_robust(ratio, reward, q, value, after.double(), alive, asked.gamma)
    return known | {"wis": wis.value, "dr": robust.value, "effective_episodes": wis.effective_episodes}


def fitted(path: Path, asked: RankRequest) -> FQE:
    """Critics of the policy as it draws its actions."""
    lightning.seed_everything(SEED, verbose=False)
    make: Any = OfflineData  # its budget and seed are arguments of every DataModule
    data = make(asked.data, updates=asked.updates, eval_every=None, seed=SEED)
    critic = FQE(
        data.spec,
        path,
        num_critics=2,
        hidden_dims=list(asked.hidden_dims),
        stochastic=True,
        plateau=None,
        gamma=asked.gamma,
    )
    trainer = lightning.Trainer(
        max_steps=asked.updates,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(critic, datamodule=data)
    return critic.eval()


@torch.no_grad()
def taken(critic: FQE, obs: Tensor, action: Tensor) -> Tensor:
    return critic.q_target(critic.norm(obs), critic.code(action)).mean(0)


def in_pieces(say: Callable[[Tensor, Tensor], Tensor], rows: Dataset) -> Tensor:
    """A number for each recorded action."""
    pairs = zip(rows.obs.split(PIECE), rows.action.split(PIECE), strict=True)
    return torch.cat([say(obs.float(), action) for obs, action in pairs])


def correlations(table: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Of each estimator's order with that of true returns; nothing where no truth is known."""
    if "true" not in table[0]:
        return {}
    truth = [row["true"] for row in table]
    present = [name for name in ESTIMATORS if name in table[0]]
    return {name: spearman([row[name] for row in table], truth) for name in present}


def ranking_text(result: dict[str, Any]) -> str:
    """Estimates with their ranks, best first by the truth, else by what is the most trusted of those there are."""
    rows = result["rows"]
    columns = [name for name in ("true", *ESTIMATORS) if name in rows[0]]
    by = next(name for name in ("true", "dr", "fqe", "model") if name in columns)
    ranks = {
        name: {row["checkpoint"]: place for place, row in enumerate(sorted(rows, key=lambda r: -r[name]), 1)}
        for name in columns
    }
    lines = [
        [row["checkpoint"], *(f"{number(row[name])} ({ranks[name][row['checkpoint']]})" for name in columns)]
        + ([number(row["effective_episodes"])] if "effective_episodes" in row else [])
        for row in sorted(rows, key=lambda r: -r[by])
    ]
    head = ["checkpoint", *columns] + (["episodes in wis"] if "effective_episodes" in rows[0] else [])
    if result["spearman"]:
        texts = {name: f"{value:.2f}" for name, value in result["spearman"].items() if not math.isnan(value)}
        lines.append(["Spearman with true", *(texts.get(name, "-") for name in columns)])
        lines[-1] += [""] * (len(head) - len(lines[-1]))
    return aligned(Table(head, lines))
