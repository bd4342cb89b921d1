"""Tables as CSV, JSON, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl_lightning.analysis.stats_table import (
    COLUMNS,
    Table,
    from_dicts,
    plain,
    score_tables,
    settings_table,
    shown,
)
from rl_lightning.errors import ConfigError
from rl_lightning.io.atomic import file_of_user, write_text
from rl_lightning.io.text import printable
from rl_lightning.runs.store.names import did_you_mean, slug

if TYPE_CHECKING:
    from rl_lightning.analysis.compare import Comparison

FORMATS = ("latex", "csv", "json", "markdown")
NARROW = 5  # columns that fit the line of a usual article


def export(result: Comparison, form: str) -> str:
    """A comparison in one of FORMATS. CSV and JSON hold full numbers, the other two what people read."""
    if form not in FORMATS:
        choices = (*FORMATS, "onnx", "safetensors", "hub")
        raise ConfigError(f"--format takes {', '.join(choices)}, not '{form}'{did_you_mean(form, choices)}")
    if form == "csv":
        return to_csv(from_dicts(result.rows, COLUMNS))
    if form == "json":
        whole = {
            "scores": result.rows,
            "improvement": result.improvement,
            "settings": result.settings,
            "notes": result.notes,
        }
        return to_json(whole)
    write = to_markdown if form == "markdown" else to_latex
    tables = score_tables(result)
    tables[-1].notes += [note for note in result.notes if not any(note in table.notes for table in tables)]
    if result.settings and len(result.names) > 1:
        tables.append(settings_table(result))
    return "\n".join(write(table) for table in tables)


def to_csv(table: Table) -> str:
    """Full numbers. A terminal may show it: no control character passes."""
    lines = [
        [printable(cell) if isinstance(cell, str) else cell for cell in line]
        for line in (table.columns, *table.rows)
    ]
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(lines)
    return file.getvalue()


def to_json(value: Any) -> str:
    """Letters of any language as they are; what a terminal would obey as \\uXXXX, which reads back the same."""
    text = json.dumps(plain(value), indent=2, ensure_ascii=False)
    return "".join(c if c == "\n" or printable(c) == c else json.dumps(c)[1:-1] for c in text) + "\n"


def to_markdown(table: Table) -> str:
    lines = [f"**{_mark_down(table.title)}**", ""] if table.title else []
    lines.append("| " + " | ".join(map(_mark_down, table.columns)) + " |")
    lines.append("|" + " --- |" * len(table.columns))
    lines += [
        "| " + " | ".join(_mark_down(shown(value).strip() or "-") for value in row) + " |"
        for row in table.rows
    ]
    lines += ["", *(_mark_down(note) + "  " for note in table.notes)] if table.notes else []
    return "\n".join(lines) + "\n"


def _mark_down(text: str) -> str:
    """What is written is what is shown: no markup and no HTML comes of it."""
    return re.sub(r"([\\`*_{}\[\]<>#|~$&!])", r"\\\1", text)


_LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", '"': "{''}",
    "±": r"$\pm$", "[": "{[}", "]": "{]}", "*": "{*}",  # after the end of a row these would be its options
} | {character: f"\\{character}" for character in "&%$#_{}"}  # fmt: skip


def latex_text(text: str) -> str:
    """Text that any LaTeX sets as it stands; letters it may have no glyph for are named by their number."""
    parts = []
    for character in text:
        if character in _LATEX:
            parts.append(_LATEX[character])
        elif " " <= character < "\x7f" or (character.isalpha() and "\xc0" <= character <= "\xff"):
            parts.append(character)
        else:
            simple = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
            safe = "".join(_LATEX.get(c, c) for c in simple if c.isprintable())
            parts.append(safe or rf"\texttt{{U+{ord(character):04X}}}")
    return "".join(parts)


def to_latex(table: Table) -> str:
    """A table for \\input; one of many columns is made to fit the line."""
    columns = "l" * min(2, len(table.columns)) + "r" * max(0, len(table.columns) - 2)
    wide = len(table.columns) > NARROW
    lines = [rf"% \usepackage{{booktabs{',graphicx' if wide else ''}}}", r"\begin{table}[t]", r"\centering"]
    lines += [r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"] if wide else []
    lines += [rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
    lines += [" & ".join(map(latex_text, table.columns)) + r" \\", r"\midrule"]
    for number, row in enumerate(table.rows):
        cells = [latex_text(shown(value)) for value in row]
        best = [rf"\textbf{{{cell}}}" if (number, i) in table.best else cell for i, cell in enumerate(cells)]
        lines.append(" & ".join(best) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}" + ("}" if wide else "")]
    title = "" if any(note.startswith(f"{table.title}:") for note in table.notes) else table.title
    caption = ". ".join([text for text in (title, *table.notes) if text])
    lines += [rf"\caption{{{latex_text(caption)}.}}"] if caption else []
    lines += (
        [rf"\label{{tab:{slug(table.title).lower()}}}"] if table.title else []
    )  # after the caption that it is of
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def write_output(path: Path, text: str) -> Path:
    """A file that the user named, and its folder."""
    with file_of_user(path):
        return write_text(path, text, errors="replace")
