"""The report's page: one HTML text with everything in it. Whatever comes from a run is escaped, and no script runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, NamedTuple

from rl_lightning.analysis.stats_table import Table, printable, shown

# Nothing is loaded, sent or run, whatever a run's name may try.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:; "
    "base-uri 'none'; form-action 'none'"
)

STYLE = """
:root{color-scheme:light;--ink:#1b1f24;--soft:#5b6570;--line:#dfe3e8;--wash:#f6f8fa;--mark:#0072b2}
*{box-sizing:border-box}
body{margin:0;background:#fff;color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:70rem;margin:0 auto;padding:1.25rem 1rem 4rem}
h1{font-size:1.7rem;line-height:1.2;margin:.5rem 0 .25rem;overflow-wrap:anywhere}
h2{font-size:1.25rem;margin:2.5rem 0 .75rem;border-bottom:1px solid var(--line);padding-bottom:.3rem}
h3{font-size:1.05rem;margin:1.5rem 0 .5rem;overflow-wrap:anywhere}
p,li{max-width:46rem}
.soft{color:var(--soft);font-size:.9rem}
nav a{color:var(--mark);margin-right:1rem}
.wide{overflow-x:auto;-webkit-overflow-scrolling:touch;margin:.5rem 0 1rem}
table{border-collapse:collapse;font-size:.88rem;font-variant-numeric:tabular-nums;min-width:100%}
th,td{padding:.4rem .6rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th{background:var(--wash);font-weight:600}
th:first-child,td:first-child{text-align:left;position:sticky;left:0;background:#fff;max-width:16rem;
  overflow:hidden;text-overflow:ellipsis}
th:first-child{background:var(--wash)}
td.text{text-align:left;white-space:normal;overflow-wrap:anywhere;min-width:6rem}
svg.curve{width:100%;height:auto;display:block;margin:.25rem 0 1rem}
svg .grid{stroke:var(--line)}svg .axis{stroke:var(--soft)}
svg .tick{fill:var(--soft);font-size:12px}svg .legend{fill:var(--ink);font-size:14px}
video{width:100%;max-width:30rem;border:1px solid var(--line);border-radius:.4rem;background:#000}
section.run{border:1px solid var(--line);border-radius:.5rem;padding:.25rem 1rem 1rem;margin:1rem 0}
pre{background:var(--wash);padding:.75rem;overflow-x:auto;font-size:.8rem;line-height:1.4;border-radius:.4rem}
summary{cursor:pointer;color:var(--mark);padding:.35rem 0}
@media (max-width:40rem){body{font-size:15px}svg .tick{font-size:18px}svg .legend{font-size:19px}}
@media print{
  @page{margin:14mm}
  body{font-size:10pt}main{max-width:none;padding:0}nav,video,.screen,details{display:none}
  table{font-size:8pt}th,td{white-space:normal;padding:.2rem .35rem}
  th:first-child,td:first-child{position:static}.wide{overflow:visible}
  svg,tr,section.run{break-inside:avoid}h2,h3{break-after:avoid}pre{white-space:pre-wrap;overflow-wrap:anywhere}
}
"""


class RunPart(NamedTuple):
    """What the page says of one run."""

    name: str
    facts: list[tuple[str, Any]]
    config: str
    videos: list[tuple[str, str]]  # what it is, and a data: URI; without one, it was too large to carry


def text(value: Any) -> str:
    """The only way a value gets into the page."""
    return escape(printable(value if isinstance(value, str) else shown(value)), quote=True)


def block(value: str) -> str:
    """Several lines, kept as they are."""
    return "\n".join(text(line) for line in value.splitlines())


def table(given: Table, heading: bool = True) -> str:
    if not given.rows:
        return f"<p>{text(given.title)}</p>"
    head = "".join(f"<th>{text(column)}</th>" for column in given.columns)
    body = "".join(
        "<tr>" + "".join(_cell(value, i) for i, value in enumerate(row)) + "</tr>" for row in given.rows
    )
    title = f"<h3>{text(given.title)}</h3>" if heading and given.title else ""
    notes = "".join(f'<p class="soft">{text(note)}</p>' for note in given.notes)
    return f'{title}<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{notes}'


def _cell(value: Any, column: int) -> str:
    shape = ' class="text"' if column and isinstance(value, str) and len(value) > 40 else ""
    return f"<td{shape}>{text(value)}</td>"


def run_section(run: RunPart) -> str:
    facts = "".join(
        f"<tr><td>{text(key)}</td><td class=text>{text(value)}</td></tr>" for key, value in run.facts
    )
    videos = "".join(
        f'<figure class="screen"><video controls muted playsinline preload="metadata" src="{text(source)}"></video>'
        f'<figcaption class="soft">{text(name)}</figcaption></figure>'
        if source
        else f'<p class="soft">{text(name)}</p>'
        for name, source in run.videos
    )
    return (
        f'<section class="run"><h3>{text(run.name)}</h3>'
        f'<div class="wide"><table><tbody>{facts}</tbody></table></div>{videos}'
        f"<details><summary>config</summary><pre>{block(run.config)}</pre></details></section>"
    )


def page(
    title: str,
    made: str,
    scores: Sequence[tuple[str, str, Sequence[Table]]],
    settings: Table,
    runs: Iterable[RunPart],
    notes: Sequence[str] = (),
) -> str:
    """The whole page.

    Args:
        title: Of the report.
        made: When, and by which version.
        scores: Per metric: its name, its curves as SVG (made by svg.py, already safe) and its tables.
        settings: What was set differently.
        runs: Every run.
        notes: What a reader must know.
    """
    parts = []
    for number, (metric, picture, tables) in enumerate(scores):
        parts.append(f'<h2 id="m{number}">{text(metric)}</h2>{picture}')
        parts += [table(each, heading=i > 0) for i, each in enumerate(tables)]
    cautions = "".join(f"<li>{text(note)}</li>" for note in notes)
    links = "".join(f'<a href="#m{i}">{text(metric)}</a>' for i, (metric, _, _) in enumerate(scores))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{text(title)}</title><style>{STYLE}</style></head><body><main>"
        f'<h1>{text(title)}</h1><p class="soft">{text(made)}</p>'
        f'<nav>{links}<a href="#settings">settings</a><a href="#runs">runs</a></nav>'
        f"{''.join(parts)}{f'<ul>{cautions}</ul>' if cautions else ''}"
        f'<h2 id="settings">Settings</h2>{table(settings)}'
        f'<h2 id="runs">Runs</h2>{"".join(run_section(run) for run in runs)}'
        "</main></body></html>\n"
    )
