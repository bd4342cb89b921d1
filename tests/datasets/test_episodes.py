"""Episodes of any origin become rows whose ends are known."""

from __future__ import annotations

import numpy as np
import pytest

from rl_lightning.datasets.layouts.episodes import by_episode, join_episodes
from rl_lightning.errors import DataError


def episode(steps: int, first: float = 0.0, **more) -> dict:
    obs = first + np.arange(steps * 2, dtype=np.float32).reshape(steps, 2)
    return {"observations": obs, "actions": np.zeros((steps, 1), np.float32), **more}


def test_demonstrations_have_ends_and_nothing_else():
    arrays = join_episodes("f", [episode(3), episode(2, 100.0)])
    assert arrays.keys() == {"observations", "actions", "timeouts"}
    assert arrays["timeouts"].tolist() == [False, False, True, False, True]
    assert arrays["observations"][3, 0] == 100


def test_one_observation_more_than_actions_is_the_last_next_one():
    one = episode(3)
    one["observations"] = np.arange(4.0)[:, None]
    arrays = join_episodes("f", [one])
    assert arrays["next_observations"][:, 0].tolist() == [1, 2, 3]
    assert arrays["observations"][:, 0].tolist() == [0, 1, 2]


def test_one_flag_of_an_episode_is_its_last_row():
    arrays = join_episodes("f", [episode(3, terminated=True), episode(2, terminated=False)])
    assert arrays["terminals"].tolist() == [False, False, True, False, False]
    assert arrays["timeouts"].tolist() == [False] * 4 + [True]


def test_observations_by_key_stand_in_order_of_their_names():
    one = episode(2) | {"observations": {"b": np.ones((2, 1)), "a": np.zeros((2, 2))}}
    assert join_episodes("f", [one])["observations"].tolist() == [[0, 0, 1], [0, 0, 1]]


@pytest.mark.parametrize(
    ("episodes", "said"),
    [
        ([], "has no episodes"),
        ([{"observations": np.zeros((2, 1))}], "episode 0: no array 'actions'"),
        ([episode(2), episode(2, rewards=np.zeros(2))], "episode 1 has 'rewards', the ones before have not"),
        ([episode(2, rewards=np.zeros(2)), episode(2)], "episode 1 has no 'rewards', the ones before have"),
        ([episode(2, rewards=np.zeros(3))], "'rewards' has 3 rows and 'actions' 2"),
        ([episode(2), episode(2) | {"observations": np.zeros((2, 5))}], "the shape of 'observations'"),
        ([episode(2, terminals=np.array([0, 2]))], "'terminals' must be 0 or 1"),
        ([episode(0)], "has no rows"),
        ([episode(2) | {"observations": 3.0}], "'observations' is a single value"),
        ([episode(2) | {"actions": None}], "'actions' is a single value"),
    ],
)
def test_what_is_no_episode_is_named(episodes, said):
    with pytest.raises(DataError, match=said):
        join_episodes("f", episodes)


def test_rows_are_sorted_by_their_episode_and_time():
    arrays = {"actions": np.arange(5), "observations": np.zeros((5, 1))}
    rows = by_episode("f", arrays, np.array(["b", "a", "b", "a", "b"]), np.array([2, 0, 0, 1, 1]))
    assert rows["actions"].tolist() == [2, 4, 0, 1, 3], "b begins first"
    assert rows["timeouts"].tolist() == [False, False, True, False, True]
    kept = by_episode("f", arrays | {"dones": np.array([0, 0, 0, 0, 1])}, np.array([1, 1, 1, 2, 2]))
    assert kept["timeouts"].tolist() == [False, False, True, False, False], "one that is done is not cut"
