"""Discrete IQL: a chain whose values are known, and the best of episodes that are all bad."""

import pytest
import torch
from algorithms.offline import finite, provided, ready, rows

from rl_lightning.algorithms.offline.discrete_iql import DiscreteIQL
from rl_lightning.types import EnvSpec

SPEC = EnvSpec("chain", (3,), action_kind="discrete", action_sizes=(2,))
GAMMA, LEVEL, BETA = 0.9, 0.9, 2.0


def small(**options):
    torch.manual_seed(0)
    return ready(DiscreteIQL(SPEC, [16], **options))


def chain():
    """Three states, one after the other, in which action 1 pays 1. Three episodes: each takes it once."""
    state = torch.arange(3).repeat(3)
    action = torch.eye(3).long().flatten()  # episode k takes it in state k
    following = torch.eye(3)[(state + 1).clamp(max=2)]
    ends = (state == 2).float()
    fields = {"obs": torch.eye(3)[state], "next_obs": following, "terminated": ends}
    return rows(9, gamma=GAMMA, action=action, reward=action.float(), **fields)


def test_a_chain_of_bad_episodes_holds_the_best_policy():
    """No episode earns more than 1, the best policy 3. A third of a state's rows take action 1, which is better by 1:
    V(s) = e + gamma V(s + 1), where e is the expectile of that coin, and pi(1|s) = exp(beta) / (exp(beta) + 2)."""
    model = small(expectile=LEVEL, beta=BETA, gamma=GAMMA, lr=0.01, tau=0.3, max_weight=1e4)
    batch = chain()
    for _ in range(500):
        metrics = model.update(batch)
    assert finite(metrics)
    coin = LEVEL / 3 / (LEVEL / 3 + (1 - LEVEL) * 2 / 3)
    value = [coin * (1 + GAMMA + GAMMA**2), coin * (1 + GAMMA), coin]
    assert model.value(torch.eye(3)).flatten().tolist() == pytest.approx(value, abs=0.06)
    q = model.q(torch.eye(3)).mean(0)
    expected = torch.tensor([[GAMMA * v, 1 + GAMMA * v] for v in (*value[1:], 0.0)])
    torch.testing.assert_close(q.detach(), expected, atol=0.05, rtol=0)
    good = model.policy(torch.eye(3)).softmax(-1)[:, 1]
    sharp = torch.tensor(BETA).exp()
    torch.testing.assert_close(good.detach(), (sharp / (sharp + 2)).expand(3), atol=0.04, rtol=0)
    assert model.act(torch.eye(3), (), None)[0].tolist() == [1, 1, 1]


def test_without_a_preference_the_data_are_cloned():
    model = small(beta=0.0, lr=0.02)
    for _ in range(100):
        model.update(chain())
    good = model.policy(torch.eye(3)).softmax(-1)[:, 1].detach()
    torch.testing.assert_close(good, torch.full((3,), 1 / 3), atol=0.02, rtol=0)
    assert model.act(torch.eye(3), (), None)[0].tolist() == [0, 0, 0]


def test_huge_advantages_neither_overflow_nor_pass_the_clip():
    model = small()
    with torch.no_grad():
        for net in model.q_target.nets:
            net.advantage[0].bias.fill_(1e4)
    metrics = model.update(chain())
    assert finite(metrics) and metrics["train/weight_clip_fraction"] == 1.0


def test_a_later_stage_plays_the_same_actions():
    model, obs = small(), torch.randn(50, 3)
    policy = provided(model)
    assert torch.equal(policy.choose(obs, torch.Generator(), True), model.act(obs, (), None)[0])
    draw = torch.Generator().manual_seed
    assert torch.equal(policy.choose(obs, draw(1), False), model.act(obs, (), draw(1))[0])
