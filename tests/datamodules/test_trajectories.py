"""Windows with returns-to-go: of one episode each, to its end and not to the window's."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.datamodules.trajectory_data import TrajectoryData
from rl_lightning.errors import ConfigError
from rl_lightning.functional.returns import returns_to_go

LENGTHS = (7, 3, 12, 1)


@pytest.fixture
def file(tmp_path):
    """Row i has observation i; the reward is the number of the step in its episode, from 1."""
    rows = sum(LENGTHS)
    ends = np.zeros(rows, bool)
    ends[np.cumsum(LENGTHS) - 1] = True
    number = np.arange(rows, dtype=np.float32)
    np.savez(
        tmp_path / "rows.npz",
        observations=number[:, None],
        actions=number[:, None] / 100,
        rewards=np.concatenate([np.arange(1, n + 1) for n in LENGTHS]).astype(np.float32),
        next_observations=number[:, None] + 1,
        terminals=ends,
        timeouts=np.zeros(rows, bool),
    )
    return str(tmp_path / "rows.npz")


def ready(file, **arguments):
    data = TrajectoryData(file, **arguments)
    data.configure(RunConfig(updates=10), 0)
    data.agent = SimpleNamespace(gamma=1.0)
    data.open("fit")
    return data


def test_returns_to_go_stop_at_an_episodes_end():
    reward, episode = torch.tensor([1.0, 2.0, 3.0, 10.0, 20.0]), torch.tensor([0, 0, 0, 2, 2])
    assert returns_to_go(reward, episode).tolist() == [6.0, 5.0, 3.0, 30.0, 20.0]


def test_a_window_is_what_the_definition_says(file):
    data = ready(file, context_length=5)
    windows, row = data.windows_from(torch.arange(sum(LENGTHS))), 0
    for length in LENGTHS:
        for step in range(length):
            seen = windows.valid[row]
            steps = range(step, min(step + 5, length))
            assert seen.tolist() == [k < len(steps) for k in range(5)]
            assert windows.timestep[row][seen].tolist() == list(steps)
            assert windows.obs[row, :, 0][seen].tolist() == [row - step + k for k in steps]
            left = [sum(range(k + 1, length + 1)) for k in steps]
            assert windows.return_to_go[row][seen].tolist() == left
            row += 1
    assert data.longest_episode() == 12 and data.best_return() == 78.0


def test_draws_are_of_the_owner_and_of_the_best_episodes_where_asked(file):
    one, again = (ready(file, batch_size=6, context_length=4).sample_trajectories(3) for _ in range(2))
    assert one.obs.shape == (3, 6, 4, 1) and torch.equal(one.obs, again.obs)
    best = ready(file, top_fraction=0.25).sample_trajectories(2)
    assert best.obs[best.valid].min() == 10.0 and best.obs[best.valid].max() == 21.0


def test_data_and_policy_must_agree(file):
    data = TrajectoryData(file, context_length=5)
    data.configure(RunConfig(updates=1), 0)
    data.agent = SimpleNamespace(context_length=8)
    with pytest.raises(ConfigError, match=r"data.context_length is 5 and model.context_length 8"):
        data.open("fit")
