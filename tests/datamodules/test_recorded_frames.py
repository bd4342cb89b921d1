"""Frames and episodes that no stage collected: a folder of films, a data set of pictures."""

import csv
from functools import partial

import numpy as np
import pytest
import torch
from contracts.families.frames import RECIPE, SMALL, WORLD
from contracts.families.world_models import DODGE

from rl_lightning.algorithms import NextFrame
from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.datamodules import FrameWindowData, RecordedEpisodesData, RewardStepData, SimulatedData
from rl_lightning.datamodules.all_frames import AllFrames
from rl_lightning.datasets.in_memory import as_dataset
from rl_lightning.envs.make import make_env, probe_spec
from rl_lightning.envs.palette import palette
from rl_lightning.errors import ConfigError, DataError
from rl_lightning.replay.frames.recorded_frames import log_of_dataset, recorded_episodes
from rl_lightning.rollout.episode_splitter import load_recording
from rl_lightning.rollout.video import write_video

LEVELS = [0, 128, 255]  # of SMALL
ZOOM = 4  # a codec keeps small squares, not single pixels


def played(config, episodes=6, seed=0):
    """Random episodes, an entry of arrays each; the newest frame of every stack, and the last observation too."""
    env, draw, parts = make_env(config), np.random.default_rng(seed), []
    for number in range(episodes):
        obs, _ = env.reset(seed=number)
        rows = {"frames": [obs], "action": [], "reward": [], "terminated": []}
        over = False
        while not over:
            action = int(draw.integers(env.action_space.n))
            obs, reward, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
            for key, value in (
                ("frames", obs),
                ("action", action),
                ("reward", reward),
                ("terminated", terminated),
            ):
                rows[key].append(value)
        parts.append({key: np.array(values) for key, values in rows.items()})
    return parts


def films(folder, parts):
    """What a camera would have seen of them."""
    folder.mkdir()
    for number, part in enumerate(parts):
        shown = palette(LEVELS)[part["frames"][:, -1]].repeat(ZOOM, 1).repeat(ZOOM, 2)
        write_video(list(shown), folder / f"{number:03d}.mp4", 10)
        columns = {
            key: part[key].astype(float if key == "reward" else int).tolist() for key in list(part)[1:]
        }
        with (folder / f"{number:03d}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([columns, *zip(*columns.values(), strict=True)])
    return str(folder)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    parts = played(SMALL)
    return films(tmp_path_factory.mktemp("films") / "catch", parts), parts


def test_films_become_the_frames_that_were_seen(recorded):
    folder, parts = recorded
    spec = probe_spec(SMALL)
    log = AllFrames(SMALL, spec, None, folder).read("x")
    assert len(log) == sum(len(part["frames"]) for part in parts) and log.parts == [0]
    row = 0
    for part in parts:
        count = len(part["frames"])
        assert (log.column("frame")[row : row + count, 0] == part["frames"][:, -1]).all()
        assert (log.column("action")[row : row + count - 1] == part["action"]).all()
        assert (log.column("reward")[row : row + count - 1] == part["reward"]).all()
        assert (log.column("terminated")[row : row + count - 1] == part["terminated"]).all()
        stacks = log.stack(torch.arange(row, row + count)).numpy()
        assert (stacks == part["frames"]).all()
        row += count


def test_a_world_learns_from_a_folder_of_films(recorded):
    data = FrameWindowData(
        SMALL, sequence_length=2, batch_size=4, updates_per_block=2, val_fraction=0.3, dataset=recorded[0]
    )
    model = NextFrame(data.spec, predictor=partial(RECIPE), eval_rows=8)
    data.configure(RunConfig(updates=4), 0)
    data.connect(model)
    data.open("fit")
    model.attach(data)
    model.on_fit_start()
    block = data.next_block()
    model.training_step(block, 0)
    assert data.clock.update == 2 and model.imagine_windows(data, 3).true.shape[2:] == (
        1,
        *data.spec.obs_shape[1:],
    )


def test_imagined_episodes_begin_at_recorded_frames(recorded):
    """And what the world makes of them can be seen beside what came."""
    folder, parts = recorded
    data = SimulatedData(SMALL, WORLD, num_envs=2, horizon=3, pin_last_env_to_start=False, dataset=folder)
    starts = data.make_simulated_envs(2).reset(seed=0)[0]
    seen = {frames.tobytes() for part in parts for frames in part["frames"]}
    assert all(stack.tobytes() in seen for stack in starts)
    windows = data.imagine_windows(50)  # longer than any episode
    steps = max(len(part["action"]) for part in parts)
    assert windows.true.shape[1] == windows.imagined_reward.shape[1] == steps and windows.error.max() <= 1.0
    assert windows.colors == 3 and set(windows.imagined_reward.unique().tolist()) <= {-1.0, 0.0, 1.0}


def test_frames_are_asked_for(recorded):
    with pytest.raises(ConfigError, match=r"no frames: give frames_from"):
        RewardStepData(SMALL)
    with pytest.raises(DataError, match="recorded in another env"):
        SimulatedData(
            SMALL,
            "no-world",
            dataset={
                "observations": np.zeros((3, 4)),
                "actions": [0, 1, 0],
                "rewards": [0.0] * 3,
                "terminals": [0, 0, 1],
            },
        )


def test_episodes_of_a_data_set_are_those_that_were_played():
    part = played(DODGE, 2)
    arrays = {
        "observations": np.concatenate([one["frames"][:-1] for one in part]),
        "next_observations": np.concatenate([one["frames"][1:] for one in part]),
        "actions": np.concatenate([one["action"] for one in part]),
        "rewards": np.concatenate([one["reward"] for one in part]).astype(np.float32),
        "terminals": np.concatenate([one["terminated"] for one in part]),
    }
    arrays["timeouts"] = np.zeros(len(arrays["actions"]), bool)
    arrays["timeouts"][[len(part[0]["action"]) - 1, -1]] = True
    arrays["timeouts"] &= ~arrays["terminals"]
    spec = probe_spec(DODGE)
    rows = load_recording(None, arrays, DODGE, spec)
    assert rows.episodes == 2 and (rows.obs.numpy() == np.concatenate([one["frames"] for one in part])).all()
    assert rows.reward[0] == 0 and rows.reward.sum() == pytest.approx(arrays["rewards"].sum())
    assert len(list(recorded_episodes(as_dataset(arrays), spec))) == 2
    data = RecordedEpisodesData(DODGE, sequence_length=2, batch_size=3, dataset=arrays)
    data.configure(RunConfig(updates=4), 0)
    data.open("fit")
    assert data.next_batch().obs.shape[:2] == (3, 2)
    with pytest.raises(ConfigError, match="give one of them"):
        RecordedEpisodesData(DODGE).open("fit")


def test_a_log_of_rows_has_one_frame_more_than_steps():
    part = played(SMALL, 1)[0]
    arrays = {
        "observations": part["frames"][:-1], "next_observations": part["frames"][1:], "actions": part["action"],
        "rewards": part["reward"].astype(np.float32), "terminals": part["terminated"],
        "timeouts": ~part["terminated"] & (np.arange(len(part["action"])) == len(part["action"]) - 1),
    }  # fmt: skip
    log = log_of_dataset(as_dataset(arrays), probe_spec(SMALL))
    assert (log.column("frame")[:, 0] == part["frames"][:, -1]).all()
