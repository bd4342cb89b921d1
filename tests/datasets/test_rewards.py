"""Rewards made from the data set itself, and the best share of its episodes."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.datamodules.offline_data import OfflineData
from rl_lightning.datasets.load import load_dataset
from rl_lightning.datasets.rows.reward_tuning import GoalPenalty, ReturnRange, legacy_returns
from rl_lightning.errors import ConfigError, DataError


def write(path, rewards, ends, timeouts=None):
    rows = len(rewards)
    np.savez(
        path, observations=np.arange(rows, dtype=np.float32)[:, None], actions=np.zeros((rows, 1), np.float32),
        rewards=np.array(rewards, np.float32), next_observations=np.ones((rows, 1), np.float32),
        terminals=np.array(ends, bool), timeouts=np.zeros(rows, bool) if timeouts is None else np.array(timeouts, bool),
    )  # fmt: skip
    return str(path)


@pytest.fixture
def three(tmp_path):
    """Returns 6, -4 and 1."""
    return write(tmp_path / "three.npz", [1, 2, 3, -4, 0, 1], [0, 0, 1, 1, 0, 1])


def test_range_of_returns(three):
    found = ReturnRange().tune(load_dataset(three))
    assert found.tolist() == pytest.approx([100, 200, 300, -400, 0, 100])


def test_goals_cost_until_they_are_reached(tmp_path):
    file = write(tmp_path / "goal.npz", [0, 0, 1, 0, 0], [0, 0, 1, 0, 1])
    assert GoalPenalty().tune(load_dataset(file)).tolist() == [-1, -1, 0, -1, -1]


def test_legacy_returns_are_those_of_the_originals(tmp_path):
    """Episodes of 1000 rows lose the one at their time limit; stretches of 1000 then drift across their ends."""
    rewards, timeouts = [1.0] * 3000, [i % 1000 == 999 for i in range(3000)]
    rows = load_dataset(write(tmp_path / "cut.npz", rewards, [0] * 3000, timeouts))
    assert rows.returns().tolist() == [1000.0] * 3
    assert legacy_returns(rows).tolist() == [1000.0, 1000.0], "the 997 rows left over are no episode"


@pytest.mark.parametrize("legacy", [False, True])
def test_a_recording_that_breaks_off_is_not_the_worst_episode(tmp_path, legacy):
    """Returns 6, 2, and one row of an episode that would have gone on."""
    file = write(tmp_path / "broken.npz", [1, 2, 3, 2, -40], [0, 0, 1, 1, 0])
    assert ReturnRange(legacy).tune(load_dataset(file)).tolist() == [250, 500, 750, 500, -10000]
    alone = load_dataset(write(tmp_path / "alone.npz", [1, 2, 3], [0, 0, 0]))
    assert legacy_returns(alone).tolist() == [3.0] and alone.broken_off
    assert not load_dataset(file).first(2).broken_off


def test_equal_returns_are_refused_with_a_way_out(tmp_path):
    file = write(tmp_path / "flat.npz", [1, 1, 1, 1], [0, 1, 0, 1])
    with pytest.raises(DataError, match="no range") as error:
        ReturnRange().tune(load_dataset(file))
    assert "--data.reward_scale" in str(error.value)


def ready(file, **arguments):
    data = OfflineData(file, val_fraction=0.0, **arguments)
    data.configure(RunConfig(updates=1), 0)
    data.agent = SimpleNamespace(gamma=1.0)
    data.open("fit")
    return data


def test_only_the_best_episodes_are_learned_from(three):
    assert ready(three, top_fraction=0.3).train_index.tolist() == [0, 1, 2]
    assert ready(three, top_fraction=0.7).train_index.tolist() == [0, 1, 2, 4, 5]
    assert torch.equal(ready(three).train_rows().obs[:, 0], torch.arange(6.0))


def test_only_the_first_episodes_are_there(three):
    assert ready(three, max_episodes=2).train_rows().obs[:, 0].tolist() == [0, 1, 2, 3]
    assert len(ready(three, max_episodes=9).train_index) == 6
    with pytest.raises(DataError, match="one episode"):
        OfflineData(three, val_fraction=0.1, max_episodes=1)


def test_tuned_rewards_are_what_is_drawn(three):
    data = ready(three, reward_tuning=ReturnRange(), reward_scale=0.01, reward_shift=-1.0)
    assert data.train_rows().reward.tolist() == pytest.approx([0, 1, 2, -5, -1, 0])


def test_a_share_of_nothing_is_refused(three):
    with pytest.raises(ConfigError, match="top_fraction"):
        OfflineData(three, top_fraction=0.0)
    with pytest.raises(ConfigError, match="max_episodes"):
        OfflineData(three, max_episodes=0)
