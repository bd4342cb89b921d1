"""D4RL's layouts give the rows that its own loader gives, where that is right."""

from __future__ import annotations

from types import SimpleNamespace

import d4rl_layouts as layouts
import numpy as np
import pytest
import torch
from data_files import make_rows, write

from rl_lightning.algorithms.models.density import Density
from rl_lightning.algorithms.models.dynamics import Dynamics
from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.datamodules.offline_data import OfflineData
from rl_lightning.datasets import load_dataset
from rl_lightning.datasets.data_files import locate
from rl_lightning.datasets.rows.checks import examine
from rl_lightning.datasets.rows.reward_tuning import GoalPenalty, legacy_returns
from rl_lightning.datasets.summary import describe
from rl_lightning.errors import DataError

FILES = {
    "hopper-medium-v2": ("hopper_medium-v2.hdf5", layouts.locomotion(True), 1000),
    "hopper-medium-v0": ("hopper_medium-v0.hdf5", layouts.locomotion(False), 1000),
    "antmaze-umaze-v2": ("antmaze-umaze-v2.hdf5", layouts.antmaze(), 700),
    "door-human-v1": ("door_human-v1.hdf5", layouts.adroit(), 200),
    "kitchen-complete-v0": ("kitchen_complete-v0.hdf5", layouts.kitchen(), 280),
    "maze2d-umaze-v1": ("maze2d_umaze-v1.hdf5", layouts.maze2d(), 300),
}
FIELDS = {"obs": "observations", "action": "actions", "reward": "rewards", "terminated": "terminals"}


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setenv("RL_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("D4RL_DATASET_DIR", str(tmp_path))
    for file, arrays, _ in FILES.values():
        write(tmp_path / file, arrays)
    return tmp_path


def ready(dataset, **agent):
    data = OfflineData(dataset, val_fraction=0.3)
    data.configure(RunConfig(updates=1), 0)
    data.agent = SimpleNamespace(gamma=0.99, n_step=1, members=0, **agent)
    data.open("fit")
    return data


@pytest.mark.parametrize("name", FILES)
def test_rows_agree_with_d4rls_own(files, name):
    _, arrays, steps = FILES[name]
    expected, data = layouts.qlearning(arrays, steps), load_dataset(f"d4rl/{name}")
    # Where next observations are recorded, rows at time limits stay as well; a last terminal row always does.
    ours = torch.ones(data.rows, dtype=torch.bool)
    if "next_observations" in arrays:
        ours &= ~data.truncated
    if name.startswith("kitchen"):
        ours[-1] = False
    for field, key in FIELDS.items():
        np.testing.assert_array_equal(getattr(data, field)[ours].numpy(), expected[key], err_msg=key)
    right = ~expected["terminals"] | name.startswith(
        "antmaze"
    )  # elsewhere a terminal leads to the next start
    np.testing.assert_array_equal(data.next_obs[ours].numpy()[right], expected["next_observations"][right])
    known = data.next_known[ours].numpy()
    assert known[right].all() and ("next_observations" in arrays or not known[~right].any())


def test_antmaze_keeps_its_goals_and_its_episodes(files):
    arrays, data = FILES["antmaze-umaze-v2"][1], load_dataset("d4rl/antmaze-umaze-v2")
    at_limit = arrays["rewards"][arrays["timeouts"]].sum()
    assert data.rows == 6 * 699 and data.reward.sum() == arrays["rewards"].sum() - at_limit > 2000
    assert data.episodes == 6 and data.lengths().tolist() == [699] * 6 and data.next_known.all()
    penalty = GoalPenalty().tune(data)
    assert (penalty == 0).sum() == data.reward.sum() and "goes on" in data.about["read/terminals"]
    told = describe(files / "antmaze-umaze-v2.hdf5")
    assert told["episodes"] == 6 and told["mean_return"] == 1, "a goal is paid once"
    bad = [line for line in examine(locate("d4rl/antmaze-umaze-v2")) if line.bad]
    assert not bad, bad


def test_antmaze_that_breaks_off_at_a_goal(tmp_path):
    """20,000 rows, 28 time limits, the last row a goal: as many are left as D4RL's loader leaves."""
    arrays = {key: array[:20_000] for key, array in layouts.antmaze(episodes=29).items()}
    assert arrays["terminals"][-1] and arrays["timeouts"].sum() == 28
    data, expected = load_dataset(str(write(tmp_path / "a.hdf5", arrays))), layouts.qlearning(arrays, 700)
    assert data.rows == len(expected["rewards"]) == 19_971 and data.reward.sum() == expected["rewards"].sum()
    assert data.broken_off and data.episodes == 29


def test_goals_that_are_passed_by_end_no_episode(tmp_path):
    """Single goal rows between time limits that lie equally far apart."""
    arrays = layouts.antmaze()
    goal = np.arange(4200) % 97 == 50
    arrays |= {"rewards": goal.astype(np.float32), "terminals": goal}
    data = load_dataset(str(write(tmp_path / "a.hdf5", arrays)))
    assert data.episodes == 6 and data.rows == 4194 and data.next_known.all()


def test_a_goal_that_ends_its_episode_is_an_end(tmp_path):
    """The same flags as AntMaze's, but the row behind a goal is a reset."""
    lengths = [40, 25, 33]
    arrays, _ = layouts.base(lengths, 4, 2)
    arrays["terminals"] = layouts.flags(lengths, np.ones(3, bool))
    arrays |= {"rewards": arrays["terminals"].astype(np.float32), "timeouts": np.zeros(98, bool)}
    data = load_dataset(str(write(tmp_path / "goal.hdf5", arrays)))
    assert data.lengths().tolist() == lengths and data.reward.sum() == 3
    assert data.next_known.tolist() == (~arrays["terminals"]).tolist()
    assert data.with_next().rows == 98 - 3 and not data.with_next().terminated.any()
    assert [line.topic for line in examine(locate(str(tmp_path / "goal.hdf5"))) if line.bad] == ["rewards"]
    with pytest.raises(DataError, match=r"no 'next_observations'.*nothing is ever rewarded"):
        ready(str(tmp_path / "goal.hdf5"), models_next_obs=True)
    assert (ready(str(tmp_path / "goal.hdf5")).dataset.reward > 0).any()


@pytest.mark.parametrize("models", [True, False])
def test_models_of_next_observations_see_true_ones_only(files, models):
    data = ready("d4rl/hopper-medium-v0", models_next_obs=models)
    rows = torch.cat((data.train_index, data.holdout_index))
    assert data.dataset.next_known[rows].all() == models
    assert data.dataset.terminated[rows].any() != models
    split = ready("d4rl/hopper-medium-v0").holdout_index
    assert set(data.holdout_index.tolist()) <= set(split.tolist()), "all stages hold out the same episodes"


def test_who_models_next_observations():
    spec = load_spec()
    assert Dynamics(spec).models_next_obs and Density(spec).models_next_obs
    assert not Density(spec, density_of="obs_action").models_next_obs


def load_spec():
    from rl_lightning.types import EnvSpec

    return EnvSpec("A-v0", (3,), action_shape=(2,), action_low=(-1.0, -1.0), action_high=(1.0, 1.0))


def test_dropping_all_rewards_is_told(tmp_path):
    """Paid at the time limit only: without next observations that row leads nowhere."""
    arrays = make_rows([5, 5, 5], [False] * 3)
    del arrays["next_observations"]
    arrays["rewards"] = arrays["timeouts"].astype(np.float32)
    found = {line.topic: line for line in examine(locate(str(write(tmp_path / "a.hdf5", arrays))))}
    assert found["rewards"].bad and "3 are positive, and nobody sees one" in found["rewards"].text


def test_legacy_returns_lose_the_row_at_the_limit_once(files):
    rows = load_dataset("d4rl/hopper-medium-v0")
    expected = layouts.qlearning(FILES["hopper-medium-v0"][1], 1000)
    ends = np.flatnonzero(expected["terminals"])
    first = expected["rewards"][: ends[0] + 1].astype(np.float64).sum()
    second = expected["rewards"][ends[0] + 1 : ends[0] + 1001].astype(np.float64).sum()
    assert legacy_returns(rows)[:2].tolist() == pytest.approx([first, second])


def test_pieces_of_an_episode_stay_together_without_next_observations(tmp_path):
    from rl_lightning.datasets.formats.convert import convert

    arrays = make_rows([6, 6], [True, True])
    del arrays["next_observations"]
    arrays["rewards"][2] = np.nan
    convert(str(write(tmp_path / "a.hdf5", arrays)), tmp_path / "b.hdf5", leave_out_bad=True)
    data = load_dataset(str(tmp_path / "b.hdf5"))
    assert data.episodes == 3 and data.recording.unique().tolist() == [0, 1]


def test_nothing_is_joined_across_a_row_that_was_left_out_behind_a_goal(tmp_path):
    from rl_lightning.datasets.formats.convert import convert

    arrays = layouts.antmaze()
    row = 500
    assert arrays["terminals"][row - 1] and not arrays["timeouts"][row]
    arrays["observations"][row] = np.nan
    convert(str(write(tmp_path / "a.hdf5", arrays)), tmp_path / "b.hdf5", leave_out_bad=True)
    data = load_dataset(str(tmp_path / "b.hdf5"))
    assert data.episodes == 7 and data.recording.unique().tolist() == list(range(6))
    assert row - 1 not in [
        int(np.flatnonzero((arrays["observations"] == obs).all(1))[0])
        for obs in data.obs[row - 3 : row + 2].numpy()
    ], "its successor is not there"
