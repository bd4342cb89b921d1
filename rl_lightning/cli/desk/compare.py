"""`rl compare`."""

from __future__ import annotations

import sys
from pathlib import Path

from rl_lightning.cli.desk.compared import STATISTICS, compared
from rl_lightning.cli.flags import ParsedArgs, parse
from rl_lightning.cli.outputs import PICTURES, output_file


def compare(words: list[str]) -> int:
    """runs or groups of seeds side by side, with intervals; --plot draws them

    usage: rl compare NAME... [options]

    Groups of runs side by side: last-10 mean, best, IQM with 95% bootstrap interval, median, optimality gap, area
    under the curve, steps to a threshold, chance of being better than the first, and the settings that differ.
    [GROUPS]

      rl compare lr1e-4 base --metrics eval/return,train/loss
      rl compare lr1e-4 base --plot curves.png --against time

    [STATISTICS]
      --plot [FILE.png]       curves with intervals (default compare.png; .pdf and .svg too)
      --output FILE           the same, for --plot without a name
      --format table|latex|csv|json|markdown
    """
    parsed = parse(words, (*STATISTICS, "format", "output"), ("plot",), command="compare")
    target = _plot_target(parsed)
    if parsed.has("plot"):
        target = output_file(str(target), target, PICTURES)
    comparison, _ = compared(parsed, "compare")
    form = parsed.get("format") or "table"
    if form in ("table", "text"):
        print(comparison)
    else:
        from rl_lightning.analysis.export.tables import export

        sys.stdout.write(export(comparison, form))
    if parsed.has("plot"):
        for path in comparison.plot_all(target):
            print(f"\n{path}")
    return 0


def _plot_target(parsed: ParsedArgs) -> Path:
    """`--plot`, `--plot=FILE` or `--plot --output FILE`; `--plot FILE` too, which reads as one more run."""
    pictures = [word for word in parsed.words if word.lower().endswith((".png", ".pdf", ".svg"))]
    if pictures and parsed.has("plot"):
        parsed.words.remove(pictures[-1])
        return Path(pictures[-1])
    plot = parsed.get("plot")
    named = plot if plot and plot.lower() not in ("true", "1", "yes") else None
    return Path(parsed.get("output") or named or "compare.png")
