"""Running statistics against numpy over everything at once."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rl_lightning.models.normalizers import RewardNormalizer, RunningMeanStd, combine, measure


@given(st.lists(st.integers(0, 30), min_size=1, max_size=6), st.integers(0, 1000), st.floats(-1e4, 1e4))
@settings(max_examples=30, deadline=None)
def test_chunks_give_the_statistics_of_the_whole(sizes, seed, offset):
    rows = torch.from_numpy(offset + np.random.default_rng(seed).normal(size=(sum(sizes), 3)))
    norm = RunningMeanStd((3,))
    for chunk in rows.split(sizes):
        norm.update(chunk)
    assert norm.count.item() == len(rows)
    if len(rows):
        np.testing.assert_allclose(norm.mean, rows.numpy().mean(0), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(norm.var, rows.numpy().var(0), rtol=1e-7, atol=1e-7)


def test_output_is_standard_and_clipped():
    rows = 3 + 5 * torch.randn(200, 10, 4)
    norm = RunningMeanStd((4,), clip=2.0)
    norm.update(rows)
    out = RunningMeanStd((4,))
    out.load_state_dict(norm.state_dict())
    wide = out(rows)
    assert wide.dtype == torch.float32
    torch.testing.assert_close(wide.mean((0, 1)), torch.zeros(4), atol=1e-4, rtol=0)
    torch.testing.assert_close(wide.std((0, 1)), torch.ones(4), atol=1e-3, rtol=0)
    assert norm(rows).abs().max() == 2.0


def test_new_norm_is_the_identity():
    rows = torch.randn(5, 3)
    torch.testing.assert_close(RunningMeanStd((3,))(rows), rows)


def test_constant_features_do_not_blow_up():
    rows = torch.randn(100, 2)
    rows[:, 1] = 1234.5
    norm = RunningMeanStd((2,))
    norm.update(rows)
    assert not norm(rows)[:, 1].any()
    assert norm(torch.tensor([[0.0, 1234.6]]))[0, 1].item() == pytest.approx(0.1, abs=1e-3)


def test_state_survives_saving_and_only_statistics_are_saved():
    norm = RunningMeanStd((3,))
    norm.update(2 + torch.randn(50, 3))
    again = RunningMeanStd((3,))
    again.load_state_dict(norm.state_dict())
    rows = torch.randn(4, 3)
    assert torch.equal(norm(rows), again(rows))
    assert set(norm.state_dict()) == {"mean", "var", "count"}


def test_ranks_that_gather_keep_equal_statistics():
    parts = torch.randn(2, 3, 20, 4)  # rank, update, row, feature
    ranks = [RunningMeanStd((4,)), RunningMeanStd((4,))]
    for k in range(3):
        gathered = [measure(parts[rank, k], (4,)) for rank in range(2)]
        for rank in range(2):
            ranks[rank].update(parts[rank, k], gather=lambda part, gathered=gathered: gathered)
    alone = RunningMeanStd((4,))
    alone.update(parts)
    for rank in ranks:
        torch.testing.assert_close(rank.stats(), alone.stats())
    torch.testing.assert_close(combine([alone.stats()]), alone.stats())


def test_fresh_norm_merges_the_statistics_of_others():
    rows = torch.randn(30, 2)
    halves = [RunningMeanStd((2,)), RunningMeanStd((2,))]
    halves[0].update(rows[:10])
    halves[1].update(rows[10:])
    merged = RunningMeanStd((2,))
    merged.merge([half.stats() for half in halves])
    np.testing.assert_allclose(merged.var, rows.double().numpy().var(0))


def running_returns(reward: np.ndarray, done: np.ndarray, gamma: float) -> np.ndarray:
    returns, current = [], np.zeros(reward.shape[1])
    for r, d in zip(reward, done, strict=True):
        current = gamma * current + r
        returns.append(current)
        current = current * ~d
    return np.array(returns)


def test_rewards_are_divided_by_the_deviation_of_the_running_return():
    generator = np.random.default_rng(0)
    reward, done = 3 * generator.normal(size=(40, 4)), generator.random((40, 4)) < 0.1
    scaler = RewardNormalizer(0.9, 4)
    scaled = []
    for part in (slice(0, 15), slice(15, 40)):
        scaled.append(scaler.scale(torch.from_numpy(reward[part]).float(), torch.from_numpy(done[part])))
    deviation = running_returns(reward, done, 0.9).std()
    np.testing.assert_allclose(scaled[1], reward[15:] / deviation, rtol=1e-4)
    first = running_returns(reward[:15], done[:15], 0.9).std()
    np.testing.assert_allclose(scaled[0], reward[:15] / first, rtol=1e-4)


def test_scaler_resumes_where_it_was():
    reward, done = torch.randn(3, 20, 4), torch.rand(3, 20, 4) < 0.1
    scaler = RewardNormalizer(0.9, 4)
    scaler.scale(reward[0], done[0])
    again = RewardNormalizer(0.9, 4)
    again.load_state_dict(scaler.state_dict())
    for k in (1, 2):
        assert torch.equal(scaler.scale(reward[k], done[k]), again.scale(reward[k], done[k]))


def test_scaler_clips_and_keeps_zero():
    scaler = RewardNormalizer(0.0, 1, clip=2.0)
    reward = torch.zeros(50, 1)
    reward[7] = 100.0
    scaled = scaler.scale(reward, torch.zeros(50, 1, dtype=torch.bool))
    assert scaled.max() == 2.0 and scaled.count_nonzero() == 1
    silent = RewardNormalizer(0.9, 1).scale(torch.zeros(5, 1), torch.zeros(5, 1, dtype=torch.bool))
    assert not silent.any()
