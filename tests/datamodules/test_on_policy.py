"""Rollouts: fresh, of the right size, with their own carry, and rewards scaled for the learner only."""

import pytest
import torch
from contracts.case import env
from contracts.cases import BY_NAME
from contracts.harness import bare

from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.errors import ConfigError

PPO, GRU = BY_NAME["ppo-discrete"], BY_NAME["ppo-gru"]


def test_a_rollout_is_one_update_and_moves_the_clocks():
    run = bare(PPO, RunConfig(env_steps=1000))
    for blocks in (1, 2, 3):
        (rollout,) = run.turn()
        assert rollout.obs.shape == (16, 8, 4)
        assert (run.data.clock.env_step, run.data.clock.update) == (128 * blocks, blocks)


def test_rollouts_follow_each_other_without_a_gap():
    run = bare(PPO.but({"env": env("rl/Counter-v0", episode_length=7, jitter=3)}))
    (one,), (two,) = (run.data.next_block() for _ in range(2))
    assert torch.equal(one.last_obs, two.obs[0])
    assert torch.equal(two.is_first[0], one.terminated[-1] | one.truncated[-1])


def test_carries_follow_each_other_too():
    run = bare(GRU)
    (one,), (two,) = (run.data.next_block() for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one.last_carry, two.carry, strict=True))
    assert all(not part.any() for part in one.carry)


def test_unrolling_a_rollout_gives_what_was_played():
    """The policy that acted step by step and the one that learns from the whole are the same numbers."""
    run = bare(GRU)
    for _ in range(2):
        (rollout,) = run.data.next_block()
    with torch.no_grad():
        params, _ = run.model.evaluate_rows(rollout.obs, rollout.carry, rollout.is_first)
        carry = rollout.carry
        for t in range(len(rollout.obs)):
            keep = (~rollout.is_first[t]).float()[:, None]
            carry = tuple(part * keep for part in carry)
            features, new = run.model.torso.step(rollout.obs[t], carry[: len(carry) // 2])
            torch.testing.assert_close(run.model.policy(features), params[t], atol=1e-6, rtol=1e-5)
            _, carry = run.model.act(rollout.obs[t], carry, None)
            assert torch.equal(carry[0], new[0])
    for ours, theirs in zip(carry, rollout.last_carry, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_normalised_rewards_are_the_learners_alone():
    case = PPO.but({"env": env("rl/Constant-v0", reward=100.0), "normalize_rewards": True})
    run = bare(case)
    for _ in range(3):
        (rollout,) = run.data.next_block()
    assert rollout.reward.max() < 20
    episodes = run.data.episodes
    assert episodes and all(e.episode_return == 1000.0 for e in episodes)
    played = run.model.run_episodes(run.data.eval_envs(2), 2, seed=0)
    assert all(e.episode_return == 1000.0 for e in played)


def test_collect_metrics_are_means_since_the_last_call():
    run = bare(PPO.but({"env": env("rl/Constant-v0")}))
    list(run.data.next_block())
    metrics = run.data.collect_metrics()
    assert metrics["collect/return"] == 10.0 and metrics["collect/length"] == 10.0
    assert metrics["collect/episodes"] == 8.0
    assert "collect/return" not in run.data.collect_metrics()


def test_wrong_numbers_are_named():
    with pytest.raises(ConfigError, match=r"^rollout_steps is 0"):
        PPO.but({"rollout_steps": 0}).data()
