"""README's terminal: the recorder of scripts/make_cast.py, and what it drew."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from xml.etree import ElementTree

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def cast():
    spec = importlib.util.spec_from_file_location("make_cast", DOCS.parent / "scripts" / "make_cast.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_bar_is_written_over_and_erased(cast) -> None:
    screen = cast.Screen()
    screen.feed("one\r\nbar ━╌\r\x1b[2Kbar ━━ \x1b[32mgreen\x1b[0m\r\n\x1b[1A\x1b[2Kdone\r\nab\rc")
    assert screen.shown() == ("one", "done", "cb")


def test_a_session_is_recorded_and_drawn(cast, tmp_path: Path) -> None:
    frames, fastest = cast.play(["echo '<b>&'"], str(tmp_path))
    assert fastest == 1.0 and frames[-1].lines[:2] == ("$ echo '<b>&'", "<b>&")
    assert [frame.at for frame in frames] == sorted(frame.at for frame in frames)
    root = ElementTree.fromstring(cast.drawn(frames, "t<"))
    assert len(root.findall("{http://www.w3.org/2000/svg}g")) == len(frames)
    with pytest.raises(SystemExit, match="failed"):
        cast.record("false", str(tmp_path))


def test_the_drawn_one_is_small_and_loads_nothing() -> None:
    for name in ("cast.svg", "compare.png", "report.png"):
        assert 10_000 < (DOCS / name).stat().st_size < 1_000_000
    text = (DOCS / "cast.svg").read_text(encoding="utf-8")
    tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(text).iter()}
    assert tags <= {"svg", "title", "style", "rect", "text", "tspan", "g"} and "href" not in text
    assert "rl fit --config ppo/cartpole" in text and "best 500.0" in text
