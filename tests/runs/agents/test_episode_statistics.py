"""Statistics of a few episodes promise no more than they hold."""

from __future__ import annotations

from typing import NamedTuple

from rl_lightning.runs.agents.episode_statistics import statistics_text


class Played(NamedTuple):
    episode_return: float
    length: int = 10
    cut: bool = False
    extra: dict[str, float] = {}  # noqa: RUF012


def test_a_few_episodes_are_told_in_place_of_an_interval() -> None:
    one = statistics_text("run", [Played(3.0)])
    assert one.startswith("run · 1 episode\n") and "interval" not in one and "of 3.00" in one
    assert "of 1.00, 2.00, 6.00" in statistics_text("run", [Played(1.0), Played(2.0), Played(6.0)])
    assert "95% interval" in statistics_text("run", [Played(float(value)) for value in range(5)])
