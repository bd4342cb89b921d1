"""Runs by what is known of them: conditions on any field, setting or metric, and an order."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from rl_lightning.errors import ConfigError
from rl_lightning.runs.store.flat_settings import setting
from rl_lightning.runs.store.index import RunEntry
from rl_lightning.runs.store.metrics_file import lower_is_better, real_name
from rl_lightning.runs.store.names import did_you_mean

SETTINGS = ("model", "data", "run", "trainer", "log", "stages", "shared")
FIRST_HIGHEST = ("best", "last10", "env_step", "update", "created", "updated")
SCORES = (
    "eval/return",
    "eval/score",
    "reward",
    "return",
    "score",
)  # all of them mean a run's best evaluation
OTHER_WORDS = {
    "environment": "env", "env_id": "env", "task": "env", "algo": "algorithm", "alg": "algorithm", "agent": "algorithm",
    "steps": "env_step", "env_steps": "env_step", "timesteps": "env_step", "updates": "update", "tag": "tags",
    "date": "created", "time": "created", "state": "status", "last_10": "last10", "run": "name", "seeds": "seed",
}  # fmt: skip
_CONDITION = re.compile(r"\s*([^=!<>~]+?)\s*(==|!=|>=|<=|=|>|<|~)\s*(.*?)\s*", re.DOTALL)


class Condition(NamedTuple):
    """One `--filter`."""

    key: str
    sign: str
    value: str

    def holds(self, run: RunEntry) -> bool:
        have = value_of(run, self.key)
        if self.sign in ("=", "==", "!="):
            return _equal(have, self.value) == (self.sign != "!=")
        if have is None:
            return False
        if self.sign == "~":
            return self.value.casefold() in str(have).casefold()
        mine, wanted = _as_number(have), _as_number(self.value)
        a: Any = mine if mine is not None and wanted is not None else str(have)
        b: Any = wanted if mine is not None and wanted is not None else self.value
        return bool({">": a > b, "<": a < b, ">=": a >= b, "<=": a <= b}[self.sign])


def parse_condition(text: str) -> Condition:
    match = _CONDITION.fullmatch(text)
    if not match:
        raise ConfigError(f"--filter takes KEY=VALUE (or != > >= < <= and ~ for 'contains'), not '{text}'")
    condition = Condition(*match.groups())
    if not condition.value and condition.sign not in ("=", "==", "!="):
        raise ConfigError(f"--filter '{text.strip()}' compares with nothing; write e.g. '{text.strip()}100'")
    return condition


def keep(runs: Sequence[RunEntry], conditions: Iterable[Condition]) -> list[RunEntry]:
    """The runs for which all conditions hold; a key that no run knows is refused."""
    matching = list(runs)
    for condition in conditions:
        check_key(condition.key, runs, "--filter")
        matching = [run for run in matching if condition.holds(run)]
    return matching


def order(runs: Sequence[RunEntry], key: str, reverse: bool = False) -> list[RunEntry]:
    """By a field, setting or metric: scores and clocks highest first, all else lowest first; unknown ones last."""
    check_key(key, runs, "--sort")
    metric = "/" in key or key in ("reward", "return", "score")
    highest = key in FIRST_HIGHEST or (metric and not lower_is_better(key))
    values = [(value_of(run, key), run) for run in runs]
    known = [(value, run) for value, run in values if value is not None and not _is_nan(value)]
    known.sort(key=lambda pair: _rank(pair[0]), reverse=highest != reverse)
    return [run for _, run in known] + [run for value, run in values if value is None or _is_nan(value)]


def value_of(run: RunEntry, key: str) -> Any:
    """A field of the record, a setting of the config, or the newest value of a metric."""
    if key in ("name", "status"):
        return getattr(run, key)
    if key in SCORES and run.record.get("best") is not None:
        return run.record["best"]
    if key.split(".")[0] in SETTINGS:
        return setting(run.config, key)
    if "/" in key or key in SCORES or key == "loss":
        column = real_name(key, list(run.metrics))
        return None if column is None else run.metrics[column]
    value: Any = run.record
    for word in key.split("."):
        value = value.get(word) if isinstance(value, dict) else None
    return setting(run.config, key) if value is None and key in ("threads", "seed_everything") else value


def check_key(key: str, runs: Sequence[RunEntry], option: str) -> None:
    """Refuses a key that is nowhere, with the nearest that is somewhere."""
    if not runs or any(_knows(run, key) for run in runs):
        return
    known: dict[str, None] = {}
    for run in runs[:50]:
        known |= dict.fromkeys(["name", "status", *SCORES, *run.record])
        known |= dict.fromkeys(run.metrics if "/" in key else run.config if "." in key else ())
    raise ConfigError(f"{option}: no run knows '{key}'{_hint(key, known, runs)}")


def _hint(key: str, known: Iterable[str], runs: Sequence[RunEntry]) -> str:
    """Our word for it, a setting that ends with it, or what is spelled nearly the same."""
    ours = OTHER_WORDS.get(key.casefold())
    if ours is None:
        ours = next(
            (name for run in runs[:50] for name in run.config if name.rpartition(".")[2] == key), None
        )
    return f"; it is called '{ours}' here" if ours else did_you_mean(key, known)


def _knows(run: RunEntry, key: str) -> bool:
    head = key.split(".")[0]
    return key == "name" or key == "status" or head in run.record or value_of(run, key) is not None


def _equal(have: Any, wanted: str) -> bool:
    if isinstance(have, list):
        return any(_equal(item, wanted) for item in have) or _squeezed(have) == _squeezed(wanted)
    if have is None:
        return wanted.casefold() in ("none", "null", "-", "")
    a, b = _as_number(have), _as_number(wanted)
    if a is not None and b is not None:
        return math.isclose(a, b, rel_tol=1e-9)
    return str(have).casefold() == wanted.casefold()


def _squeezed(value: Any) -> str:
    return re.sub(r"[\[\]\s'\"]", "", str(value)).casefold()


def _as_number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _rank(value: Any) -> tuple[int, float, str]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return 0, float(value), ""
    return 1, 0.0, str(value)
