"""A sweep's YAML, read strictly."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from rl_lightning.errors import ConfigError
from rl_lightning.io.expressions import Expression
from rl_lightning.runs.store.names import check_run_name, did_you_mean
from rl_lightning.runs.store.run_folder import digest
from rl_lightning.sweep.launcher import check_resources
from rl_lightning.sweep.space import Parameter, encode, read_grid, read_space
from rl_lightning.sweep.sweep_keys import CONFIG, check_key

KEYS = (
    "name", "base_config", "grid", "space", "trials", "seeds", "parallel_jobs", "metric", "score", "direction",
    "stage", "overrides", "sampler", "pruner", "constraints", "storage", "retries", "launcher",
)  # fmt: skip
OTHER_WORDS = {
    "sweep": "grid", "params": "grid", "hyperparameters": "grid", "parameters": "space", "search_space": "space",
    "config": "base_config", "base": "base_config", "extends": "base_config", "jobs": "parallel_jobs",
    "n_trials": "trials", "seed": "seeds", "objective": "metric", "method": "sampler",
}  # fmt: skip
ALIASES = {"reward": "eval/return", "return": "eval/return", "loss": "train/loss"}
SCORES = ("last10", "best", "last")
SAMPLERS = {"tpe": {"n_startup_trials", "n_ei_candidates", "seed"}, "random": {"seed"}}
PRUNERS = {
    "none": set[str](),
    "median": {"n_startup_trials", "n_warmup_steps"},
    "hyperband": {"min_resource", "max_resource", "reduction_factor"},
}
LONGEST_NAME = 48  # so that the names of its runs are allowed too


@dataclass(frozen=True)
class SweepDefinition:
    """What a sweep is.

    Args:
        name: Of the sweep, its folder and its study.
        base: Configs that every trial starts from.
        space: What varies.
        points: Of a grid, all of them; None for Optuna.
        trials: How many.
        seeds: Of each trial; the trial's score is their mean.
        jobs: Trainings at a time, in one process.
        metric: What is judged.
        score: How a run's values of it become one number: last10, best or last.
        direction: maximize or minimize.
        stage: Of a pipeline: whose metric; None for the last.
        fixed: Dotted keys that every trial has.
        sampler: Which one, and its options.
        pruner: Which one, and its options.
        constraints: Conditions on a run's metrics that a best trial fulfils.
        storage: sqlite, journal, or a URL of Optuna's.
        retries: How often a crashed training is resumed by itself.
        launcher: Resources that submitit asks the cluster for.
    """

    name: str
    base: list[str]
    space: dict[str, Parameter]
    points: list[dict[str, Any]] | None
    trials: int
    seeds: list[int] = field(default_factory=lambda: [0])
    jobs: int = 1
    metric: str = "eval/return"
    score: str = "last10"
    direction: str = "maximize"
    stage: str | None = None
    fixed: dict[str, Any] = field(default_factory=dict)
    sampler: dict[str, Any] = field(default_factory=lambda: {"name": "tpe"})
    pruner: dict[str, Any] = field(default_factory=lambda: {"name": "none"})
    constraints: list[str] = field(default_factory=list)
    storage: str = "sqlite"
    retries: int = 1
    launcher: dict[str, Any] = field(default_factory=dict)

    def identity(self) -> dict[str, str]:
        """What must not change between starts of a sweep, each as a short hash."""
        space = {
            key: [p.kind, p.low, p.high, p.step, p.log, [encode(c) for c in p.choices]]
            for key, p in self.space.items()
        }
        parts = {
            "base_config": self.base, "grid or space": space, "seeds": self.seeds, "metric": self.metric,
            "score": self.score, "direction": self.direction, "stage": self.stage, "overrides": self.fixed,
            "constraints": self.constraints, "grid": self.points is not None,
        }  # fmt: skip
        return {key: digest(value) for key, value in parts.items()}

    def changed(self, **fields: Any) -> SweepDefinition:
        return replace(self, **fields)


def read_definition(entries: dict[str, Any], name: str) -> SweepDefinition:
    """Checks the YAML of a sweep; `name` is used where it has none."""
    for key in entries:
        if key not in KEYS:
            ours = OTHER_WORDS.get(str(key))
            hint = f"; write {ours}:" if ours else did_you_mean(str(key), KEYS) or f" (allowed: {KEYS})"
            raise ConfigError(f"sweep: unknown key '{key}'{hint}")
    if ("grid" in entries) == ("space" in entries):
        raise ConfigError("a sweep has either grid: (all points) or space: (drawn by Optuna)")
    points = None
    if "grid" in entries:
        space, points = read_grid(entries["grid"])
        if "trials" in entries or "sampler" in entries:
            raise ConfigError("a grid tries all of its points: leave trials and sampler out")
        trials = len(points)
    else:
        space, trials = read_space(entries["space"]), _whole("trials", entries.get("trials", 20), 1)
    base = _texts("base_config", entries.get("base_config", []))
    if not base and CONFIG not in space:
        raise ConfigError("base_config: name the config that the trials start from, e.g. ppo/cartpole")
    fixed = _mapping("overrides", entries.get("overrides"))
    sweep_name = check_run_name(str(entries.get("name") or name))
    if len(sweep_name) > LONGEST_NAME:
        raise ConfigError(
            f"a sweep's name has at most {LONGEST_NAME} characters; '{sweep_name}' has {len(sweep_name)}"
        )
    metric = str(entries.get("metric", "eval/return"))
    return SweepDefinition(
        name=sweep_name, base=base, space=space, points=points, trials=trials, seeds=_seeds(entries.get("seeds", [0])),
        jobs=_whole("parallel_jobs", entries.get("parallel_jobs", 1), 1), metric=ALIASES.get(metric, metric),
        score=_one_of("score", entries.get("score", "last10"), SCORES),
        direction=_one_of("direction", entries.get("direction", "maximize"), ("maximize", "minimize")),
        stage=None if entries.get("stage") is None else str(entries["stage"]),
        fixed={check_key(key): value for key, value in fixed.items()},
        sampler=_chosen("sampler", entries.get("sampler", "tpe"), SAMPLERS),
        pruner=_chosen("pruner", entries.get("pruner", "none"), PRUNERS),
        constraints=[Expression(text).source for text in _texts("constraints", entries.get("constraints", []))],
        storage=str(entries.get("storage", "sqlite")),
        retries=_whole("retries", entries.get("retries", 1), 0),
        launcher=check_resources(_mapping("launcher", entries.get("launcher"))),
    )  # fmt: skip


def _one_of(key: str, value: Any, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise ConfigError(f"{key} is {value!r:.40}; one of {', '.join(choices)}")
    return str(value)


def _whole(key: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 1_000_000:
        raise ConfigError(f"{key} is {value!r:.40}; it must be a whole number of at least {least}")
    return value


def _mapping(key: str, value: Any) -> dict[str, Any]:
    if value is not None and not isinstance(value, dict):
        raise ConfigError(f"{key}: give `key: value` lines, not {value!r:.40}")
    return dict(value or {})


def _texts(key: str, value: Any) -> list[str]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(item, str) for item in values):
        raise ConfigError(f"{key}: give a text or a list of texts, not {value!r:.40}")
    return values


def _seeds(value: Any) -> list[int]:
    if isinstance(value, int) and not isinstance(value, bool):
        value = [value]
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d{1,9})\s*-\s*(\d{1,9})\s*", value)
        value = list(range(int(match.group(1)), int(match.group(2)) + 1)) if match else value
    plain = isinstance(value, list) and all(isinstance(s, int) and not isinstance(s, bool) for s in value)
    if not plain or not value or len(set(value)) < len(value) or min(value) < 0 or len(value) > 1000:
        raise ConfigError(
            f"seeds is {value!r:.60}; write a range (0-4) or a list of different ones ([1, 2, 5])"
        )
    return list(value)


def _chosen(key: str, value: Any, choices: dict[str, set[str]]) -> dict[str, Any]:
    """`tpe`, or `{name: tpe, n_startup_trials: 5}`."""
    entry = {"name": value} if isinstance(value, str) else dict(value) if isinstance(value, dict) else {}
    name = str(entry.get("name"))
    if name not in choices:
        raise ConfigError(f"{key} is {value!r:.60}; one of {', '.join(choices)}{did_you_mean(name, choices)}")
    for option, amount in entry.items():
        if option == "name":
            continue
        if option not in choices[name]:
            known = ", ".join(sorted(choices[name])) or "no options"
            raise ConfigError(f"{key}: {name} has no '{option}' (it takes {known})")
        _whole(f"{key}.{option}", amount, 0)
    return entry
