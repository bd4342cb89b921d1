"""`rl report`."""

from __future__ import annotations

from pathlib import Path

from rl_lightning.cli.desk.compared import STATISTICS, compared
from rl_lightning.cli.flags import parse
from rl_lightning.io.text import file_size


def report(words: list[str]) -> int:
    """the same as one page to send, with curves, videos and configs

    usage: rl report NAME... [--output report.html] [options]

    One page with curves, tables, settings, configs and small videos of all runs given. It stands alone: no network,
    no script, good on a phone and on paper.
    [GROUPS]

      rl report lr1e-4 base --output report.html
      rl report gormpo-demo-1                       a pipeline, by its stages

      --output FILE.html      (default report.html)
      --title TEXT            (default: the names)
    [STATISTICS]
    """
    parsed = parse(words, (*STATISTICS, "output", "title"), command="report")
    comparison, groups = compared(parsed, "report")
    from rl_lightning.analysis.export.tables import write_output
    from rl_lightning.analysis.report.make_report import report as make_page
    from rl_lightning.analysis.report.stage_table import pipeline_table

    stages = [table for word in parsed.words if (table := pipeline_table(word)) is not None]
    page = make_page(comparison, groups, parsed.get("title"), stages)
    path = write_output(Path(parsed.get("output") or "report.html"), page)
    print(f"{path} ({file_size(len(page.encode()))}, opens anywhere)")
    return 0
