"""Judges of a population: what they draw follows from a seed, and a worker that dies is named."""

import os
import signal
from functools import partial

import numpy as np
import pytest
import torch
from contracts.families.world_models import DODGE, RECORDING, WORLD

from rl_lightning.artifacts import load_exported
from rl_lightning.behaviors.behavior_policies import BrownianActions, UniformActions
from rl_lightning.envs.make import make_envs
from rl_lightning.errors import ConfigError, EnvError
from rl_lightning.evolution.fitness import DreamFitness, Population, RealFitness
from rl_lightning.models.world_models.controller import Controller
from rl_lightning.rollout.collect import Collector
from rl_lightning.rollout.episode_splitter import EpisodeSplitter, joined
from rl_lightning.types import EnvSpec


def players(count: int = 3) -> Population:
    world = load_exported(WORLD, "world")
    envs = make_envs(DODGE, 1)
    control = Controller(world.feature_width(False), envs.env_spec)
    envs.close()
    numbers = torch.randn(count, control.size, generator=torch.Generator().manual_seed(0))
    return Population(numbers, world, control, False)


@pytest.mark.parametrize(
    "judge",
    [
        DreamFitness(RECORDING, num_rollouts=2, max_steps=6, termination_threshold=None),
        RealFitness(num_rollouts=2, max_steps=6),
    ],
    ids=["dream", "real"],
)
def test_luck_hangs_on_the_seed_alone(judge):
    judge.open(DODGE)
    who = players()
    first, second, other = (judge.evaluate(who, seed, 2)[0] for seed in (1, 1, 2))
    judge.close()
    assert first.shape == (3, 2) and torch.equal(first, second)
    if isinstance(judge, DreamFitness):
        assert not torch.equal(first, other)


def test_a_worker_that_dies_is_named():
    judge = RealFitness(num_rollouts=2, num_workers=2)
    judge.open(DODGE)
    os.kill(judge.envs.processes[1].pid, signal.SIGKILL)
    judge.envs.processes[1].join(30)
    with pytest.raises(EnvError, match=r"(env 1)|(worker 1)"):
        judge.evaluate(players(), 0, 2)
    judge.close()


@pytest.mark.parametrize(
    "make",
    [
        lambda: DreamFitness("x", num_rollouts=0),
        lambda: DreamFitness("x", temperature=0.0),
        lambda: DreamFitness("x", termination_threshold=1.5),
        lambda: RealFitness(num_workers=0),
        lambda: RealFitness(max_steps=0),
        lambda: BrownianActions(EnvSpec("x", (1,), action_shape=(2,)), repeat_action_probability=1.0),
        lambda: BrownianActions(EnvSpec("x", (1,), action_shape=(2,)), noise_std=0.0),
    ],
)
def test_what_cannot_be_is_refused(make):
    with pytest.raises(ConfigError):
        make()


def walk(policy, spec, steps: int, envs: int = 64) -> torch.Tensor:
    player = policy(spec)
    act, carry = player.act, player.initial_carry(envs)
    draw, taken = torch.Generator().manual_seed(0), []
    for _ in range(steps):
        action, carry = act(torch.zeros(envs, 1), carry, draw)
        taken.append(action)
    return torch.stack(taken)


def test_continuous_actions_drift():
    spec = EnvSpec("x", (1,), action_shape=(2,))
    found = walk(partial(BrownianActions, noise_std=0.1), spec, 50)
    assert found.abs().max() <= 1.0
    change = (found[1:] - found[:-1])[found[:-1].abs() < 0.5]
    assert change.std().item() == pytest.approx(0.1, rel=0.05)
    white = walk(UniformActions, spec, 50)
    assert (white[1:] - white[:-1]).std() > 0.7
    assert found[0].std() > 0.5, "an episode begins anywhere"


def test_discrete_actions_are_kept_for_a_while():
    spec = EnvSpec("x", (1,), action_kind="discrete", action_sizes=(3,))
    found = walk(partial(BrownianActions, repeat_action_probability=0.7), spec, 200)
    same = (found[1:] == found[:-1]).float().mean().item()
    assert same == pytest.approx(0.7 + 0.3 / 3, abs=0.02)


def test_episodes_are_cut_where_they_end_whatever_the_blocks():
    """One stream cut in blocks of any length gives the same episodes, also when saved in between."""

    def play(blocks, reload=False):
        envs = make_envs(DODGE, 2)
        collector, policy = Collector(envs, 3), UniformActions(envs.env_spec)
        cutter, draw, found = EpisodeSplitter(2), torch.Generator().manual_seed(1), []
        for steps in blocks:
            found += cutter.add(collector.collect(policy.act, steps, draw))
            if reload:
                saved, cutter = cutter.state_dict(), EpisodeSplitter(2)
                cutter.load_state_dict(saved)
        envs.close()
        return found

    whole, parts = play([120]), play([7] * 17 + [1], reload=True)
    assert len(whole) == len(parts) >= 3

    def key(rows):
        return (len(rows["reward"]), rows["obs"].tobytes())

    for one, two in zip(sorted(whole, key=key), sorted(parts, key=key), strict=True):
        for name in one:
            np.testing.assert_array_equal(one[name], two[name])
    rows = joined(whole)
    assert rows["is_first"].sum() == len(whole) == (rows["terminated"] | rows["truncated"]).sum()
