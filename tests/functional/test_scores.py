"""Statistics with known values."""

import subprocess
import sys

import numpy as np
import pytest

from rl_lightning.functional import scores


def test_iqm_drops_a_quarter_at_either_end():
    assert scores.iqm([1, 2, 3, 4]) == 2.5
    assert scores.iqm([0, 1, 2, 3, 4, 5, 6, 1000]) == 3.5
    assert scores.iqm([7.0]) == 7.0
    assert scores.iqm([3, 1, 2]) == 2.0  # a quarter of three is less than one


def test_iqm_is_the_trimmed_mean_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    values = np.random.default_rng(0).normal(size=37)
    assert scores.iqm(values) == pytest.approx(stats.trim_mean(values, 0.25))


def test_mean_std_median_last():
    assert scores.mean([1, 2, 6]) == 3.0
    assert scores.std([1, 3]) == pytest.approx(2**0.5)
    assert scores.std([4]) == 0.0
    assert scores.median([1, 9, 2]) == 2.0
    assert scores.last_mean(range(20), 10) == 14.5
    assert scores.last_mean([1, 3]) == 2.0


def test_bootstrap_interval_brackets_and_repeats():
    values = np.random.default_rng(1).normal(5.0, 1.0, size=50)
    low, high = scores.bootstrap_interval(values, scores.mean, seed=3)
    assert low < values.mean() < high
    assert high - low == pytest.approx(2 * 1.96 * values.std() / 50**0.5, rel=0.15)
    assert (low, high) == scores.bootstrap_interval(values, scores.mean, seed=3)
    assert scores.bootstrap_interval([2.0, 2.0]) == (2.0, 2.0)


def test_probability_of_improvement():
    assert scores.probability_of_improvement([2, 3], [1, 0]) == 1.0
    assert scores.probability_of_improvement([1, 2], [1, 2]) == 0.5


def test_normalized_is_percent_of_the_reference():
    assert scores.normalized([10.0, 60.0, 110.0], 10.0, 110.0).tolist() == [0.0, 50.0, 100.0]


def test_no_scores_are_an_error():
    with pytest.raises(ValueError, match="at least one"):
        scores.mean([])


def test_loading_scores_does_not_load_torch():
    code = "import sys, rl_lightning.functional.scores; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
