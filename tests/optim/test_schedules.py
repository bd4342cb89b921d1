"""Schedules at their ends, in the middle, and beyond."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl_lightning.errors import ConfigError
from rl_lightning.optim.schedules import Constant, Cosine, Exponential, Linear, Schedule, Warmup


@pytest.mark.parametrize("schedule", [Linear(0.1, 0.5), Cosine(0.1, 0.5), Exponential(0.1, 0.5)])
def test_ends(schedule: Schedule):
    assert schedule.value(1.0, 0.0) == 1.0
    for late in (0.5, 0.8, 1.0, 1.3):
        assert schedule.value(1.0, late) == pytest.approx(0.1)


def test_middles():
    assert Linear(0.0).value(2.0, 0.25) == pytest.approx(1.5)
    assert Cosine(0.0).value(2.0, 0.5) == pytest.approx(1.0)
    assert Exponential(0.01).value(1.0, 0.5) == pytest.approx(0.1)
    assert Constant().value(3.0, 0.7) == 3.0


def test_warmup_rises_then_hands_over():
    schedule = Warmup(0.2, Linear(0.0))
    assert schedule.value(1.0, 0.0) == 0.0
    assert schedule.value(1.0, 0.1) == pytest.approx(0.5)
    assert schedule.value(1.0, 0.2) == pytest.approx(1.0)
    assert schedule.value(1.0, 0.6) == pytest.approx(0.5)
    assert schedule.value(1.0, 1.0) == pytest.approx(0.0)
    assert Warmup(0.5).value(2.0, 1.0) == 2.0
    assert Warmup(1.0).value(2.0, 1.0) == 2.0


@given(st.floats(0, 1), st.floats(0.01, 1), st.floats(0, 5), st.floats(0, 5))
def test_values_stay_between_start_and_end(progress, fraction, start, end):
    for schedule in (Linear(end, fraction), Cosine(end, fraction)):
        assert min(start, end) - 1e-9 <= schedule.value(start, progress) <= max(start, end) + 1e-9


def test_impossible_fractions_are_refused():
    for make in (lambda: Linear(fraction=0.0), lambda: Cosine(fraction=1.5), lambda: Exponential(end=0.0)):
        with pytest.raises(ConfigError):
            make()
