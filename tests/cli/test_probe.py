"""The time that --dry_run tells, from ticks of known length."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from rl_lightning.runs.engine import throughput_probe
from rl_lightning.runs.engine.throughput_probe import ClockSample, Throughput, expected, line_of, measured

from .conftest import Rl


def test_learning_is_timed_without_its_first_block() -> None:
    ticks = [
        ClockSample(0, 0, 0),
        ClockSample(1, 1000, 0),
        ClockSample(9, 1010, 10),
        ClockSample(10, 1020, 20),
        ClockSample(11, 1030, 30),
    ]
    assert measured(ticks) == Throughput(10.0, 10.0, 1000.0, True)


def test_a_single_long_block_has_to_do() -> None:
    assert measured([ClockSample(0, 0, 0), ClockSample(4, 400, 2)]) == Throughput(100.0, 0.5, None, True)


def test_what_never_learns_is_said_to() -> None:
    pace = measured([ClockSample(0, 0, 0), ClockSample(1, 50, 0), ClockSample(2, 100, 0)])
    assert pace == Throughput(50.0, None, 50.0, False)
    assert "only collecting was seen" in line_of(pace, 1.0, math.inf)


@pytest.mark.parametrize(
    ("env_steps", "updates", "starts", "seconds"),
    [
        (2000, None, 1000, 1 + 100.0),  # a thousand random steps at 1000/s, the rest at 10/s
        (2000, None, 0, 200.0),
        (500, None, 1000, 0.5),  # never learns
        (None, 40, 0, 20.0),
        (2000, 40, 1000, 1 + 20.0),  # the first budget ends it
        (None, None, 0, None),
    ],
)
def test_budgets(env_steps: int | None, updates: int | None, starts: int, seconds: float | None) -> None:
    assert expected(Throughput(10.0, 2.0, 1000.0, True), env_steps, updates, starts) == seconds


def test_max_time_bounds_it() -> None:
    assert line_of(Throughput(10.0, None, None, True), 1000.0, 60.0).startswith(
        "about 1:00 here (10 env steps/s in a probe"
    )
    assert line_of(Throughput(None, None, None, False), None, math.inf).startswith("not estimated")


def test_sequences_are_described_and_timed_too(
    rl: Rl, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throughput_probe, "SECONDS", 0.5)
    done = rl("fit", "--config", "dreamer_v3/frozenlake", "--dry_run")
    assert done.code == 0, done.err
    assert (
        "\nbuffer  " in done.out
        and "\ntime         about " in done.out
        and "updates/s in a probe" in done.out
    )
    assert not (workdir / "lightning_logs").exists()
