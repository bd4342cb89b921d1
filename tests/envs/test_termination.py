"""Rules of termination: equal to what the envs themselves say, at their edges and in real episodes."""

import gymnasium
import numpy as np
import pytest
import torch

from rl_lightning.envs.termination import (
    FAMILIES,
    AntEnds,
    DoorEnds,
    HalfCheetahEnds,
    HopperEnds,
    HumanoidEnds,
    NeverEnds,
    PendulumEnds,
    PenEnds,
    Termination,
    Walker2dEnds,
    termination_for,
)
from rl_lightning.errors import ConfigError

RULES = [HopperEnds, Walker2dEnds, HalfCheetahEnds, AntEnds, HumanoidEnds, PendulumEnds, PenEnds, DoorEnds]
LIVES = {
    HopperEnds: 1.2,
    Walker2dEnds: 1.2,
    AntEnds: 0.5,
    HumanoidEnds: 1.4,
    PenEnds: 0.3,
}  # a healthy height


def alive(rule: type[Termination], width: int = 45) -> torch.Tensor:
    obs = torch.zeros(width)
    obs[26 if rule is PenEnds else 0] = LIVES.get(rule, 0.0)
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
        (HopperEnds(), 0, 0.71, False),
        (HopperEnds(), 0, 0.69, True),
        (HopperEnds(), 1, -0.19, False),
        (HopperEnds(), 1, -0.21, True),
        (HopperEnds(), 5, -99.0, False),
        (HopperEnds(), 5, -101.0, True),
        (HopperEnds(), 0, 101.0, False),  # the height has no upper bound
        (Walker2dEnds(), 0, 0.79, True),
        (Walker2dEnds(), 0, 2.01, True),
        (Walker2dEnds(), 1, 0.99, False),
        (Walker2dEnds(), 1, -1.01, True),
        (Walker2dEnds(), 5, 1e6, False),
        (Walker2dEnds(guard=100.0), 5, -100.0, True),
        (HalfCheetahEnds(), 0, 1e6, False),
        (HalfCheetahEnds(guard=100.0), 3, -100.0, True),
        (HalfCheetahEnds(guard=100.0), 3, 99.9, False),
        (AntEnds(lowest=0.25), 0, 0.25, False),  # its range is closed
        (AntEnds(), 0, 1.0, False),
        (AntEnds(), 0, 0.19, True),
        (AntEnds(), 0, 1.01, True),
        (HumanoidEnds(), 0, 1.0, True),  # its range is open
        (HumanoidEnds(), 0, 2.0, True),
        (HumanoidEnds(), 0, 1.01, False),
        (PenEnds(), 26, 0.07, True),
        (PenEnds(), 26, 0.08, False),
        (DoorEnds(), 0, -50.0, False),
        (PendulumEnds(), 0, -50.0, False),
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
    rows = alive(HopperEnds).expand(4, 5, -1)
    assert HopperEnds()(rows).shape == (4, 5) and not HopperEnds()(rows).any()


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("Hopper-v5", HopperEnds),
        ("hopper-medium-v2", HopperEnds),
        ("local/hopper-medium", HopperEnds),
        ("minari/Walker2d-v5", Walker2dEnds),
        ("AdroitHandPen-v1", PenEnds),
        ("pen-human-v1", PenEnds),
        ("Pendulum-v1", PendulumEnds),
        ("HumanoidStandup-v5", NeverEnds),
    ],
)
def test_a_rule_is_found_by_the_first_word(name, rule):
    assert type(termination_for(name)) is rule


@pytest.mark.parametrize("name", ["antmaze-umaze-v2", "InvertedPendulum-v5", "", "rl/Catch-v0"])
def test_an_unknown_env_is_told_what_there_is(name):
    with pytest.raises(ConfigError, match=r"(?s)hopper, walker2d.*NeverEnds") as error:
        termination_for(name)
    assert all(family in str(error.value) for family in FAMILIES)


def test_a_guard_must_be_positive():
    with pytest.raises(ConfigError, match="guard"):
        NeverEnds(guard=0.0)


def test_a_rule_of_ones_own():
    class Far(Termination):
        def ends(self, next_obs):
            return next_obs[..., 0] > 3.0

    assert Far(guard=10.0)(torch.tensor([[1.0, 0.0], [4.0, 0.0], [0.0, -10.0]])).tolist() == [
        False,
        True,
        True,
    ]
