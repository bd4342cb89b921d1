"""Clocks, budgets and cadences."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl_lightning.clock.run_clock import Limits, RunClock, RunConfig, crossed_multiple
from rl_lightning.errors import ConfigError


@given(st.lists(st.integers(1, 50), min_size=1, max_size=40), st.integers(1, 60))
def test_a_clock_in_strides_misses_no_multiple_and_takes_none_twice(strides, every):
    now = fired = 0
    for stride in strides:
        fired += crossed_multiple(now, now + stride, every)
        now += stride
    multiples = now // every
    assert fired <= multiples
    if max(strides) <= every:
        assert fired == multiples


@pytest.mark.parametrize(
    ("before", "after", "every", "due"),
    [
        (0, 9, 10, False),
        (0, 10, 10, True),
        (9, 10, 10, True),
        (10, 11, 10, False),
        (0, 35, 10, True),
        (3, 4, None, False),
    ],
)
def test_crossing_by_hand(before, after, every, due):
    assert crossed_multiple(before, after, every) is due


def test_the_first_budget_that_is_reached_ends_the_run():
    schedule = RunClock(RunConfig(env_steps=100, updates=10))
    schedule.env_step, schedule.update = 50, 2
    assert schedule.fraction == 0.5 and not schedule.is_finished
    schedule.update = 10
    assert schedule.fraction == 1.0 and schedule.is_finished


def test_without_a_budget_nothing_ends_and_nothing_anneals():
    schedule = RunClock(RunConfig())
    schedule.env_step = 10**9
    schedule.begin_block()
    assert not schedule.is_finished and schedule.progress == 0.0


def test_progress_is_frozen_when_a_block_begins():
    schedule = RunClock(RunConfig(env_steps=100))
    schedule.begin_block()
    schedule.env_step = 40
    assert schedule.progress == 0.0
    schedule.begin_block()
    assert schedule.progress == 0.4


@pytest.mark.parametrize(
    ("update", "wanted", "given_"), [(0, 50, 7), (3, 50, 4), (14, 50, 6), (19, 50, 1), (0, 5, 5)]
)
def test_updates_stop_at_the_next_cadence_point_and_at_the_budget(update, wanted, given_):
    schedule = RunClock(RunConfig(updates=20, eval_every=7, save_every=10**6), clock_name="update")
    schedule.update = update
    assert schedule.updates_until_mark(schedule.clip_updates(wanted)) == given_


@pytest.mark.parametrize(
    ("env_step", "wanted", "wide", "given_"),
    [(0, 7, 4, 7), (0, 30, 4, 25), (97, 5, 4, 1), (90, 5, 4, 3), (99, 5, 1, 1)],
)
def test_steps_stop_at_the_budget_in_whole_steps_of_the_vector(env_step, wanted, wide, given_):
    schedule = RunClock(RunConfig(env_steps=100))
    schedule.env_step = env_step
    assert schedule.clip_steps(wanted, wide) == given_
    schedule.run = RunConfig()
    assert schedule.clip_steps(wanted, wide) == wanted


def test_clocks_survive_saving():
    schedule = RunClock(RunConfig(env_steps=10))
    schedule.env_step, schedule.update = 4, 2
    schedule.begin_block()
    other = RunClock(RunConfig(env_steps=10))
    other.load_state_dict(schedule.state_dict())
    assert (other.env_step, other.update, other.progress, other.now) == (4, 2, 0.4, 4)


def test_an_epoch_survives_saving():
    schedule = RunClock(RunConfig(eval_every=10))
    schedule.env_step = 4
    schedule.begin_epoch()
    schedule.blocks, schedule.evaluate_now, schedule.evaluated_at, schedule.converged = 3, True, 4, True
    other = RunClock(RunConfig(eval_every=10))
    other.load_state_dict(schedule.state_dict())
    assert other.state_dict() == schedule.state_dict()
    assert (other.target, other.blocks, other.evaluated_at) == (10, 3, 4)
    assert other.evaluate_now and other.converged


@given(st.integers(0, 10**4), st.integers(1, 500), st.lists(st.integers(1, 300), min_size=1, max_size=30))
def test_an_epoch_ends_at_the_next_multiple_however_the_clock_strides(start, every, strides):
    schedule = RunClock(RunConfig(eval_every=every))
    schedule.env_step = start
    for stride in strides:
        schedule.begin_epoch()
        assert schedule.env_step < schedule.target <= schedule.env_step + every
        assert schedule.target % every == 0 and not schedule.epoch_over
        before = schedule.env_step
        schedule.env_step += stride
        assert schedule.epoch_over == crossed_multiple(before, schedule.env_step, every)


def test_an_epoch_without_evaluations_ends_when_one_is_asked_for():
    schedule = RunClock(RunConfig())
    schedule.begin_epoch()
    schedule.env_step, schedule.blocks = 10**9, 2
    assert schedule.target is None and not schedule.epoch_over
    schedule.evaluate_now = True
    assert schedule.epoch_over
    schedule.end_epoch()
    assert not schedule.epoch_over and schedule.blocks == 0


@given(st.integers(0, 500), st.integers(0, 60), st.lists(st.integers(1, 40), max_size=3))
def test_no_update_passes_a_mark(update, wanted, marks):
    schedule = RunClock(RunConfig(updates=400))
    schedule.update, schedule.limits = update, Limits(updates=450, marks=tuple(marks))
    made = schedule.updates_until_mark(wanted)
    assert 0 <= made <= wanted
    for _ in range(made):
        assert schedule.update < 400
        schedule.update += 1
        between = schedule.update < update + made
        assert not (between and schedule.at_mark)
    if made < wanted:
        assert schedule.at_mark


def test_time_is_over_when_it_is_whatever_else_is_left():
    schedule = RunClock(RunConfig(max_hours=100 / 3600, env_steps=1000))
    schedule.seconds = 99.0
    assert not schedule.time_exceeded
    schedule.seconds = 100.0
    assert schedule.time_exceeded and not schedule.is_finished


def test_the_trainers_own_limits_are_progress_too():
    schedule = RunClock(RunConfig(eval_every=100))
    schedule.env_step, schedule.update = 50, 30
    schedule.limits = Limits(epochs=2)
    assert schedule.fraction == 0.25
    schedule.limits = Limits(updates=40, epochs=2)
    assert schedule.fraction == 0.75 and not schedule.is_finished


def test_the_public_clock_is_env_steps_or_updates():
    for clock, now in (("env_step", 7), ("update", 3)):
        schedule = RunClock(clock_name=clock)
        schedule.env_step, schedule.update = 7, 3
        assert schedule.now == now


@pytest.mark.parametrize(("hours", "seconds"), [(None, math.inf), (1.5, 5400), (0.5, 1800)])
def test_max_hours_is_read(hours, seconds):
    assert RunConfig(max_hours=hours).max_seconds() == seconds


@pytest.mark.parametrize("wrong", [{"max_hours": -1.0}, {"env_steps": 0}, {"eval_every": -1}])
def test_wrong_values_are_named(wrong):
    (key,) = wrong
    with pytest.raises(ConfigError, match=f"run.{key}"):
        RunConfig(**wrong)


def test_time_is_progress_where_it_is_the_only_budget():
    schedule = RunClock(RunConfig(max_hours=100 / 3600))
    schedule.seconds = 25.0
    schedule.begin_block()
    assert schedule.progress == 0.25
    both = RunClock(RunConfig(max_hours=100 / 3600, env_steps=1000))
    both.seconds, both.env_step = 25.0, 100
    assert both.fraction == 0.1
