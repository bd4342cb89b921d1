"""The words between layers."""

import io

import pytest
import torch

from rl_lightning.models.described import describe, rebuild
from rl_lightning.types import EnvSpec


@pytest.mark.parametrize(
    ("fields", "width"),
    [
        ({"action_kind": "continuous", "action_shape": (3,)}, 3),
        ({"action_kind": "discrete", "action_sizes": (5,)}, 5),
        ({"action_kind": "multi_discrete", "action_shape": (2,), "action_sizes": (3, 2)}, 5),
    ],
)
def test_width_of_a_flat_action(fields, width):
    assert EnvSpec("e", (4,), **fields).action_dim == width


def test_pixels_are_unsigned_bytes_of_three_axes():
    assert EnvSpec("e", (4, 8, 8), "uint8").is_pixels
    assert not EnvSpec("e", (4, 8, 8)).is_pixels and not EnvSpec("e", (8,), "uint8").is_pixels


def test_a_spec_is_written_down_in_plain_values():
    spec = EnvSpec("e", (4,), action_shape=(2,), action_low=(-1.0, -2.0))
    file = io.BytesIO()
    torch.save(describe(spec), file)
    file.seek(0)
    assert rebuild(torch.load(file, weights_only=True), "a file", EnvSpec) == spec
