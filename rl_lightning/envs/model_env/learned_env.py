"""A learned model with all that makes an env of it: starts, an end, and how far each step is to be trusted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from rl_lightning.artifacts import exported_file, find_class, load_exported
from rl_lightning.datasets.dataset import Dataset
from rl_lightning.datasets.load import load_dataset
from rl_lightning.datasets.rows.end_rule import end_rule, rule_or_never
from rl_lightning.datasets.rows.holdout import ASSESSED, split_rows
from rl_lightning.envs import termination as rules
from rl_lightning.envs.termination import Termination
from rl_lightning.errors import ConfigError
from rl_lightning.io.artifact_place import locate_artifact, logs_root
from rl_lightning.models.density.calibrated import CalibratedDensity
from rl_lightning.models.dynamics.ensemble_dynamics import EnsembleDynamics
from rl_lightning.types import EnvSpec


class LearnedStep(NamedTuple):
    """One step of rows in a learned model."""

    next_obs: Tensor  # [B, O]
    reward: Tensor  # [B] in the data's own units
    terminated: Tensor  # [B] bool
    below: Tensor  # [B] bool: less likely than the density's threshold; False without a density
    disagreement: (
        Tensor  # [B] root mean square over signals of the elites' spread, in the data's standard deviations
    )


@dataclass(frozen=True)
class ModelSettings:
    """What an env is made of.

    Args:
        dynamics: Artifact of a dynamics stage.
        density: Artifact of a density stage; null: nothing is said of how likely a step is.
        dataset: Where episodes start; null: what the dynamics were learned from.
        termination: When an episode ends: a rule, or the name of its class; null: by the data set's env, or never where
            no recorded row is terminal.
        horizon: Steps after which an episode is cut; null: the data set's time limit, or its longest episode.
        percentile: Percentage of held-out rows that lie below the density's threshold.
        starts: First observations of held-out episodes, or any held-out row.
    """

    dynamics: str
    density: str | None = None
    dataset: str | None = None
    termination: Termination | str | None = None
    horizon: int | None = None
    percentile: float = 1.0
    starts: Literal["episodes", "rows"] = "episodes"

    def __post_init__(self) -> None:
        if self.horizon is not None and self.horizon < 1:
            raise ConfigError(f"horizon is {self.horizon}; it must be at least 1")
        if self.starts not in ("episodes", "rows"):
            raise ConfigError(f"starts is '{self.starts}'; choose episodes or rows")


class LearnedEnv:
    """Rows that go on in a learned model, each from a held-out start.

    Args:
        dynamics: What comes next.
        spec: What observations and actions are like; its time limit is the horizon.
        starts: Observations [K, O] that episodes begin with.
        termination: When an episode ends.
        density: Scores steps; null: nobody does.
        percentile: Percentage of held-out rows below its threshold.
        reward_scale: What the model's rewards were multiplied by when it learned them.
        reward_shift: What was added to them then.
        recorded_return: Mean return of the held-out episodes, by whoever acted in them.
    """

    def __init__(
        self,
        dynamics: EnsembleDynamics,
        spec: EnvSpec,
        starts: Tensor,
        termination: Termination,
        density: CalibratedDensity | None = None,
        percentile: float = 1.0,
        reward_scale: float = 1.0,
        reward_shift: float = 0.0,
        recorded_return: float | None = None,
    ) -> None:
        self.dynamics, self.spec, self.starts, self.termination = dynamics, spec, starts, termination
        self.density, self.percentile = density, percentile
        self.reward_scale, self.reward_shift = reward_scale, reward_shift
        self.recorded_return = recorded_return
        self.threshold = None if density is None else density.threshold(percentile)

    @property
    def horizon(self) -> int:
        assert self.spec.max_episode_steps is not None
        return self.spec.max_episode_steps

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Starts of so many episodes.  -> [count, O]"""
        return self.starts[torch.randint(len(self.starts), (count,), generator=generator)]

    @torch.no_grad()
    def step(self, obs: Tensor, action: Tensor, generator: torch.Generator) -> LearnedStep:
        """Where rows lead, by one elite drawn for each.  [B, O], [B, A]"""
        step = self.dynamics.step(obs, action, generator)
        finite = step.next_obs.isfinite().all(-1) & step.reward.isfinite()
        next_obs = torch.where(finite[:, None], step.next_obs, obs)
        learned = torch.where(finite, step.reward, 0.0)
        below = torch.zeros_like(finite)
        if self.density is not None and self.threshold is not None:
            rows = self.density.rows(obs, action, next_obs, learned)
            below = self.density.score(rows) < self.threshold
        ended = self.termination(next_obs) | ~finite
        reward = (learned - self.reward_shift) / self.reward_scale if self.reward_scale else learned
        return LearnedStep(next_obs, reward, ended, below, self.disagreement(obs, action))

    @torch.no_grad()
    def disagreement(self, obs: Tensor, action: Tensor) -> Tensor:
        """How far the elites' predictions lie apart: 0 is all alike, 1 the spread of the data themselves.  -> [B]"""
        means = self.dynamics.predict(obs, action)[0][self.dynamics.elites][..., :-1]
        width = means.std(0, correction=0) / self.dynamics.input_std[: self.dynamics.obs_dim]
        return width.square().mean(-1).sqrt().nan_to_num(nan=torch.inf).clamp_max(1e6)


