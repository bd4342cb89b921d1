"""Evaluation: quotas, order, seeds, and what it says."""

import numpy as np
import pytest
import torch

from rl_lightning.envs.make import EnvConfig, make_envs
from rl_lightning.rollout.evaluate import evaluate, summarize
from rl_lightning.types import EnvSpec, EpisodeStats


class Uneven:
    """Env n's episodes last n + 1 steps; a return names its env and which episode it was."""

    def __init__(self, num_envs: int):
        self.num_envs = num_envs
        self.env_spec = EnvSpec("fake", (1,), action_kind="discrete", action_sizes=(2,))

    def reset(self, seed=None):
        self.t, self.count = np.zeros(self.num_envs, int), np.zeros(self.num_envs, int)
        return np.zeros((self.num_envs, 1), np.float32), {}

    def step(self, action):
        self.t += 1
        over = self.t > np.arange(self.num_envs)
        self.count += over
        record = {"return": 100.0 * np.arange(self.num_envs) + self.count, "length": self.t.copy()}
        infos = (
            {"episode": record, "final_obs": np.zeros((self.num_envs, 1), np.float32)} if over.any() else {}
        )
        self.t[over] = 0
        obs = np.zeros((self.num_envs, 1), np.float32)
        return obs, np.ones(self.num_envs, np.float32), over, np.zeros_like(over), infos


def still(obs, carry, explore, mask=None):
    return torch.zeros(len(obs), dtype=torch.int64), carry


@pytest.mark.parametrize(("num_envs", "episodes"), [(1, 1), (3, 3), (3, 7), (4, 2), (2, 5)])
def test_every_env_plays_its_quota_however_short_its_episodes_are(num_envs, episodes):
    played = evaluate(still, lambda n: (), Uneven(num_envs), episodes, seed=10)
    assert len(played) == episodes
    envs = [int(e.episode_return) // 100 for e in played]
    assert envs == [i % num_envs for i in range(episodes)]
    assert [int(e.episode_return) % 100 for e in played] == [1 + i // num_envs for i in range(episodes)]
    assert [e.length for e in played] == [env + 1 for env in envs]
    first = [10 + env if i < num_envs else None for i, env in enumerate(envs)]  # later ones go on unseeded
    assert [e.seed for e in played] == first


def test_carry_is_zeroed_between_episodes():
    seen = []

    def act(obs, carry, explore, mask=None):
        seen.append(carry[0][:, 0].tolist())
        return torch.zeros(len(obs), dtype=torch.int64), (carry[0] + 1,)

    evaluate(act, lambda n: (torch.zeros(n, 2),), Uneven(3), 6, seed=0)
    assert seen == [[0, t % 2, t % 3] for t in range(len(seen))]


def test_one_seed_one_result_and_no_gradient():
    envs = make_envs(EnvConfig("CartPole-v1"), 3, training=False)

    def act(obs, carry, explore, mask=None):
        assert not torch.is_grad_enabled()
        return (obs[:, 2] > 0).long(), carry

    first, again, other = (evaluate(act, lambda n: (), envs, 4, seed) for seed in (1, 1, 2))
    assert first == again and first != other
    envs.close()


def test_masks_reach_the_actor():
    envs = make_envs(EnvConfig("rl/Masked-v0", {"length": 4}), 2, training=False)

    def act(obs, carry, explore, mask=None):
        return mask.float().argmax(-1), carry

    assert all(e.length == 4 for e in evaluate(act, lambda n: (), envs, 4, seed=0))
    envs.close()


def test_summary_by_hand():
    extras = [{"success": 1.0}, {"success": 0.0}, {}, {"success": float("nan"), "x_velocity": 2.0}]
    episodes = [
        EpisodeStats(float(r), 10 * r, 0, extra) for r, extra in zip((1, 2, 3, 6), extras, strict=True)
    ]
    summary = summarize(episodes)
    assert summary["eval/return"] == 3.0 and summary["eval/length"] == 30.0 and summary["eval/episodes"] == 4
    assert summary["eval/return_min"] == 1.0 and summary["eval/return_max"] == 6.0
    assert summary["eval/return_std"] == pytest.approx(np.std([1, 2, 3, 6]))
    assert summary["eval/success"] == 0.5, "over the episodes that reported it"
    assert summary["eval/x_velocity"] == 2.0
