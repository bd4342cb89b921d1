"""What a sweep varies: the kinds of parameters, and all points of a grid."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass
from typing import Any

from rl_lightning.errors import ConfigError
from rl_lightning.runs.store.names import did_you_mean
from rl_lightning.sweep.sweep_keys import check_key

KINDS = ("log_uniform", "uniform", "int", "categorical")
MAX_POINTS = 100_000
_FIELDS = {
    "log_uniform": {"low", "high"},
    "uniform": {"low", "high", "step"},
    "int": {"low", "high", "step", "log"},
    "categorical": {"choices"},
}


@dataclass(frozen=True)
class Parameter:
    """One key that a sweep varies.

    Args:
        key: Dotted key of the config.
        kind: log_uniform, uniform, int or categorical.
        low: Lowest value.
        high: Highest value.
        step: Distance of two values.
        log: Integers drawn by their logarithm.
        choices: Values of a categorical one.
    """

    key: str
    kind: str
    low: float = 0.0
    high: float = 1.0
    step: float | None = None
    log: bool = False
    choices: tuple[Any, ...] = ()

    def suggest(self, trial: Any) -> Any:
        """A value for this key, drawn by an Optuna trial."""
        if self.kind == "categorical":
            return decode(trial.suggest_categorical(self.key, [encode(choice) for choice in self.choices]))
        if self.kind == "int":
            step = 1 if self.log else int(self.step or 1)
            return trial.suggest_int(self.key, int(self.low), int(self.high), step=step, log=self.log)
        if self.kind == "log_uniform":
            return trial.suggest_float(self.key, self.low, self.high, log=True)
        return trial.suggest_float(self.key, self.low, self.high, step=self.step)


def encode(value: Any) -> Any:
    """A choice as Optuna can store it: lists and mappings become text."""
    if isinstance(value, str):
        return f"json:{json.dumps(value)}" if value.startswith("json:") else value
    return f"json:{json.dumps(value, sort_keys=True)}" if isinstance(value, list | dict) else value


def decode(value: Any) -> Any:
    return json.loads(value[5:]) if isinstance(value, str) and value.startswith("json:") else value


def read_space(space: Any) -> dict[str, Parameter]:
    """The `space:` of a sweep."""
    if not isinstance(space, dict) or not space:
        raise ConfigError("space: give `key: {type: log_uniform, low: 1e-5, high: 1e-2}` lines")
    return {check_key(key): _parameter(str(key), entry) for key, entry in space.items()}


def _parameter(key: str, entry: Any) -> Parameter:
    if not isinstance(entry, dict) or "type" not in entry:
        raise ConfigError(f"space.{key}: write {{type: ..., ...}} with a type of {', '.join(KINDS)}")
    kind = str(entry["type"])
    if kind not in KINDS:
        raise ConfigError(f"space.{key}.type is '{kind}'{did_you_mean(kind, KINDS) or f'; one of {KINDS}'}")
    unknown = [name for name in entry if name not in _FIELDS[kind] | {"type"}]
    if unknown:
        raise ConfigError(
            f"space.{key}: {kind} has no '{unknown[0]}' (it takes {', '.join(sorted(_FIELDS[kind]))})"
        )
    if kind == "categorical":
        return Parameter(key, kind, choices=tuple(_choices(f"space.{key}.choices", entry.get("choices"))))
    low, high = (_number(key, name, entry.get(name)) for name in ("low", "high"))
    log = bool(entry.get("log", False))
    if low >= high:
        raise ConfigError(f"space.{key}: low ({low:g}) must lie below high ({high:g})")
    if (kind == "log_uniform" or log) and low <= 0:
        raise ConfigError(f"space.{key}: low is {low:g}; a logarithm needs a positive one")
    if kind == "int" and not (low.is_integer() and high.is_integer()):
        raise ConfigError(f"space.{key}: low and high of an int are whole numbers")
    step = None if entry.get("step") is None else _number(key, "step", entry["step"])
    if step is not None and (step <= 0 or log):
        raise ConfigError(f"space.{key}: step must be positive, and log takes none")
    return Parameter(key, kind, low, high, step, log)


def _number(key: str, name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(f"space.{key}.{name} is {value!r:.40}; it must be a number")
    return float(value)


def _choices(where: str, values: Any) -> list[Any]:
    if not isinstance(values, list) or not values:
        raise ConfigError(f"{where}: give a list of values")
    texts = [json.dumps(value, sort_keys=True, default=str) for value in values]
    doubled = [text for text in texts if texts.count(text) > 1]
    if doubled:
        raise ConfigError(f"{where}: {doubled[0]:.60} is there twice")
    return values


def read_grid(grid: Any) -> tuple[dict[str, Parameter], list[dict[str, Any]]]:
    """The `grid:` of a sweep, and all its points; the last key changes fastest."""
    if not isinstance(grid, dict) or not grid:
        raise ConfigError("grid: give `key: [values]` lines")
    space = {
        check_key(key): Parameter(str(key), "categorical", choices=tuple(_choices(f"grid.{key}", values)))
        for key, values in grid.items()
    }
    count = math.prod(len(parameter.choices) for parameter in space.values())
    if count > MAX_POINTS:
        raise ConfigError(f"grid: has {count:,} points; {MAX_POINTS:,} are allowed")
    rows = itertools.product(*(parameter.choices for parameter in space.values()))
    return space, [dict(zip(space, row, strict=True)) for row in rows]
