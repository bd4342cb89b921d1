"""Rules of termination: equal to what the envs themselves say, at their edges and in real episodes."""

import gymnasium
import numpy as np
import pytest
import torch

from rl_lightning.envs.termination import (
    FAMILIES,
    AntTermination,
    DoorTermination,
    HalfCheetahTermination,
    HopperTermination,
    HumanoidTermination,
    NoTermination,
    PendulumTermination,
    PenTermination,
    Termination,
    Walker2dTermination,
    termination_for,
)
from rl_lightning.errors import ConfigError

RULES = [
    HopperTermination,
    Walker2dTermination,
    HalfCheetahTermination,
    AntTermination,
    HumanoidTermination,
    PendulumTermination,
    PenTermination,
    DoorTermination,
]
LIVES = {
    HopperTermination: 1.2,
    Walker2dTermination: 1.2,
    AntTermination: 0.5,
    HumanoidTermination: 1.4,
    PenTermination: 0.3,
}  # a healthy height


def alive(rule: type[Termination], width: int = 45) -> torch.Tensor:
    obs = torch.zeros(width)
    obs[26 if rule is PenTermination else 0] = LIVES.get(rule, 0.0)
    return obs


@pytest.mark.parametrize("env_id", ["Hopper-v5", "Walker2d-v5", "HalfCheetah-v5", "Ant-v5", "Humanoid-v5"])
def test_a_rule_agrees_with_its_env_at_every_step(env_id):
    env = gymnasium.make(env_id)
    env.action_space.seed(0)
    env.reset(seed=0)
    seen, ended = [], []
    for _ in range(4000):
        obs, _, terminated, truncated, _ = env.step(env.action_space.sample())
        seen.append(obs)
        ended.append(terminated)
        if terminated or truncated:
            env.reset()
    env.close()
    rows = torch.from_numpy(np.array(seen)).float()
    assert torch.equal(termination_for(env_id)(rows), torch.tensor(ended))
    assert any(ended) or env_id in ("HalfCheetah-v5", "Ant-v5")


@pytest.mark.parametrize(
    ("rule", "column", "value", "over"),
    [
        (HopperTermination(), 0, 0.71, False),
        (HopperTermination(), 0, 0.69, True),
        (HopperTermination(), 1, -0.19, False),
        (HopperTermination(), 1, -0.21, True),
        (HopperTermination(), 5, -99.0, False),
        (HopperTermination(), 5, -101.0, True),
        (HopperTermination(), 0, 101.0, False),  # the height has no upper bound
        (Walker2dTermination(), 0, 0.79, True),
        (Walker2dTermination(), 0, 2.01, True),
        (Walker2dTermination(), 1, 0.99, False),
        (Walker2dTermination(), 1, -1.01, True),
        (Walker2dTermination(), 5, 1e6, False),
        (Walker2dTermination(max_abs_obs=100.0), 5, -100.0, True),
        (HalfCheetahTermination(), 0, 1e6, False),
        (HalfCheetahTermination(max_abs_obs=100.0), 3, -100.0, True),
        (HalfCheetahTermination(max_abs_obs=100.0), 3, 99.9, False),
        (AntTermination(min_z=0.25), 0, 0.25, False),  # its range is closed
        (AntTermination(), 0, 1.0, False),
        (AntTermination(), 0, 0.19, True),
        (AntTermination(), 0, 1.01, True),
        (HumanoidTermination(), 0, 1.0, True),  # its range is open
        (HumanoidTermination(), 0, 2.0, True),
        (HumanoidTermination(), 0, 1.01, False),
        (PenTermination(), 26, 0.07, True),
        (PenTermination(), 26, 0.08, False),
        (DoorTermination(), 0, -50.0, False),
        (PendulumTermination(), 0, -50.0, False),
    ],
)
def test_edges(rule, column, value, over):
    obs = alive(type(rule))
    obs[column] = value
    assert rule(obs[None]).tolist() == [over]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_is_over(rule, bad):
    rows = alive(rule).repeat(3, 1)
    rows[1, 7] = bad
    found = rule()(rows)
    assert found.dtype == torch.bool and found.tolist() == [False, True, False]


def test_leading_axes_are_kept():
    rows = alive(HopperTermination).expand(4, 5, -1)
    assert HopperTermination()(rows).shape == (4, 5) and not HopperTermination()(rows).any()


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("Hopper-v5", HopperTermination),
        ("hopper-medium-v2", HopperTermination),
        ("local/hopper-medium", HopperTermination),
        ("minari/Walker2d-v5", Walker2dTermination),
        ("AdroitHandPen-v1", PenTermination),
        ("pen-human-v1", PenTermination),
        ("Pendulum-v1", PendulumTermination),
        ("HumanoidStandup-v5", NoTermination),
    ],
)
def test_a_rule_is_found_by_the_first_word(name, rule):
    assert type(termination_for(name)) is rule


@pytest.mark.parametrize("name", ["antmaze-umaze-v2", "InvertedPendulum-v5", "", "rl/Catch-v0"])
def test_an_unknown_env_is_told_what_there_is(name):
    with pytest.raises(ConfigError, match=r"(?s)hopper, walker2d.*NoTermination") as error:
        termination_for(name)
    assert all(family in str(error.value) for family in FAMILIES)


def test_a_guard_must_be_positive():
    with pytest.raises(ConfigError, match="max_abs_obs"):
        NoTermination(max_abs_obs=0.0)


def test_a_rule_of_ones_own():
    class Far(Termination):
        def is_terminal(self, next_obs):
            return next_obs[..., 0] > 3.0

    assert Far(max_abs_obs=10.0)(torch.tensor([[1.0, 0.0], [4.0, 0.0], [0.0, -10.0]])).tolist() == [
        False,
        True,
        True,
    ]
