"""Prioritized replay: the sum tree against brute force, the draws against chi-square, weights and priorities."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from replay.naive import Player, pixel_spec, vector_spec
from scipy.stats import chisquare

from rl_lightning.replay.prioritized import PrioritizedReplay, SumTree

updates = st.lists(
    st.lists(st.tuples(st.integers(0, 12), st.floats(0.0, 5.0)), min_size=1, max_size=6),
    min_size=1,
    max_size=8,
)


@given(updates, st.lists(st.floats(0.0, 1.0, exclude_max=True), min_size=1, max_size=10))
def test_sum_tree_is_a_cumulative_sum(rounds, shares):
    tree, leaves = SumTree(13), np.zeros(13)
    for pairs in rounds:
        index, value = (np.array(part) for part in zip(*dict(pairs).items(), strict=True))
        tree.set(index, value)
        leaves[index] = value
    assert tree.total == pytest.approx(leaves.sum())
    if leaves.sum() == 0:
        return
    mass = np.array(shares) * tree.total
    found = tree.find(mass)
    assert (leaves[found] > 0).all()
    edges = np.concatenate([[0.0], leaves.cumsum()])
    assert (edges[found] <= mass + 1e-9).all() and (mass <= edges[found + 1] + 1e-9).all()


def test_sum_tree_does_not_drift():
    tree, rng = SumTree(1000), np.random.default_rng(0)
    for _ in range(2000):
        index = rng.integers(0, 1000, 8)
        tree.set(index, rng.random(8) * 10.0 ** rng.integers(-6, 6))
    leaves = tree.sums[tree.leaves :]
    assert tree.total == pytest.approx(leaves.sum(), rel=1e-12)


@pytest.mark.parametrize("kind", ["ring", "frames"])
def test_rows_are_drawn_in_proportion_to_their_priorities(kind):
    """By chi-square, through the strata and the shuffle, after the ring has wrapped; alpha bends priorities."""
    spec = vector_spec() if kind == "ring" else pixel_spec(2)
    player = Player(spec, 2, seed=1)
    buffer = PrioritizedReplay(spec, 2, capacity=40, alpha=0.7, beta=1.0, eps=0.0)
    for _ in range(4):
        buffer.add(player.play(8))
    leaves = buffer.tree.sums[buffer.tree.leaves :][: buffer.capacity]
    live = np.flatnonzero(leaves)
    assert len(live) > 20
    priority = np.random.default_rng(0).random(len(live)) * 3 + 0.1
    buffer.set_priorities(torch.from_numpy(live), torch.from_numpy(priority))
    generator = torch.Generator().manual_seed(0)
    # Strata make one large draw too even to test; many small ones are as good as independent.
    drawn = torch.cat([buffer.sample(4, generator, 1, 0.9).index for _ in range(2000)]).numpy()
    counts = np.array([(drawn == index).sum() for index in live])
    assert counts.sum() == len(drawn), "a row without priority was drawn"
    expected = priority**0.7 / (priority**0.7).sum()
    assert chisquare(counts, expected * len(drawn)).pvalue > 1e-3
    assert chisquare(counts, np.full(len(live), len(drawn) / len(live))).pvalue < 1e-9, "that was uniform"


def make(beta: float = 0.4) -> PrioritizedReplay:
    player = Player(vector_spec(), 1, seed=2)
    buffer = PrioritizedReplay(player.spec, 1, capacity=16, alpha=1.0, beta=beta, eps=0.0)
    buffer.add(player.play(16))
    return buffer


@pytest.mark.parametrize(("beta", "progress", "power"), [(0.4, 0.0, 0.4), (0.4, 0.5, 0.7), (0.4, 1.0, 1.0)])
def test_weights_undo_the_priorities_as_far_as_beta_says(beta, progress, power):
    buffer = make(beta)
    priority = torch.linspace(0.5, 4.0, 16)
    buffer.set_priorities(torch.arange(16), priority)
    buffer.progress = progress
    rows = buffer.sample(64, torch.Generator().manual_seed(0), 1, 0.9)
    weight = priority[rows.index] ** -power
    torch.testing.assert_close(rows.weight, weight / weight.max())
    assert rows.weight.max() == 1.0


def test_new_rows_get_the_largest_priority_ever_seen():
    buffer = make()
    buffer.set_priorities(torch.tensor([3]), torch.tensor([7.0]))
    buffer.set_priorities(torch.tensor([3]), torch.tensor([0.1]))
    buffer.add(Player(vector_spec(), 1, seed=3).play(1))
    assert buffer.tree.sums[buffer.tree.leaves] == pytest.approx(7.0)


def test_a_block_of_priorities_is_taken_over_row_by_row():
    buffer = make()
    index = torch.tensor([[0, 1, 2], [3, 4, 5]])  # two batches of three
    buffer.set_priorities(index, index.float() + 1.0)
    np.testing.assert_allclose(buffer.tree.sums[buffer.tree.leaves :][:6], np.arange(6) + 1.0)


def test_negative_errors_count_by_their_size():
    buffer = make()
    buffer.set_priorities(torch.tensor([0]), torch.tensor([-2.0]))
    assert buffer.tree.sums[buffer.tree.leaves] == pytest.approx(2.0)
