"""Populations in dreams and in the real game: one tensor, the same as one by one."""

import numpy as np
import pytest
import torch

from rl_lightning import stop_request
from rl_lightning.envs.make import EnvConfig, make_envs
from rl_lightning.evolution.dream_rollout import dream_rollout
from rl_lightning.evolution.env_rollout import evaluate_in_env, population_step
from rl_lightning.models.world_models.controller import Controller
from rl_lightning.models.world_models.vision_memory import VisionMemoryModel
from rl_lightning.types import EnvSpec

SPEC = EnvSpec("dodge", (1, 64, 64), "uint8", "discrete", (), (3,))


def world(seed: int = 0, **memory) -> VisionMemoryModel:
    torch.manual_seed(seed)
    sizes = {"latent_dim": 4, "action_dim": 3, "hidden_dim": 6, "num_mixtures": 3} | memory
    made = VisionMemoryModel({"channels": 1, "latent_dim": 4, "depth": 2}, sizes).requires_grad_(False)
    made.memory.w_in.data.mul_(3.0)
    return made


def members(control: Controller, count: int) -> torch.Tensor:
    return torch.randn(count, control.size, generator=torch.Generator().manual_seed(1))


def played(made, numbers, steps=12, temperature=1.0, threshold=None, seed=2, use_cell=False):
    control = Controller(made.feature_width(use_cell), SPEC)
    starts = torch.randn(5, 4, generator=torch.Generator().manual_seed(4))
    luck = torch.Generator().manual_seed(seed)
    return dream_rollout(made, control, numbers, starts, steps, temperature, luck, use_cell, threshold)


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("use_cell", [False, True])
def test_a_population_dreams_as_its_members_do_alone(joint, use_cell):
    made = world(joint_mixture=joint)
    numbers = members(Controller(made.feature_width(use_cell), SPEC), 6)
    together = played(made, numbers, use_cell=use_cell)
    assert together.length.min() < 12, "some dreams end"
    for p in range(6):
        alone = played(made, numbers[p : p + 1], use_cell=use_cell)
        assert torch.equal(together.length[p], alone.length[0])
        assert torch.allclose(together.fitness[p], alone.fitness[0], atol=1e-5)


def test_equal_members_have_equal_luck():
    made = world()
    one = members(Controller(made.feature_width(False), SPEC), 1)
    found = played(made, one.expand(4, -1))
    assert (found.fitness == found.fitness[:1]).all()
    assert found.fitness[0].unique().numel() > 1, "and each of a member's dreams its own"
    again = played(made, one.expand(4, -1), seed=3)
    assert not torch.equal(found.fitness, again.fitness)


def test_a_dream_is_over_where_its_end_is_likelier_than_the_threshold():
    made = world()
    made.memory.head.weight.data[-1] = 0.0
    made.memory.head.bias.data[-1] = 0.0  # an end has a chance of one half
    numbers = members(Controller(made.feature_width(False), SPEC), 2)
    assert (played(made, numbers, threshold=0.6).length == 12).all()
    assert (played(made, numbers, threshold=0.4).length == 1).all()
    assert 1.3 < played(made, numbers.expand(2, -1), threshold=None, steps=40).length.mean() < 3.5


def test_rewards_are_counted_up_to_the_end():
    made = world()
    made.memory.head.weight.data[-2:] = 0.0
    made.memory.head.bias.data[-2] = 0.25  # reward
    made.memory.head.bias.data[-1] = -50.0  # never over
    found = played(made, members(Controller(made.feature_width(False), SPEC), 2))
    assert torch.allclose(found.fitness, torch.full((2, 5), 3.0))
    plain = world(predict_reward=False, predict_termination=False)
    assert (played(plain, members(Controller(10, SPEC), 2)).fitness == 12.0).all()


