"""The line of a run: what it says is seen at any width, and never breaks."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
from rich.console import Console
from rich.text import Text

from rl_lightning.callbacks.progress_bar import Fact, RunProgressBar, fitted
from rl_lightning.clock.run_clock import RunClock, RunConfig

FACTS = [
    Fact("env_step 310k/1M"), Fact("4.12k steps/s", spare=True), Fact("return 1402.5"), Fact("eval 1487.3", "bold"),
    Fact("12:21 left"),
]  # fmt: skip
NAME = "ppo-cartpole-with-a-long-name[0]"


@pytest.mark.parametrize("width", [70, 80, 100, 200])
def test_scores_and_time_are_seen_at_any_width(width: int) -> None:
    line = Text.from_markup(fitted(NAME, 0.5, FACTS, width)).plain
    assert len(line) <= width
    assert all(text in line for text in ("env_step 310k/1M", "return 1402.5", "eval 1487.3", "12:21 left"))
    assert (NAME in line and line.count("━") == 12) == (width > 120)


def test_bar_and_name_shrink_first() -> None:
    line = Text.from_markup(fitted("run", 0.5, FACTS, 80)).plain
    assert line.startswith("run ━") and "steps/s" not in line
    assert "━" not in fitted("run", None, FACTS, 80)
    assert Text.from_markup(fitted(NAME, 0.5, FACTS, 62)).plain.startswith("env_step")


def test_a_log_file_gets_whole_lines() -> None:
    """No bar and no colours, and no line is broken at the width of a terminal that is not there."""
    bar = RunProgressBar(
        SimpleNamespace(latest={"collect/return": -12503.25}), SimpleNamespace(last=-0.0), "a" * 90
    )
    clock = RunClock(RunConfig(env_steps=1000))
    clock.env_step = 250
    file = io.StringIO()
    bar.console = Console(file=file, width=80)
    bar._show(clock)
    (line,) = file.getvalue().splitlines()
    assert line.startswith("a" * 90 + " · 25% · env_step 250/1k") and "return -12503.2" in line
    assert "eval 0.0" in line and "━" not in line and "\x1b" not in line
