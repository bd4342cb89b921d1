"""The words of the package are its field's: names and phrases of our own dialect do not come back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "rl_lightning"
VAGUE = {"begun", "drawn", "found", "kept", "made", "paid", "told", "worth"}  # say what the thing is
FIELDS = {  # names that others read: of a row of a data set
    ("datasets/rows/episode_rows.py", "kept"),
}
# Alerts: a run whose steps per second are too few. A copy that follows is a target, never slow.
SLOW = {"slow_progress", "_slow", "SLOW_FOR"}
PHRASES = {
    r"\b(go|goes|going|went) on (with|from exactly|exactly)\b": "resume, or continue with",
    r"\b(are|is) no (\w+\.)*[A-Z]": "is not a, or is not a subclass of",
    r"\b(are|is) no \{": "is not a",
    r"\bshares? of\b": "fraction of",
    r"\b(foretell|foretold|foretelling)": "predict",
    r"(\b\d+|}) %(?! [\d{])": "95%",
    r"without its rate": "learning rate",
    r"\b(target_rate|slow_rate|q_slow|critic_slow|encoder_slow|load_provided)\b": "tau, q_target, load_exported",
}


def assigned(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every name that is bound: assignments, loops, comprehensions, walruses, arguments, definitions, imports."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, f".{name}"
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.ExceptHandler(name=str(name)):
                yield node.lineno, name
            case ast.alias(asname=str(name)):
                yield node.lineno, name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node.lineno, name


def vague_names(source: str, where: str = "") -> list[str]:
    names = assigned(ast.parse(source))
    return [f"{where}:{n} {name}" for n, name in names if name in VAGUE and (where, name) not in FIELDS]


def slow_names(source: str, where: str = "") -> list[str]:
    names = ((line, name.lstrip(".")) for line, name in assigned(ast.parse(source)))
    return [
        f"{where}:{line} {name}"
        for line, name in names
        if "slow" in re.split(r"_|(?<=[a-z])(?=[A-Z])", name.lower()) and name not in SLOW
    ]


def phrases(text: str, where: str = "") -> list[str]:
    """Old phrases in a text, also where a line break parts them, each with what to write instead."""
    joined = re.sub(r"\s*[\"']?\n\s*(?:#|f?[\"'])?\s*", " ", text)
    return [
        f"{where}: {match[0]!r}; write {instead}"
        for phrase, instead in PHRASES.items()
        for match in re.finditer(phrase, joined)
    ]


def sources() -> list[tuple[str, str]]:
    return [
        (str(p.relative_to(PACKAGE)), p.read_text(encoding="utf-8")) for p in sorted(PACKAGE.rglob("*.py"))
    ]


def test_names_say_what_the_thing_is():
    wrong = [line for where, source in sources() for line in vague_names(source, where)]
    assert not wrong, "\n".join(wrong)


def test_a_copy_that_follows_is_a_target():
    wrong = [line for where, source in sources() for line in slow_names(source, where)]
    assert not wrong, "\n".join(wrong)


def test_sentences_are_plain():
    files = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", PACKAGE / "runs/config/aliases.csv"]
    pages = [(str(p.relative_to(ROOT)), p.read_text(encoding="utf-8")) for p in files]
    wrong = [line for where, text in [*sources(), *pages] for line in phrases(text, where)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "source",
    [
        "found = 1",
        "for found in x: pass",
        "with f() as found: pass",
        "if (found := f()): pass",
        "[found for found in x]",
        "a, (b, *found) = x",
        "found: int",
        "found += 1",
        "def f(found): pass",
        "lambda *, found: 1",
        "import os as found",
        "try: pass\nexcept E as found: pass",
    ],
)
def test_every_way_to_bind_a_name_is_seen(source):
    assert vague_names(source) and not vague_names(source.replace("found", "metrics"))


def test_an_attribute_and_a_keyword_of_others_may_be_called_so():
    assert not vague_names("x.found\nf(found=1)\nx['found'] = 1\nfound_runs = 1")


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("self.q_slow = 1", 1),
        ("slow = f()", 1),
        ("critic_slow, x = y", 1),
        ("slower = slowly = SLOW_FOR = 1", 0),
    ],
)
def test_slow_copies_are_seen(source, count):
    assert len(slow_names(source)) == count


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("go on with: rl resume x", 1),
        ('f"it cannot go on "\n    f"exactly"', 1),
        ("X is no RLData", 1),
        ("X is no gymnasium.Env", 1),
        ("a share of\n    # the rows", 1),
        ("95 % interval", 1),
        ("IQM (95 %)", 1),
        ("the episode goes on; there is no env; 95% interval; x % y; left // 60 % 60", 0),
    ],
)
def test_old_phrases_are_seen(text, count):
    assert len(phrases(text)) == count
