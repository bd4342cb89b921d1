"""Ranges are types: one refusal in a config, in a constructor and in a part that a factory makes."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl_lightning.algorithms import BehaviorDiffusion
from rl_lightning.datamodules import OnlineData
from rl_lightning.errors import ConfigError
from rl_lightning.factories import make
from rl_lightning.ranges import Fraction, PositiveInt, check_ranges, check_ranges_within
from rl_lightning.types import EnvSpec


class Part:
    def __init__(self, size: int, /, width: PositiveInt = 1, shares: list[Fraction] | None = None) -> None:
        self.size, self.width, self.shares = size, width, shares


class Child(Part):
    def __init__(self, size: int, /, depth: PositiveInt = 1, **more) -> None:
        super().__init__(size, **more)
        self.depth = depth


@given(st.integers(-5, 5))
def test_a_number_passes_where_its_type_allows_it(width):
    if width >= 1:
        assert make(partial(Part, width=width), Part, "part", 3).width == width
    else:
        with pytest.raises(ConfigError, match=rf"part\.width is {width}; it must be at least 1"):
            make(partial(Part, width=width), Part, "part", 3)


def test_lists_nulls_and_what_goes_on_to_the_base():
    check_ranges(Part, {"shares": [0.0, 1.0], "width": True, "else": -3})
    check_ranges(Part, {"shares": None})
    with pytest.raises(ConfigError, match=r"shares is .* lies between 0 and 1"):
        check_ranges(Part, {"shares": [0.5, 1.5]})
    with pytest.raises(ConfigError, match="width is 0"):
        check_ranges(Child, {"depth": 1, "width": 0})


def test_a_config_is_looked_at_all_the_way_down():
    path = f"{__name__}.Part"
    config = {"class_path": "x.y", "init_args": {"parts": [{"class_path": path, "init_args": {"width": 0}}]}}
    with pytest.raises(ConfigError, match=r"model\.parts\[0\]\.width is 0"):
        check_ranges_within(config, "model")


def test_constructors_refuse_before_anything_is_made():
    with pytest.raises(ConfigError, match="batch_size is 0; it must be at least 1"):
        OnlineData("CartPole-v1", batch_size=0)
    with pytest.raises(ConfigError, match="lr is -1; it must not be negative"):
        BehaviorDiffusion(EnvSpec("x", (3,), action_shape=(2,)), lr=-1)