def test_who_acts_sees_the_memory_from_before():
    """The action hangs on h as it was, not on h after this frame was remembered."""
    made = world()
    control = Controller(made.feature_width(False), SPEC)
    numbers = torch.zeros(1, control.size)
    numbers.view(-1)[4 * 3 + 1] = 50.0  # action 1 follows the first number of h
    frame = torch.zeros(1, 1, 64, 64, dtype=torch.uint8)
    for sign, expected in ((1.0, 1), (-1.0, 0)):
        carry = (torch.full((1, 6), 0.5 * sign), torch.zeros(1, 6))
        action, after = population_step(made, control, numbers, frame, carry, False)
        assert action.item() == expected
        assert not torch.equal(after[0], carry[0])


def test_the_real_game_is_played_alike_by_any_number_of_envs():
    made = world()
    control = Controller(made.feature_width(False), SPEC)
    numbers, seeds = members(control, 3), [11, 12]
    found = []
    for width in (1, 4):
        envs = make_envs(EnvConfig("rl/Dodge-v0"), width)
        returns, steps = evaluate_in_env(envs, made, control, numbers, seeds)
        envs.close()
        found.append(returns)
        assert steps == int(returns.sum()), "a step survived is a point"
    assert torch.equal(*found)
    envs = make_envs(EnvConfig("rl/Dodge-v0"), 2)
    cut, _ = evaluate_in_env(envs, made, control, numbers, seeds, most_steps=5)
    envs.close()
    assert (cut == 5.0).all()


def test_the_first_step_of_an_episode_knows_nothing_of_the_last():
    """Two games of one member in one env, one after the other, are the two games apart."""
    made = world()
    control = Controller(made.feature_width(False), SPEC)
    numbers = members(control, 1)
    envs = make_envs(EnvConfig("rl/Dodge-v0"), 1)
    both, _ = evaluate_in_env(envs, made, control, numbers, [5, 6])
    apart = [evaluate_in_env(envs, made, control, numbers, [seed])[0].item() for seed in (5, 6)]
    envs.close()
    assert both[0].tolist() == apart


@pytest.mark.parametrize("real", [False, True])
def test_a_generation_is_left_when_a_stop_is_asked_for(real, monkeypatch):
    made = world()
    control = Controller(made.feature_width(False), SPEC)
    monkeypatch.setattr(stop_request, "PATIENCE", -1.0)
    stop_request.request_stop()
    envs = make_envs(EnvConfig("rl/Dodge-v0"), 1)
    try:
        with pytest.raises(stop_request.BlockAbandoned):
            if real:
                evaluate_in_env(envs, made, control, members(control, 1), [1])
            else:
                played(made, members(control, 1))
    finally:
        stop_request.clear()
        envs.close()


def test_dodge_is_fair_to_nobody_who_stands_still():
    """Random play outlives every constant action and both walls to within 1.3; who moves away lives far longer."""
    envs = make_envs(EnvConfig("rl/Dodge-v0"), 1)

    def survival(policy, games: int = 250) -> float:
        lengths = []
        for game in range(games):
            envs.reset(seed=game)
            draw, steps, ended = np.random.default_rng(game), 0, False
            while not ended:
                action = policy(envs.envs[0].unwrapped, draw)
                _, _, terminated, truncated, _ = envs.step(np.array([action]))
                ended, steps = bool(terminated[0] | truncated[0]), steps + 1
            lengths.append(steps)
        return float(np.mean(lengths))

    random = survival(lambda env, draw: draw.integers(3))
    for action in range(3):  # stay; left and right end at a wall
        assert survival(lambda env, draw, action=action: action) < 1.3 * random

    def careful(env, draw):
        low = max(env.blocks, key=lambda block: block[1], default=None)
        if low is None or abs(low[0] - env.player) >= 8:
            return 0
        away = 2 if low[0] <= env.player else 1
        return away if 0 < env.player < 56 else (2 if env.player == 0 else 1)

    assert survival(careful, 60) > 2.0 * random
    envs.close()
