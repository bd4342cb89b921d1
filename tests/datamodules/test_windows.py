"""Windows of recorded episodes: aligned, padded by repetition, never across episodes."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from contracts.harness import Taken

from rl_lightning.clock.phases import PhaseCursor, parse_phases
from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.datamodules.window_data import WindowData
from rl_lightning.errors import ConfigError

LENGTHS = (7, 3, 12, 1)


@pytest.fixture
def file(tmp_path):
    """Row i has observation i and action i / 100, so that a window tells what it is made of."""
    rows = sum(LENGTHS)
    ends = np.zeros(rows, bool)
    ends[np.cumsum(LENGTHS) - 1] = True
    number = np.arange(rows, dtype=np.float32)
    np.savez(
        tmp_path / "rows.npz",
        observations=number[:, None],
        actions=number[:, None] / 100,
        rewards=number,
        next_observations=number[:, None] + 1,
        terminals=ends,
        timeouts=np.zeros(rows, bool),
    )
    return str(tmp_path / "rows.npz")


def ready(file, **arguments):
    data = WindowData(file, **arguments)
    data.configure(RunConfig(updates=10), 0)
    data.agent = SimpleNamespace(gamma=1.0)
    data.open("fit")
    return data


@pytest.mark.parametrize(
    ("n_obs_steps", "horizon", "n_action_steps"), [(2, 8, 4), (1, 1, 1), (3, 5, 2), (2, 4, 3)]
)
def test_every_window_is_what_the_definition_says(file, n_obs_steps, horizon, n_action_steps):
    """All starts from n_obs_steps - 1 before an episode to n_action_steps - 1 behind its last whole window, by hand."""
    data = ready(file, n_obs_steps=n_obs_steps, horizon=horizon, n_action_steps=n_action_steps)
    wanted, first = [], 0
    for length in LENGTHS:
        starts = range(-(n_obs_steps - 1), max(-(n_obs_steps - 1), length - horizon + n_action_steps - 1) + 1)
        for start in starts:
            row = [first + min(max(start + k, 0), length - 1) for k in range(horizon)]
            wanted.append((row[:n_obs_steps], row))
        first += length
    found = data.window_rows(torch.arange(len(data.starts)))
    assert len(data.starts) == len(wanted)
    assert found.obs[..., 0].tolist() == [pytest.approx(seen) for seen, _ in wanted]
    assert (100 * found.action[..., 0]).round().tolist() == [row for _, row in wanted]


def test_no_window_crosses_an_episode(file):
    data = ready(file)
    episode = data.dataset.episode
    found = (100 * data.window_rows(torch.arange(len(data.starts))).action[..., 0]).round().long()
    owners = episode[found]
    assert (owners == owners[:, :1]).all()


def test_the_first_played_action_belongs_to_the_newest_observation(file):
    data = ready(file, n_obs_steps=2, horizon=8, n_action_steps=4)
    found = data.window_rows(torch.arange(len(data.starts)))
    assert torch.allclose(found.obs[:, 1, 0] / 100, found.action[:, 1, 0])


def test_blocks_have_their_shapes_and_come_from_the_owner_of_the_draws(file):
    data = ready(file, batch_size=5)
    one = data.sample_windows(3)
    assert one.obs.shape == (3, 5, 2, 1) and one.action.shape == (3, 5, 8, 1)
    again = ready(file, batch_size=5).sample_windows(3)
    assert torch.equal(one.action, again.action)


def test_a_phase_gets_windows_too(file):
    data = ready(file, batch_size=5)
    entry = {"type": "offline", "hooks": [{"name": "update", "count": 3}]}
    data.clock.phases = PhaseCursor(parse_phases([entry], ["update"]))
    found, wanted = Taken(data.next_block()), ready(file, batch_size=5).sample_windows(3)
    assert found.updates == 3 and torch.equal(found.stacked.action, wanted.action)


def test_only_the_best_episodes_are_windowed(file):
    data = ready(file, top_fraction=0.25)
    found = (100 * data.window_rows(torch.arange(len(data.starts))).action[..., 0]).round().long()
    assert set(data.dataset.episode[found].unique().tolist()) == {2}


@pytest.mark.parametrize(
    ("arguments", "word"),
    [({"n_obs_steps": 0}, "n_obs_steps"), ({"horizon": 4, "n_action_steps": 4}, "horizon")],
)
def test_windows_that_cannot_be_are_refused(file, arguments, word):
    with pytest.raises(ConfigError, match=word):
        WindowData(file, **arguments)


def test_data_and_policy_must_agree(file):
    data = WindowData(file)
    data.configure(RunConfig(updates=1), 0)
    data.agent = SimpleNamespace(horizon=16)
    with pytest.raises(ConfigError, match=r"data.horizon is 8 and model.horizon 16"):
        data.open("fit")
