"""OGBench's compact files, and the rewards that its package gives them."""

from __future__ import annotations

import os

import numpy as np
import pytest
from data_files import make_rows
from public_files import public_file

from rl_lightning.analysis.dataset_tables import check_dataset
from rl_lightning.datasets import load_dataset
from rl_lightning.datasets.data_files import locate, ogbench_file
from rl_lightning.datasets.formats.convert import convert
from rl_lightning.datasets.layouts.ogbench import env_name, is_compact
from rl_lightning.errors import DataError

LENGTHS = (4, 3)  # states; one action less leads anywhere


def compact(width: int = 28) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    rows = sum(LENGTHS)
    terminals = np.zeros(rows, bool)
    terminals[np.cumsum(LENGTHS) - 1] = True
    return {
        "observations": rng.normal(size=(rows, width)).astype(np.float32),
        "actions": rng.uniform(-1, 1, (rows, 5)).astype(np.float32),
        "terminals": terminals,
        "qpos": rng.normal(size=(rows, 21)).astype(np.float32),
        "qvel": rng.normal(size=(rows, 20)).astype(np.float32),
    }


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RL_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "ogbench").mkdir()
    np.savez_compressed(tmp_path / "ogbench" / "cube-single-play-v0.npz", **compact())
    return tmp_path


def test_each_state_is_the_next_one_of_the_row_before(tmp_path):
    given = compact()
    np.savez(tmp_path / "a.npz", **given)
    data = load_dataset(str(tmp_path / "a.npz"))
    rows = [0, 1, 2, 4, 5]
    np.testing.assert_array_equal(data.obs.numpy(), given["observations"][rows])
    np.testing.assert_array_equal(data.next_obs.numpy(), given["observations"][[row + 1 for row in rows]])
    np.testing.assert_array_equal(data.action.numpy(), given["actions"][rows])
    assert data.truncated.nonzero()[:, 0].tolist() == [2, 4] and not data.terminated.any()
    assert data.missing == ("rewards", "terminals") and data.lengths().tolist() == [3, 2]
    text, sound = check_dataset(str(tmp_path / "a.npz"))
    assert sound and "OGBench's compact form: 2 trajectories" in text


def test_positions_stay_beside_the_rows(tmp_path):
    np.savez(tmp_path / "a.npz", **compact())
    convert(str(tmp_path / "a.npz"), tmp_path / "b.npz")
    with np.load(tmp_path / "b.npz") as written:
        np.testing.assert_array_equal(written["infos/qpos"], compact()["qpos"][[0, 1, 2, 4, 5]])
        assert "rewards" not in written and "terminals" not in written


def test_what_is_not_compact():
    assert is_compact(compact()) and not is_compact(make_rows([3], [True]))
    assert not is_compact({"observations", "actions", "terminals"}), "anybody's arrays"


def test_a_file_of_last_states_has_no_transition(tmp_path):
    given = compact() | {"terminals": np.ones(7, bool)}
    np.savez(tmp_path / "a.npz", **given)
    with pytest.raises(DataError, match="no transition is left"):
        load_dataset(str(tmp_path / "a.npz"))


@pytest.mark.parametrize(
    ("name", "file", "env"),
    [
        ("cube-single-play-v0", "cube-single-play-v0.npz", "cube-single-v0"),
        ("cube-single-play", "cube-single-play-v0.npz", "cube-single-v0"),
        ("cube-single-play-singletask-v0", "cube-single-play-v0.npz", "cube-single-singletask-v0"),
        ("scene-play-singletask-task4-v0", "scene-play-v0.npz", "scene-singletask-task4-v0"),
        ("antmaze-large-navigate-v0", "antmaze-large-navigate-v0.npz", "antmaze-large-v0"),
        (
            "puzzle-4x4-noisy-singletask-task1-v0",
            "puzzle-4x4-noisy-v0.npz",
            "puzzle-4x4-singletask-task1-v0",
        ),
    ],
)
def test_names(name, file, env):
    assert ogbench_file(name) == file and env_name(f"ogbench/{name}") == env


def test_by_name(folder):
    data = load_dataset("ogbench/cube-single-play-v0")
    assert data.rows == 5 and data.about["ogbench_env"] == "cube-single-v0"
    with pytest.raises(DataError, match="rl data get ogbench/scene-play-v0"):
        locate("ogbench/scene-play-v0")
    for name, scripted in (("ogbench/scene-play-v0", True), ("ogbench/antmaze-large-navigate-v0", False)):
        with pytest.raises(DataError) as caught:
            locate(name)
        assert ("rl data make" in str(caught.value)) == scripted, "mazes were played by trained agents"


def test_a_single_task_has_rewards(folder):
    """Task 1 of cube-single wants the cube at a place; a row whose cube lies there is a success."""
    pytest.importorskip("ogbench", exc_type=ImportError)
    import gymnasium

    env = gymnasium.make("cube-single-singletask-task1-v0")
    env.reset()
    given = compact()
    given["qpos"][1, 14:17] = env.unwrapped._data.mocap_pos[0]
    np.savez(folder / "ogbench" / "cube-single-play-v0.npz", **given)
    data = load_dataset("ogbench/cube-single-play-singletask-task1-v0")
    assert (
        data.reward.tolist() == [-1, 0, -1, -1, -1]
        and data.terminated.tolist() == [False, True] + [False] * 3
    )
    assert not data.missing and data.lengths().tolist() == [3, 2], "a success ends no recording"
    with pytest.raises(DataError, match="no single task"):
        load_dataset("ogbench/cube-single-play-singletask-task9-v0")


