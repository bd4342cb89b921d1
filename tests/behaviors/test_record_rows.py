"""Recorded rows: as many as asked for, whole episodes, true next observations, and the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from contracts.cases import BY_NAME
from contracts.harness import bare

from rl_lightning.behaviors.random_actor import random_actor
from rl_lightning.behaviors.record_transitions import (
    interpolate_policies,
    record_transitions,
    with_noise_scale,
)
from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.envs.make import EnvConfig, make_envs
from rl_lightning.errors import ConfigError
from rl_lightning.rollout.collect import Collector


def record(env_id: str, rows: int, num_envs: int, seed: int = 0):
    envs = make_envs(EnvConfig(id=env_id), num_envs)
    try:
        collector = Collector(envs, seed)
        act = random_actor(collector.spec)
        return record_transitions(collector, act, rows, torch.Generator().manual_seed(seed))
    finally:
        envs.close()


@pytest.mark.parametrize(("rows", "num_envs"), [(1, 1), (50, 4), (333, 3)])
def test_rows_are_episodes_end_to_end(rows, num_envs):
    arrays, infos = record("CartPole-v1", rows, num_envs)
    assert {len(array) for array in arrays.values()} == {rows} and infos == {}
    ends = (arrays["terminals"] | arrays["timeouts"])[:-1]
    same = (arrays["next_observations"][:-1] == arrays["observations"][1:]).all(1)
    assert same[~ends].all() and not same[ends].any()
    assert (np.abs(arrays["next_observations"][arrays["terminals"]][:, 2]) > 0.2).all()  # fallen, not reset


def test_the_same_seed_records_the_same_rows():
    one, two, other = (record("Pendulum-v1", 450, 2, seed)[0] for seed in (0, 0, 1))
    assert all(np.array_equal(one[key], two[key]) for key in one)
    assert not np.array_equal(one["observations"], other["observations"])
    assert one["timeouts"].sum() == 2 and one["timeouts"][199] and not one["timeouts"][-1]


def test_mujoco_states_are_those_before_the_step():
    pytest.importorskip("mujoco")
    arrays, infos = record("Hopper-v5", 200, 2)
    np.testing.assert_allclose(infos["qpos"][:, 1:], arrays["observations"][:, :5], atol=1e-6)
    np.testing.assert_allclose(infos["qvel"].clip(-10, 10), arrays["observations"][:, 5:], atol=1e-5)


def test_quieter_and_improving():
    spec = make_envs(EnvConfig(id="Pendulum-v1"), 1).env_spec

    def act(obs, carry, generator, mask=None):
        return (torch.zeros(len(obs), 1) if generator is None else torch.ones(len(obs), 1)), carry

    obs, generator = torch.zeros(1000, 3), torch.Generator().manual_seed(0)
    assert with_noise_scale(act, 0.1, spec)(obs, (), generator)[0].unique().tolist() == pytest.approx([0.1])
    assert with_noise_scale(act, 0.1, spec)(obs, (), None)[0].abs().max() == 0

    def two(obs, carry, generator, mask=None):
        return torch.full((len(obs), 1), 2.0), carry

    mixed = interpolate_policies(act, two, 10, generator)
    shares = [float((mixed(obs, (), generator)[0] == 2).float().mean()) for _ in range(12)]
    assert shares[0] == 0 and shares[-1] == 1 and abs(shares[5] - 0.5) < 0.05
    with pytest.raises(ConfigError, match="continuous"):
        with_noise_scale(act, 0.1, spec._replace(action_kind="discrete"))


def test_rows_of_a_recording_are_what_was_played():
    run = bare(BY_NAME["record"], RunConfig(env_steps=1000))
    for _ in range(6):
        run.learn(run.block())
    rows = run.model.recording
    ends = (rows.terminated | rows.truncated).nonzero()[:, 0]
    assert torch.equal(rows.is_first.nonzero()[1:, 0], ends[:-1] + 1) and rows.is_first[0]
    assert (rows.reward[rows.is_first] == 0).all() and (rows.reward[~rows.is_first] == 1).all()
    assert (rows.action[ends] == 0).all()
    player = (rows.obs[:, 0, -1] == 160).float().argmax(1)  # left edge; a hit may cover it
    step = torch.tensor([0, -4, 4])[rows.action[:-1]]
    inside = ~rows.is_first[1:] & ~rows.terminated[1:]
    moved = (player[:-1] + step).clamp(0, 56)
    clear = inside & (rows.obs[1:, 0, -1] == 160).sum(1).eq(8) & (rows.obs[:-1, 0, -1] == 160).sum(1).eq(8)
    assert clear.sum() > 20 and torch.equal(player[1:][clear], moved[clear]), (
        "an action leads to the next row"
    )
