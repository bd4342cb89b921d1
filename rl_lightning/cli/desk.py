"""The researcher's desk: compare, export, report, cleanup. None of them needs torch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rl_lightning.cli.flags import Parsed, parse
from rl_lightning.cli.outputs import PICTURES, output_file
from rl_lightning.errors import ConfigError
from rl_lightning.experiments.index import Index
from rl_lightning.experiments.names import did_you_mean
from rl_lightning.experiments.select import choose, several
from rl_lightning.experiments.stats_table import printable

if TYPE_CHECKING:
    from rl_lightning.experiments.compare import Comparison
    from rl_lightning.experiments.runs import Run

NUMBERED = ("metrics", "threshold", "optimal", "against")


def compare(words: list[str]) -> int:
    parsed = parse(words, (*NUMBERED, "format", "output"), ("plot",), command="compare")
    target = _plot_target(parsed)
    if parsed.has("plot"):
        target = output_file(str(target), target, PICTURES)
    result, _ = compared(parsed, "compare")
    form = parsed.get("format") or "table"
    if form in ("table", "text"):
        print(str(result))
    else:
        _write(_exported(result, form), None)
    if parsed.has("plot"):
        from rl_lightning.experiments.plot import save_bands

        for metric in result.metrics:
            path = target if len(result.metrics) == 1 else _suffixed(target, metric)
            print(f"\n{save_bands(result.bands[metric], metric, path)}")
    return 0


def _plot_target(parsed: Parsed) -> Path:
    """`--plot`, `--plot=FILE` or `--plot --output FILE`; `--plot FILE` too, which reads as one more run."""
    pictures = [word for word in parsed.words if word.lower().endswith((".png", ".pdf", ".svg"))]
    if pictures and parsed.has("plot"):
        parsed.words.remove(pictures[-1])
        return Path(pictures[-1])
    given = parsed.get("plot")
    named = given if given and given.lower() not in ("true", "1", "yes") else None
    return Path(parsed.get("output") or named or "compare.png")


def _suffixed(path: Path, metric: str) -> Path:
    from rl_lightning.experiments.names import slug

    return path.with_name(f"{path.stem}-{slug(metric)}{path.suffix or '.png'}")


def compared(parsed: Parsed, command: str) -> tuple[Comparison, dict[str, list[Run]]]:
    """The runs that a command line names, compared."""
    several(parsed.words, command)
    from rl_lightning.experiments.compare import compare as compare_groups

    metrics = [word.strip() for word in (parsed.get("metrics") or "reward").split(",") if word.strip()]
    if not metrics:
        raise ConfigError("--metrics takes names with commas between, e.g. eval/return,train/loss")
    with Index() as index:
        groups = choose(parsed.words, index)
    threshold, optimal = (_number(parsed, name) for name in ("threshold", "optimal"))
    return compare_groups(groups, metrics, threshold, optimal, parsed.get("against")), groups


def _number(parsed: Parsed, name: str) -> float | None:
    text = parsed.get(name)
    try:
        return None if text is None else float(text)
    except ValueError:
        raise ConfigError(f"--{name} takes a number, not '{text}'") from None


def export(words: list[str]) -> int:
    """Tables of runs; or, with onnx and safetensors, a policy."""
    if {"onnx", "safetensors"} & {word.removeprefix("--format=") for word in words}:
        from rl_lightning.cli.export_policy import export_policy

        return export_policy(words)
    parsed = parse(words, (*NUMBERED, "format", "output"), command="export")
    result, _ = compared(parsed, "export")
    _write(_exported(result, parsed.get("format") or "markdown"), parsed.get("output"))
    return 0


def _exported(result: Comparison, form: str) -> str:
    from rl_lightning.experiments.export import FORMATS
    from rl_lightning.experiments.export import export as export_as

    if form not in FORMATS:
        choices = (*FORMATS, "onnx", "safetensors")
        raise ConfigError(f"--format takes {', '.join(choices)}, not '{form}'{did_you_mean(form, choices)}")
    return export_as(result, form)


def _write(text: str, output: str | None) -> None:
    if output is None:
        sys.stdout.write(text)
        return
    from rl_lightning.experiments.export import write_text

    print(write_text(text, Path(output)))


def report(words: list[str]) -> int:
    parsed = parse(words, (*NUMBERED, "output", "title"), command="report")
    result, groups = compared(parsed, "report")
    from rl_lightning.experiments.export import write_text
    from rl_lightning.experiments.report import report as make_page

    page = make_page(result, groups, parsed.get("title"))
    path = write_text(page, Path(parsed.get("output") or "report.html"))
    print(f"{path} ({len(page.encode()) / 1e6:.1f} MB, opens anywhere)")
    return 0


def cleanup(words: list[str]) -> int:
    takes = ("keep_best", "keep_recent", "metric")
    parsed = parse(words, takes, ("dry_run", "yes"), command="cleanup")
    if parsed.words:
        raise ConfigError(f"rl cleanup takes no run ('{parsed.words[0]}'): it goes over all below the logs")
    if not parsed.get("keep_best") and not parsed.get("keep_recent"):
        raise ConfigError(
            "rl cleanup needs to know what to keep: --keep-best 10, --keep-recent 30 (days), or both"
        )
    from rl_lightning.experiments.cleanup import carry_out, plan
    from rl_lightning.experiments.runs import shelf

    best = parsed.integer("keep_best", 0, least=0) if parsed.get("keep_best") else None
    days = parsed.integer("keep_recent", 0, least=0) if parsed.get("keep_recent") else None
    with Index() as index:
        decided = plan(index, best, days, parsed.get("metric") or "best")
    for name, reason in decided.kept.items():
        print(f"kept   {printable(name)}: {reason}")
    for name, paths in decided.take.items():
        print(f"clean  {printable(name)}: {', '.join(path.name for path in paths)}")
    print(
        f"{len(decided.take)} runs to clean, {decided.size / 1e6:.1f} MB; configs, records and metrics stay"
    )
    if parsed.has("dry_run") or not decided.take:
        return 0
    if not parsed.has("yes") and not _agreed():
        print("nothing was deleted")
        return 0
    left = carry_out(decided, index, [shelf()])
    for line in left:
        print(f"left alone: {line}", file=sys.stderr)
    print("done")
    return 0


def _agreed() -> bool:
    if not sys.stdin.isatty():
        raise ConfigError("nothing was deleted: look at the list above and type it again with --yes")
    return input("delete them? [y/N] ").strip().lower() in ("y", "yes")
