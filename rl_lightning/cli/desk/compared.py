"""The runs that a command line names, compared; what compare, export and report have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rl_lightning.cli.flags import ParsedArgs
from rl_lightning.errors import ConfigError
from rl_lightning.runs.store.select_runs import several

if TYPE_CHECKING:
    from rl_lightning.analysis.compare import Comparison
    from rl_lightning.runs.store.run_folder import Run

STATISTICS = ("metrics", "threshold", "optimal", "against")


def compared(parsed: ParsedArgs, command: str) -> tuple[Comparison, dict[str, list[Run]]]:
    several(parsed.words, command)
    metrics = [word.strip() for word in (parsed.get("metrics") or "reward").split(",") if word.strip()]
    if not metrics:
        raise ConfigError("--metrics takes names with commas between, e.g. eval/return,train/loss")
    from rl_lightning.analysis.compare import compare_named

    threshold, optimal = parsed.number("threshold"), parsed.number("optimal")
    return compare_named(parsed.words, metrics, threshold, optimal, parsed.get("against"))
