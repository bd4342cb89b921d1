"""Rows that were foretold badly: drawn by their errors relative to the mean, within bounds, and found again."""

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from rl_lightning.buffers.hard_rows import LEAST, MOST, RATE, HardRows

ROWS = torch.tensor([1, 3, 4, 8])


def shares(hard: HardRows, count: int = 20_000) -> np.ndarray:
    return np.bincount(hard.sample(count, torch.Generator().manual_seed(0)).numpy(), minlength=10)


def test_rows_that_nobody_judged_are_drawn_alike_and_no_others():
    seen = shares(HardRows(ROWS, 10, 1.0))
    assert seen.sum() == seen[ROWS].sum()
    assert chisquare(seen[ROWS]).pvalue > 1e-3


@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_rows_are_drawn_by_their_errors(alpha):
    hard = HardRows(ROWS, 10, alpha)
    hard.judge(ROWS, torch.tensor([1.0, 2.0, 4.0, 1.0]))  # mean 2
    expected = np.array([0.5, 1.0, 2.0, 0.5]) ** alpha
    seen = shares(hard)[ROWS]
    assert chisquare(seen, expected / expected.sum() * seen.sum()).pvalue > 1e-3


def test_no_row_is_forgotten_and_none_takes_all():
    hard = HardRows(ROWS, 10, 1.0)
    hard.judge(ROWS, torch.tensor([0.0, 0.0, 0.0, 100.0]))
    hard.judge(ROWS[:1], torch.tensor([1e6]))
    leaves = hard.state()["leaves"]
    assert leaves[1] == MOST and leaves[3] == LEAST and leaves[8] == pytest.approx(4.0)
    assert hard.mean == pytest.approx(25.0 + RATE * (1e6 - 25.0))


def test_found_again_as_it_was():
    hard, again = HardRows(ROWS, 10, 1.0), HardRows(ROWS, 10, 1.0)
    hard.judge(ROWS, torch.rand(4, generator=torch.Generator().manual_seed(1)))
    again.load(hard.state())
    assert np.array_equal(hard.tree.sums, again.tree.sums) and hard.mean == again.mean
    assert np.array_equal(shares(hard, 100), shares(again, 100))
