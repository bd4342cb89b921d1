"""PlaNet's traps: what a plan is scored by, what is kept between steps, what noise there is, what is refused."""

import pytest
import torch
from contracts.families.dreamer import world
from torch import nn

from rl_lightning.algorithms import PlaNet
from rl_lightning.errors import ConfigError
from rl_lightning.models.rssm.rssm import LatentState
from rl_lightning.planning.planners import CEM
from rl_lightning.types import EnvSpec

BOX = EnvSpec("fake", (3,), action_shape=(2,), action_low=(-1.0, -1.0), action_high=(1.0, 1.0))


def made(spec: EnvSpec = BOX, **parts) -> PlaNet:
    torch.manual_seed(0)
    planner = CEM(
        **{
            "horizon": 4,
            "num_samples": 200,
            "num_elites": 20,
            "iterations": 6,
            "exploration_noise": 0.3,
            **parts,
        }
    )
    return PlaNet(spec, world(1, continue_head=None), planner)


class Line(nn.Module):
    """A true world in place of the learned one: the state adds up what is done, and pays for being near a place."""

    def img_step(self, state, action, noise, weights=None):
        return LatentState(state.deter + action, state.stoch)

    def cached_weights(self):
        return ()


class Pays(nn.Module):
    def __init__(self, goal):
        super().__init__()
        self.goal = goal

    def value(self, feature):
        return -(feature[..., :2] - self.goal).square().sum(-1)


def on_a_line(goal=(0.3, -0.9), **parts) -> PlaNet:
    module = made(**parts)
    module.world_model.rssm = Line()
    module.world_model.reward_head = Pays(torch.tensor(goal))
    return module


def test_with_true_dynamics_the_known_optimum_is_found():
    module = on_a_line(num_samples=1000, num_elites=50, iterations=10)
    state = LatentState(torch.zeros(3, 2), torch.zeros(3, 1))
    plan = module.planner.plan(lambda plans: module.score(state, plans), torch.zeros(3, 4, 2), None)
    assert torch.allclose(plan.action, torch.tensor([0.3, -0.9]).expand(3, 2), atol=0.1)
    assert plan.mean[:, 1:].abs().max() < 0.15  # once there, it stays


def test_every_step_of_every_candidate_counts():
    """Not the last one alone; and no candidate's score hangs on another."""
    module = on_a_line(goal=(0.0, 0.0))
    state = LatentState(torch.tensor([[1.0, 0.0]]), torch.zeros(1, 1))
    plans = torch.zeros(1, 2, 4, 2)
    plans[0, 1, 0, 0] = -1.0  # goes home at once
    assert module.score(state, plans)[0].tolist() == [-4.0, 0.0]
    assert torch.allclose(module.score(state, plans[:, :1])[0], module.score(state, plans)[0, :1])


def test_a_plan_is_made_anew_every_step_and_the_same_for_the_same_state():
    module = made()
    obs, carry = torch.randn(2, 3), module.initial_carry(2)
    one, two = (module.act(obs, carry, None) for _ in range(2))
    assert torch.equal(one[0], two[0])
    assert [part.shape for part in one[1]] == [part.shape for part in carry], (
        "nothing of a plan is carried along"
    )
    alone = module.act(obs[:1], module.initial_carry(1), None)[0]
    assert alone.shape == (1, 2)


def test_noise_is_for_collecting_and_within_bounds():
    module = made(exploration_noise=5.0)
    obs, carry = torch.randn(50, 3), module.initial_carry(50)
    noisy = module.act(obs, carry, torch.Generator().manual_seed(0))[0]
    assert noisy.abs().max() <= 1.0 and (noisy.abs() == 1.0).float().mean() > 0.5
    assert (module.act(obs, carry, None)[0].abs() == 1.0).float().mean() < 0.5


def test_the_width_of_the_search_never_falls_below_its_floor():
    module = on_a_line(min_std=0.05)
    state = LatentState(torch.zeros(1, 2), torch.zeros(1, 1))
    plan = module.planner.plan(lambda plans: module.score(state, plans), torch.zeros(1, 4, 2), None)
    assert plan.std.min() >= 0.05


def test_discrete_actions_are_refused():
    with pytest.raises(ConfigError, match="continuous"):
        made(EnvSpec("fake", (4,), action_kind="discrete", action_sizes=(2,)))
