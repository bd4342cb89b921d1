"""Recorded pictures: rows of bytes with their shape beside them, and frames made to fit an env's."""

import numpy as np
import pytest

from rl_lightning.datasets.formats.hdf5 import write_hdf5
from rl_lightning.datasets.formats.pictures import (
    check_frames,
    fit_frames,
    picture_rows,
    picture_shape,
    stack_frames,
)
from rl_lightning.datasets.formats.raw import Raw
from rl_lightning.datasets.in_memory import as_dataset
from rl_lightning.datasets.load import load_dataset, read_header
from rl_lightning.envs.make import EnvConfig
from rl_lightning.envs.palette import atari_palette
from rl_lightning.envs.wrappers.transforms import AtariFrames, FrameStack, GrayLevelIndex
from rl_lightning.errors import DataError


def arrays(*shape):
    seen = np.random.default_rng(0).integers(0, 256, (6, *shape)).astype(np.uint8)
    ends = np.arange(6) == 5
    return {
        "observations": seen, "actions": np.arange(6) % 3, "rewards": np.ones(6, np.float32), "terminals": ends,
        "timeouts": ~ends & False,
    }  # fmt: skip


@pytest.mark.parametrize("shape", [(4, 5, 3), (3, 4, 5), (4, 5)])
def test_pictures_stay_bytes_and_channels_come_first(shape, tmp_path):
    told = arrays(*shape)
    rows = as_dataset(told)
    whole = (1, 4, 5) if len(shape) == 2 else (3, 4, 5)
    assert rows.obs.dtype.itemsize == 1 and picture_shape(rows.about) == whole
    first = told["observations"][0].reshape(1, 4, 5) if len(shape) == 2 else told["observations"][0]
    first = np.moveaxis(first, -1, 0) if shape[-1] == 3 else first
    assert (rows.obs[0].numpy().reshape(whole) == first).all()
    path = write_hdf5(tmp_path / "p.hdf5", Raw("", told))
    spec, about = read_header(str(path))
    assert picture_shape(about) == whole and spec.obs_shape == rows.spec.obs_shape
    assert (load_dataset(str(path)).obs == rows.obs).all()


def test_flat_bytes_are_numbers_unless_their_shape_is_told():
    assert as_dataset(arrays(7)).obs.dtype.itemsize == 4
    assert picture_shape({}) is None and picture_shape({"obs_picture": [3, "x", 1]}) is None


def test_frames_are_averaged_to_size():
    frame = np.array([[[[0, 100, 200, 40], [100, 200, 0, 0]]]], np.uint8)
    assert fit_frames(frame, (1, 1, 2)).tolist() == [[[[100, 60]]]]
    assert fit_frames(frame, (3, 2, 4))[0, 2].tolist() == frame[0, 0].tolist()
    uneven = fit_frames(np.array([[[[0, 90, 180]]]], np.uint8), (1, 1, 2))
    assert uneven.tolist() == [[[[30, 150]]]]  # two thirds of one, a third of the next
    rgb = np.stack([np.full((2, 2), v) for v in (255, 0, 0)])[None].astype(np.uint8)
    assert fit_frames(rgb, (1, 2, 2)).tolist() == [[[[76, 76], [76, 76]]]]


def test_colors_of_a_palette_are_the_nearest_ones():
    colors = atari_palette()
    rgb = np.moveaxis(colors.reshape(1, 8, 16, 3), -1, 1).astype(int)
    noisy = (rgb + np.random.default_rng(1).integers(-1, 2, rgb.shape)).clip(0, 255).astype(np.uint8)
    assert fit_frames(noisy, (1, 8, 16), colors)[0, 0].ravel().tolist() == list(range(128))
    half = fit_frames(noisy, (1, 4, 8), colors)[0, 0]
    assert half.ravel().tolist() == np.arange(128).reshape(8, 16)[1::2, 1::2].ravel().tolist()


def test_an_env_knows_its_palette():
    levels = EnvConfig("rl/Catch-v0", transforms=[GrayLevelIndex([0, 128, 255]), FrameStack(2)]).palette
    assert levels is not None and levels[:, 0].tolist() == [0, 128, 255]
    assert len(EnvConfig("ALE/Pong-v5", transforms=[AtariFrames()]).palette) == 128
    assert EnvConfig("ALE/Pong-v5", transforms=[AtariFrames(obs_type="rgb")]).palette is None
    assert EnvConfig("CartPole-v1").palette is None


def test_stacks_begin_with_the_first_frame_repeated():
    frames = np.arange(4, dtype=np.uint8).reshape(4, 1, 1, 1)
    assert stack_frames(frames, 3)[:, :, 0, 0].tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 2], [1, 2, 3]]


def test_stacks_are_not_taken_for_frames():
    flat, shape = picture_rows(np.zeros((2, 4, 6, 5), np.uint8))
    assert shape == [4, 6, 5] and flat.shape == (2, 120)
    with pytest.raises(DataError, match="its pictures have 4 channels"):
        check_frames("x", (4, 6, 5), (1,))
