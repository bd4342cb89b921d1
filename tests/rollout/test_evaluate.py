"""Evaluation: quotas, order, seeds, and what it says."""

import numpy as np
import pytest
import torch

from rl_lightning.envs.make import EnvConfig, make_envs
from rl_lightning.envs.wrappers.transforms import AtariPreprocessing
from rl_lightning.rollout.collect import Collector
from rl_lightning.rollout.evaluate import StepCap, evaluate, summarize
from rl_lightning.rollout.trajectory import trajectory
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


def still(obs, carry, generator, mask=None):
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

    def act(obs, carry, generator, mask=None):
        seen.append(carry[0][:, 0].tolist())
        return torch.zeros(len(obs), dtype=torch.int64), (carry[0] + 1,)

    evaluate(act, lambda n: (torch.zeros(n, 2),), Uneven(3), 6, seed=0)
    assert seen == [[0, t % 2, t % 3] for t in range(len(seen))]


def test_rewards_are_added_where_the_actor_wants_them():
    seen = []

    def act(obs, carry, generator, mask=None):
        seen.append(carry[1][:, 0].tolist())
        return torch.zeros(len(obs), dtype=torch.int64), carry

    envs = make_envs(EnvConfig("CartPole-v1", max_episode_steps=3), 2, training=False)
    carry = lambda n: (torch.ones(n, 2), torch.zeros(n, 1))  # noqa: E731
    evaluate(act, carry, envs, 4, seed=0, reward_carry=1)
    assert seen == [[float(t % 3)] * 2 for t in range(6)]
    seen.clear()
    alone = make_envs(EnvConfig("CartPole-v1", max_episode_steps=3), 1, training=False)
    trajectory(act, carry, alone, seed=0, reward_carry=1)
    assert seen == [[0.0], [1.0], [2.0]]
    seen.clear()
    collector = Collector(envs, 0, reward_carry=1)
    collector.carry = carry(2)
    collector.collect(act, 4, None)
    assert seen == [[0.0] * 2, [1.0] * 2, [2.0] * 2, [0.0] * 2]


def test_one_seed_one_result_and_no_gradient():
    envs = make_envs(EnvConfig("CartPole-v1"), 3, training=False)

    def act(obs, carry, generator, mask=None):
        assert not torch.is_grad_enabled()
        return (obs[:, 2] > 0).long(), carry

    first, again, other = (evaluate(act, lambda n: (), envs, 4, seed) for seed in (1, 1, 2))
    assert first == again and first != other
    envs.close()


def test_masks_reach_the_actor():
    envs = make_envs(EnvConfig("rl/Masked-v0", {"episode_length": 4}), 2, training=False)

    def act(obs, carry, generator, mask=None):
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


CLIFF = EnvConfig("CliffWalking-v1")


def test_an_env_without_a_time_limit_is_cut_marked_and_counted():
    envs = make_envs(CLIFF, 2)
    cap = StepCap(envs)
    assert cap.steps == 10_000 and "CliffWalking-v1 declares no time limit" in cap.note
    played = evaluate(still, lambda n: (), envs, 2, seed=0, cap=cap)
    assert [(e.length, e.cut, e.episode_return) for e in played] == [(10_000, True, -10_000.0)] * 2
    assert summarize(played)["eval/cut"] == 2.0 and "cut" not in played[0].extra
    envs.close()


def test_a_cap_cuts_each_episode_and_the_next_one_begins():
    envs = make_envs(CLIFF, 2)
    played = evaluate(still, lambda n: (), envs, 5, seed=0, cap=StepCap(envs, 30))
    assert [(e.length, e.cut) for e in played] == [(30, True)] * 5
    StepCap(envs, 12)
    assert evaluate(still, lambda n: (), envs, 1, seed=0, cap=StepCap(envs, 12))[0].length == 12
    envs.close()


@pytest.mark.parametrize("config", [EnvConfig("CartPole-v1"), EnvConfig("MountainCar-v0")])
def test_what_an_env_ends_itself_is_not_cut(config):
    envs = make_envs(config, 1)
    cap = StepCap(envs)
    assert cap.steps is None and cap.note is None
    played = evaluate(still, lambda n: (), envs, 1, seed=0, cap=cap)
    assert not played[0].cut and "eval/cut" not in summarize(played)
    assert evaluate(still, lambda n: (), envs, 1, 0, cap=StepCap(envs, 5))[0].cut, (
        "what is given counts for all"
    )
    assert not evaluate(still, lambda n: (), envs, 1, 0, cap=StepCap(envs))[0].cut, "and is not kept"
    envs.close()


def test_limits_that_an_env_keeps_for_itself_are_known():
    pytest.importorskip("minigrid")
    envs = make_envs(EnvConfig("MiniGrid-Empty-5x5-v0"), 1)
    assert envs.own_limit() == 100 and StepCap(envs).steps is None
    envs.close()
    pytest.importorskip("ale_py")
    envs = make_envs(EnvConfig("ALE/Pong-v5", transforms=[AtariPreprocessing()]), 1)
    assert envs.own_limit() == 108_000 and StepCap(envs).steps is None
    envs.close()


def test_long_episodes_that_end_raise_the_cap():
    envs = make_envs(CLIFF, 1)
    cap = StepCap(envs, longest=900)
    assert cap.steps == 18_000
    cap.see(EpisodeStats(0.0, 1500, 0, {}, cut=True))
    assert cap.steps == 18_000, "a cut episode shows nothing"
    cap.see(EpisodeStats(0.0, 1500, 0, {}))
    assert cap.steps == 30_000 and envs.envs[0].cut_at == 30_000
    envs.close()
