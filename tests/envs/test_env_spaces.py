"""Encodings, over random spaces."""

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from rl_lightning.envs.spaces import ActionEncoder, ObsEncoder
from rl_lightning.errors import ConfigError

small = st.integers(1, 4)
boxes = st.builds(
    lambda shape, low, width: spaces.Box(low, low + width, tuple(shape), np.float32),
    st.lists(small, max_size=3),
    st.floats(-5, 5),
    st.floats(0.5, 5),
)
discretes = st.builds(spaces.Discrete, small, start=st.integers(-3, 3))
multis = st.builds(lambda sizes: spaces.MultiDiscrete(sizes), st.lists(small, min_size=1, max_size=3))
binaries = st.builds(spaces.MultiBinary, small)
integers = st.one_of(discretes, multis, binaries)


def nested(leaves):
    children = st.lists(leaves, min_size=1, max_size=3)
    return st.one_of(
        leaves,
        children.map(lambda found: spaces.Dict({f"k{9 - i}": leaf for i, leaf in enumerate(found)})),
        children.map(lambda found: spaces.Tuple(found)),
    )


@settings(max_examples=60, deadline=None)
@given(nested(nested(st.one_of(boxes, integers))), st.integers(0, 1000))
def test_observations_encode_into_their_space_without_loss(space, seed):
    space.seed(seed)
    encoder = ObsEncoder(space)
    one, two = space.sample(), space.sample()
    row = encoder(one)
    assert row.shape == encoder.encoded.shape and row.dtype == np.float32
    assert encoder.encoded.contains(row)
    flat = spaces.flatten
    same = np.array_equal(flat(space, one), flat(space, two))
    assert np.array_equal(row, encoder(two)) == same


@settings(max_examples=60, deadline=None)
@given(st.one_of(nested(boxes), nested(integers)), st.integers(0, 1000))
def test_actions_decode_into_the_envs_space(space, seed):
    encoder = ActionEncoder(space)
    encoder.encoded.seed(seed)
    rows = np.stack([encoder.encoded.sample() for _ in range(3)])
    assert rows[0].shape == encoder.shape
    decoded = encoder.decode_batch(rows)
    for row, action in zip(rows, decoded, strict=True):
        assert space.contains(action), (space, action)
        np.testing.assert_equal(encoder.decode(row), action)


def test_discrete_actions_cover_the_space_from_its_start():
    assert ActionEncoder(spaces.Discrete(3, start=-1)).decode_batch(np.arange(3)) == [-1, 0, 1]
    binary = ActionEncoder(spaces.MultiBinary(3))
    assert binary.sizes == (2, 2, 2) and binary.kind == "multi_discrete"


def test_boxes_rescale_only_where_bounds_are_finite():
    space = spaces.Box(np.array([-2.0, -np.inf], np.float32), np.array([6.0, np.inf], np.float32))
    encoder = ActionEncoder(space)
    np.testing.assert_allclose(encoder.decode(np.array([-1.0, 9.0])), [-2.0, 9.0])
    np.testing.assert_allclose(encoder.decode(np.array([3.0, -9.0])), [6.0, -9.0])
    np.testing.assert_allclose(encoder.decode(np.array([0.0, 0.0])), [2.0, 0.0])


def test_observation_order_is_that_of_sorted_keys():
    space = spaces.Dict(b=spaces.Box(0, 9, (1,)), a=spaces.Box(0, 9, (2,)))
    row = ObsEncoder(space)({"b": np.array([3.0]), "a": np.array([1.0, 2.0])})
    assert row.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("shape", "encoded"),
    [((8, 9, 3), (3, 8, 9)), ((3, 8, 9), (3, 8, 9)), ((8, 9), (1, 8, 9)), ((84, 84, 4), (4, 84, 84))],
)
def test_pixels_become_channels_first(shape, encoded):
    encoder = ObsEncoder(spaces.Box(0, 255, shape, np.uint8))
    frame = np.arange(np.prod(shape)).reshape(shape).astype(np.uint8)
    row = encoder(frame)
    assert row.shape == encoded and row.dtype == np.uint8
    if shape[-1] in (3, 4):
        assert (row[1] == frame[..., 1]).all()


def test_what_is_not_supported_is_refused_by_name():
    with pytest.raises(ConfigError, match="Text"):
        ObsEncoder(spaces.Text(5))
    with pytest.raises(ConfigError, match="mixes continuous and discrete"):
        ActionEncoder(spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1)]))
    with pytest.raises(ConfigError, match="Text"):
        ActionEncoder(spaces.Text(5))