def learned_env(settings: ModelSettings) -> LearnedEnv:
    """The env of a finished dynamics stage; the same one again while its artifact stays as it is."""
    place = locate_artifact(settings.dynamics, "dynamics").path
    changed = (place if place.is_file() else place / "artifact.json").stat().st_mtime_ns
    return _made(settings, str(place), changed)


@lru_cache(maxsize=4)  # every env of a vector shares one model
def _made(settings: ModelSettings, place: str, changed: int) -> LearnedEnv:
    about = exported_file(settings.dynamics)
    data = _arguments(about, "data")
    name = settings.dataset or data.get("dataset")
    if not isinstance(name, str):
        raise ConfigError(f"{settings.dynamics} does not say what it learned from; give it: dataset NAME")
    dynamics, rows = load_exported(settings.dynamics, "dynamics"), load_dataset(name)
    if not isinstance(dynamics, EnsembleDynamics):
        raise ConfigError(
            f"{settings.dynamics}: {type(dynamics).__name__} is no model that an env is made of"
        )
    wanted = (dynamics.obs_dim, dynamics.action_dim)
    if (rows.spec.obs_shape, rows.spec.action_dim) != ((wanted[0],), wanted[1]):
        raise ConfigError(
            f"{settings.dynamics}: a model of {wanted[0]} signals and {wanted[1]} actions; {name} has "
            f"{list(rows.spec.obs_shape)} and {rows.spec.action_dim}"
        )
    if isinstance(first := data.get("max_episodes"), int):
        rows = rows.first(first)
    held = held_out(rows, data, int(about.get("seed_everything") or 0))
    horizon = settings.horizon or rows.spec.max_episode_steps or int(rows.lengths().max())
    spec = rows.spec._replace(env_id="rl/Model-v0", max_episode_steps=horizon, action_repeat=1)
    rule = settings.termination or end_rule_of(rows, data)
    return LearnedEnv(
        dynamics,
        spec,
        starts_of(rows, held, settings.starts),
        rule if isinstance(rule, Termination) else rule_named(rule),
        density_for(settings),
        settings.percentile,
        float(data.get("reward_scale") or 1.0),
        float(data.get("reward_shift") or 0.0),
        recorded_return(rows, held),
    )


def held_out(rows: Dataset, data: dict[str, Any], seed: int) -> Tensor:
    """Numbers of the rows that the model has never seen; all of them where it was told to hold out none."""
    fraction = data.get("val_fraction")
    split: Literal["episode", "transition"] = "transition" if data.get("split") == "transition" else "episode"
    held = split_rows(rows.recording, ASSESSED if fraction is None else float(fraction), split, seed)[1]
    return held if len(held) else torch.arange(rows.rows)


def starts_of(rows: Dataset, held: Tensor, starts: str) -> Tensor:
    """Observations that episodes begin with, among the rows held out.  -> [K, O]"""
    if starts == "rows":
        return rows.obs[held].float()
    first = rows.recording.diff(prepend=rows.recording[:1] - 1) != 0
    chosen = held[first[held]]
    return rows.obs[chosen if len(chosen) else held].float()


def recorded_return(rows: Dataset, held: Tensor) -> float | None:
    """Mean return of the episodes held out; None where single rows were."""
    whole = torch.unique(rows.episode[held])
    if not bool(torch.isin(rows.episode, whole).sum() == len(held)) or "rewards" in rows.missing:
        return None
    return float(rows.returns()[whole].mean())


def end_rule_of(rows: Dataset, data: dict[str, Any]) -> Termination:
    """By the env that the data name, or that their stage was told."""
    env = data.get("env")
    env_id = env.get("id") if isinstance(env, dict) else None
    try:
        return rule_or_never(end_rule(rows, str(env_id or rows.spec.env_id)))
    except ConfigError as error:
        raise ConfigError(str(error).replace("--data.termination", "termination:")) from None


def rule_named(name: str) -> Termination:
    """A rule by the name of its class: of ours alone, or in full, of a package that was imported."""
    there = find_class(name, "termination") if "." in name else vars(rules).get(name)
    if not isinstance(there, type) or not issubclass(there, Termination):
        known = sorted({rule.__name__ for rule in rules.FAMILIES.values()})
        raise ConfigError(f"termination '{name}' is unknown; there are {', '.join(known)}")
    return there()


def density_for(settings: ModelSettings) -> CalibratedDensity | None:
    if settings.density is None:
        return None
    density = load_exported(settings.density, "density")
    if not isinstance(density, CalibratedDensity):
        raise ConfigError(f"{settings.density} exports a {type(density).__name__}; a density is needed here")
    return density


def _arguments(about: dict[str, Any], group: str) -> dict[str, Any]:
    part = about.get(group)
    arguments = part.get("init_args") if isinstance(part, dict) else None
    return dict(arguments) if isinstance(arguments, dict) else {}


def artifact_name(path: str | Path) -> str:
    """What a title calls an artifact: by its run, where it lies below the runs."""
    name, root = str(path).removesuffix("/artifact"), str(logs_root().resolve())
    return name.removeprefix(f"{root}/")