FAMILIES = (
    "cube-double-play-singletask-task2-v0",
    "scene-play-singletask-v0",
    pytest.param("puzzle-3x3-play-singletask-task3-v0", marks=pytest.mark.slow),
    pytest.param("antmaze-medium-navigate-singletask-task4-v0", marks=pytest.mark.slow),
    "antsoccer-arena-navigate-singletask-v0",
)


def around_the_goal(env, count: int = 12) -> dict[str, np.ndarray]:
    """States of two trajectories, in some of which the task is done in part or whole."""
    rng, inner = np.random.default_rng(0), env.unwrapped
    data, goal = inner.data if hasattr(inner, "data") else inner._data, getattr(inner, "cur_goal_xy", None)
    rows = {"qpos": np.tile(data.qpos, (count, 1)).astype(np.float32)}
    if goal is not None:
        start = 15 if "soccer" in env.spec.id else 0
        rows["qpos"][::3, start : start + 2] = goal
    else:
        for cube, place in enumerate(data.mocap_pos[: getattr(inner, "_num_cubes", 0)]):
            near = rng.random(count) < 0.7
            rows["qpos"][near, 14 + 7 * cube : 17 + 7 * cube] = place
        if hasattr(inner, "_target_button_states"):
            target = inner._target_button_states
            rows["button_states"] = np.where(rng.random((count, len(target))) < 0.9, target, 1 - target)
        if hasattr(inner, "_target_drawer_pos"):
            rows["qpos"][:, -2:] = inner._target_drawer_pos, inner._target_window_pos
    terminals = np.zeros(count, bool)
    terminals[[4, count - 1]] = True
    obs = rng.normal(size=(count, 6)).astype(np.float32)
    return rows | {"observations": obs, "actions": obs[:, :2].clip(-1, 1), "terminals": terminals}


@pytest.mark.parametrize("name", FAMILIES)
def test_rewards_are_those_of_the_packages_own_loader(folder, name):
    """Of the state that a row begins in, whatever its env does (it rewarded the next one before 1.2)."""
    ogbench = pytest.importorskip("ogbench", exc_type=ImportError)
    import gymnasium
    from ogbench.relabel_utils import relabel_dataset

    env_id = env_name(f"ogbench/{name}")
    env = gymnasium.make(env_id)
    env.reset()
    place = folder / "ogbench" / ogbench_file(name)
    np.savez(place, **around_the_goal(env))
    theirs = ogbench.load_dataset(str(place), add_info=True)
    relabel_dataset(env_id, env, theirs)
    ours = load_dataset(f"ogbench/{name}")
    for key, tensor in (
        ("observations", ours.obs),
        ("actions", ours.action),
        ("next_observations", ours.next_obs),
        ("rewards", ours.reward),
        ("masks", 1.0 - ours.terminated.float()),
    ):
        np.testing.assert_array_equal(tensor.numpy(), theirs[key], key)
    assert 0 < ours.terminated.sum() < ours.rows and ours.spec.env_id == env_id
    np.testing.assert_array_equal((ours.terminated | ours.truncated).numpy()[[3, 9]], [True, True])


def test_its_envs_are_known_by_their_ids():
    pytest.importorskip("ogbench", exc_type=ImportError)
    from rl_lightning.analysis.env_index import environments
    from rl_lightning.envs import EnvConfig, make_env
    from rl_lightning.envs.suites.ogbench import known_ids

    assert {name for name, suite, _ in environments() if suite == "ogbench"} == set(known_ids())
    env = make_env(EnvConfig("cube-single-singletask-task1-v0"))
    assert env.observation_space.shape == (28,) and env.action_space.shape == (5,)
    env.close()


def test_its_envs_draw_where_egl_works():
    """By mujoco.Renderer, which looks for a display unless it is told otherwise before mujoco is imported."""
    pytest.importorskip("ogbench", exc_type=ImportError)
    from rl_lightning.envs import EnvConfig, make_env
    from rl_lightning.envs.suites.gl import prepare_gl

    prepare_gl()
    if os.environ.get("MUJOCO_GL") != "egl":
        pytest.skip("no EGL here")
    env = make_env(EnvConfig("cube-single-singletask-task1-v0"), render_mode="rgb_array")
    env.reset(seed=0)
    assert np.asarray(env.render()).std() > 0
    env.close()


def test_rewards_need_the_package(folder, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "ogbench.relabel_utils", None)
    with pytest.raises(DataError, match=r"OGBench's package. Install it with"):
        load_dataset("ogbench/cube-single-play-singletask-v0")


def test_three_real_trajectories():
    data = load_dataset(str(public_file("ogbench-cube-single-play-3episodes.npz")))
    assert (data.rows, data.lengths().tolist()) == (3000, [1000] * 3)
    same = (data.next_obs[:-1] == data.obs[1:]).all(1)
    assert same.sum() == 2997, "all but the two joints between trajectories"


def test_three_real_trajectories_by_name(folder):
    ogbench = pytest.importorskip("ogbench", exc_type=ImportError)
    import gymnasium
    from ogbench.relabel_utils import relabel_dataset

    real = public_file("ogbench-cube-single-play-3episodes.npz")
    (folder / "ogbench" / "cube-single-play-v0.npz").write_bytes(real.read_bytes())
    theirs = ogbench.load_dataset(str(real), add_info=True)
    for task in ("-task2", ""):
        env_id = f"cube-single-singletask{task}-v0"
        relabel_dataset(env_id, gymnasium.make(env_id), theirs)
        ours = load_dataset(f"ogbench/cube-single-play-singletask{task}-v0")
        np.testing.assert_array_equal(ours.reward.numpy(), theirs["rewards"])
        np.testing.assert_array_equal(ours.next_obs.numpy(), theirs["next_observations"])
        assert ours.lengths().tolist() == [1000] * 3
