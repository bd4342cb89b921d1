"""How discrete actions are drawn: held for a while at random, and nearer to or further from the likeliest."""

import pytest
import torch

from rl_lightning.algorithms import PPO, RandomPolicy
from rl_lightning.errors import ConfigError
from rl_lightning.types import EnvSpec

SPEC = EnvSpec("rl/FrozenLake2x2-v0", (4,), "float32", "discrete", (), (5,))
FLOATS = EnvSpec("Pendulum-v1", (3,), "float32", "continuous", (1,), (), (-1.0,), (1.0,))


def test_held_actions_last_from_one_to_so_many_steps():
    policy, draw = RandomPolicy(SPEC, max_action_repeat=4), torch.Generator().manual_seed(0)
    carry, played = policy.initial_carry(200), []
    for _ in range(60):
        action, carry = policy.act(torch.zeros(200, 4), carry, draw)
        played.append(action)
    actions = torch.stack(played)
    assert set(actions.unique().tolist()) == set(range(5))
    kept = (actions[1:] == actions[:-1]).float().mean()
    # lengths 1 to 4 alike, mean 2.5: an action is drawn anew in 2 steps of 5, and is then the same one time in 5
    assert kept.item() == pytest.approx(1 - 0.4 * 0.8, abs=0.02)
    first, _ = RandomPolicy(SPEC).act(torch.zeros(3, 4), (), torch.Generator().manual_seed(1))
    assert first.shape == (3,) and RandomPolicy(SPEC).initial_carry(3) == ()


def test_a_held_action_that_becomes_illegal_is_let_go():
    policy, draw = RandomPolicy(SPEC, max_action_repeat=50), torch.Generator().manual_seed(0)
    every = torch.ones(100, 5, dtype=torch.bool)
    held, carry = policy.act(torch.zeros(100, 4), policy.initial_carry(100), draw, every)
    mask = every.scatter(1, held[:, None], False)
    after, _ = policy.act(torch.zeros(100, 4), carry, draw, mask)
    assert (after != held).all()


def share_of_the_likeliest(temperature: float, eval_temperature: float, training: bool) -> float:
    torch.manual_seed(0)
    policy = PPO(SPEC, collect_temperature=temperature, eval_temperature=eval_temperature).train(training)
    with torch.no_grad():
        policy.policy.linear.bias.copy_(torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0]))
        action, _ = policy.act(torch.zeros(4000, 4), (), torch.Generator().manual_seed(1))
    return (action == 0).float().mean().item()


def test_temperatures_of_collecting_and_of_evaluation():
    def chance(temperature: float) -> float:
        e = torch.tensor([1.0, 0, 0, 0, 0]).div(temperature).softmax(0)
        return e[0].item()

    assert share_of_the_likeliest(1.0, 0.5, training=True) == pytest.approx(chance(1.0), abs=0.03)
    assert share_of_the_likeliest(1.0, 0.5, training=False) == pytest.approx(chance(0.5), abs=0.03)
    assert share_of_the_likeliest(0.25, 1.0, training=True) == pytest.approx(chance(0.25), abs=0.03)


@pytest.mark.parametrize("given", [{"collect_temperature": 0.0}, {"eval_temperature": -1.0}])
def test_senseless_temperatures_are_refused(given):
    with pytest.raises(ConfigError, match="must be above 0"):
        PPO(SPEC, **given)
    with pytest.raises(ConfigError, match="discrete actions only"):
        PPO(FLOATS, collect_temperature=0.5)
    with pytest.raises(ConfigError, match="needs discrete actions"):
        RandomPolicy(FLOATS, max_action_repeat=2)
