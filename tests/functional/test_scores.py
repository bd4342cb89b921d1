"""Statistics with known values."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl_lightning.functional import score_statistics


def test_iqm_drops_a_quarter_at_either_end():
    assert score_statistics.iqm([1, 2, 3, 4]) == 2.5
    assert score_statistics.iqm([0, 1, 2, 3, 4, 5, 6, 1000]) == 3.5
    assert score_statistics.iqm([7.0]) == 7.0
    assert score_statistics.iqm([3, 1, 2]) == 2.0  # a quarter of three is less than one


def test_iqm_is_the_trimmed_mean_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    values = np.random.default_rng(0).normal(size=37)
    assert score_statistics.iqm(values) == pytest.approx(stats.trim_mean(values, 0.25))


def test_mean_std_median_last():
    assert score_statistics.mean([1, 2, 6]) == 3.0
    assert score_statistics.std([1, 3]) == pytest.approx(2**0.5)
    assert score_statistics.std([4]) == 0.0
    assert score_statistics.median([1, 9, 2]) == 2.0
    assert score_statistics.last_mean(range(20), 10) == 14.5
    assert score_statistics.last_mean([1, 3]) == 2.0


def test_bootstrap_interval_brackets_and_repeats():
    values = np.random.default_rng(1).normal(5.0, 1.0, size=50)
    low, high = score_statistics.bootstrap_interval(values, score_statistics.mean, seed=3)
    assert low < values.mean() < high
    assert high - low == pytest.approx(2 * 1.96 * values.std() / 50**0.5, rel=0.15)
    assert (low, high) == score_statistics.bootstrap_interval(values, score_statistics.mean, seed=3)
    assert score_statistics.bootstrap_interval([2.0, 2.0]) == (2.0, 2.0)


def test_probability_of_improvement():
    assert score_statistics.probability_of_improvement([2, 3], [1, 0]) == 1.0
    assert score_statistics.probability_of_improvement([1, 2], [1, 2]) == 0.5


def test_normalized_is_percent_of_the_reference():
    assert score_statistics.normalized([10.0, 60.0, 110.0], 10.0, 110.0).tolist() == [0.0, 50.0, 100.0]


def test_no_scores_are_an_error():
    with pytest.raises(ValueError, match="at least one"):
        score_statistics.mean([])


def test_loading_scores_does_not_load_torch():
    code = "import sys, rl_lightning.functional.score_statistics; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Scores of DQN on 49 Atari games in percent of the way from random play to a human tester (Mnih et al. 2015, figure 3).
ATARI = [
    2539, 1707, 1327, 598, 508, 449, 419, 400, 294, 278, 277, 246, 232, 224, 145, 143, 132, 121, 119, 112, 102, 102,
    100, 97, 93, 92, 79, 78, 76, 69, 67, 67, 64, 62, 57, 57, 54, 43, 42, 32, 25, 17, 14, 13, 7, 6, 5, 2, 0,
]  # fmt: skip
FINITE = st.floats(-1e6, 1e6)
SCORES = st.lists(FINITE, min_size=1, max_size=30)


def test_a_published_table():
    assert len(ATARI) == 49
    assert score_statistics.median(ATARI) == 93
    assert score_statistics.iqm(ATARI) == pytest.approx(
        2544 / 25
    )  # the 25 games in the middle, added by hand
    assert score_statistics.optimality_gap(ATARI, 100.0) == pytest.approx(
        sum(100 - min(x, 100) for x in ATARI) / 49
    )
    low, high = score_statistics.bootstrap_interval(ATARI, score_statistics.iqm, resamples=4000)
    stats = pytest.importorskip("scipy.stats")
    theirs = stats.bootstrap(
        (np.array(ATARI),), lambda x, axis: stats.trim_mean(x, 0.25, axis=axis), method="percentile",
        n_resamples=4000, rng=np.random.default_rng(1),
    ).confidence_interval  # fmt: skip
    assert low == pytest.approx(theirs.low, rel=0.05) and high == pytest.approx(theirs.high, rel=0.05)


def test_human_normalised_scores_as_published():
    """Breakout and Pong of the same table: agent, random, human."""
    assert score_statistics.normalized(401.2, 1.7, 31.8) == pytest.approx(1327, abs=1)
    assert score_statistics.normalized(18.9, -20.7, 9.3) == pytest.approx(132, abs=1)


def test_strata_keep_their_own_scores():
    """Two tasks on scales far apart: drawn within each, the mean hardly moves; drawn together it would."""
    strata = [[0.0, 0.0, 0.0], [100.0, 100.0, 100.0]]
    assert score_statistics.stratified_interval(strata, score_statistics.mean) == (50.0, 50.0)
    low, high = score_statistics.bootstrap_interval(strata[0] + strata[1], score_statistics.mean)
    assert low < 25 and high > 75
    with pytest.raises(ValueError, match="at least one"):
        score_statistics.stratified_interval([])


def test_any_statistic_can_be_bootstrapped():
    own = score_statistics.bootstrap_interval([1.0, 2.0, 4.0], lambda row: float(row.mean()))
    assert own == pytest.approx(score_statistics.bootstrap_interval([1.0, 2.0, 4.0], score_statistics.mean))


def test_improvement_by_hand():
    # 1 > 0, 1 < 2, 3 > 0, 3 > 2: three of four
    assert score_statistics.probability_of_improvement([1, 3], [0, 2]) == 0.75
    estimate, low, high = score_statistics.improvement_interval([[1, 3], [5]], [[0, 2], [5]])
    assert estimate == pytest.approx((0.75 + 0.5) / 2)  # the mean over two tasks
    assert 0 <= low <= estimate <= high <= 1
    assert score_statistics.improvement_interval([[2, 2]], [[1, 1]]) == (1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="tasks differ"):
        score_statistics.improvement_interval([[1]], [[1], [2]])


def test_optimality_gap_stops_at_the_optimum():
    assert score_statistics.optimality_gap([0.5, 1.5], 1.0) == 0.25
    assert score_statistics.optimality_gap([2.0, 5.0], 3.0, lower=True) == 1.0


def test_area_under_curve():
    assert score_statistics.area_under_curve([0, 10], [0, 10]) == 5.0
    assert score_statistics.area_under_curve([0, 5, 10], [0, 10, 10]) == 7.5
    assert score_statistics.area_under_curve([0, 10], [0, 10], 5, 10) == 7.5
    assert score_statistics.area_under_curve([0, 10], [0, 10], 0, 20) == 7.5  # level beyond its end
    assert score_statistics.area_under_curve([3], [4]) == 4.0
    with pytest.raises(ValueError, match="heights"):
        score_statistics.area_under_curve([1, 2], [1])


def test_steps_to_threshold():
    assert score_statistics.steps_to_threshold([1, 2, 3], [0, 5, 1], 5) == 2.0
    assert score_statistics.steps_to_threshold([1, 2, 3], [9, 5, 1], 5, lower=True) == 2.0
    assert score_statistics.steps_to_threshold([1, 2], [0, 1], 5) is None


def test_curve_interval_is_that_of_each_place():
    rows = np.array([[0.0, 1.0, 2.0], [4.0, 1.0, 2.0], [8.0, 1.0, 2.0]])
    low, high = score_statistics.curve_interval(rows)
    assert low.tolist()[1:] == pytest.approx([1.0, 2.0]) and high.tolist()[1:] == pytest.approx([1.0, 2.0])
    assert low[0] < 4.0 < high[0]
    assert score_statistics.curve_interval([[3.0, 4.0]])[0].tolist() == [3.0, 4.0]


@given(SCORES)
def test_centres_lie_among_the_scores(values):
    slack = 1e-9 * max(1.0, *map(abs, values))
    for statistic in (score_statistics.mean, score_statistics.median, score_statistics.iqm):
        assert min(values) - slack <= statistic(values) <= max(values) + slack
        assert statistic(values[::-1]) == pytest.approx(statistic(values), rel=1e-9, abs=slack)


@given(SCORES, FINITE)
def test_iqm_moves_with_its_scores(values, shift):
    moved = score_statistics.iqm([value + shift for value in values])
    assert moved == pytest.approx(score_statistics.iqm(values) + shift, rel=1e-6, abs=1e-3)


@given(SCORES, SCORES)
def test_chances_of_two_add_up(ours, theirs):
    both = score_statistics.probability_of_improvement(
        ours, theirs
    ) + score_statistics.probability_of_improvement(theirs, ours)
    assert both == pytest.approx(1.0)


@settings(max_examples=25)
@given(st.lists(SCORES, min_size=1, max_size=3))
def test_intervals_lie_among_the_scores(strata):
    low, high = score_statistics.stratified_interval(strata, score_statistics.iqm, resamples=100)
    pooled = [value for values in strata for value in values]
    slack = 1e-9 * max(1.0, *map(abs, pooled))
    assert min(pooled) - slack <= low <= high <= max(pooled) + slack


@given(st.lists(st.tuples(st.integers(0, 1000), FINITE), min_size=1, max_size=20))
def test_areas_lie_between_the_heights(points):
    points = sorted(dict(points).items())
    x, y = [p[0] for p in points], [p[1] for p in points]
    slack = 1e-6 * max(1.0, *map(abs, y))
    assert min(y) - slack <= score_statistics.area_under_curve(x, y) <= max(y) + slack
