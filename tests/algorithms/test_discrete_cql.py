"""Discrete CQL: what the conservative term adds, and where it comes to rest."""

from functools import partial

import pytest
import torch
from algorithms.offline import finite, provided, ready, rows

from rl_lightning.algorithms.offline.discrete_cql import DiscreteCQL
from rl_lightning.functional.critics.conservative import discrete_gap
from rl_lightning.nn import MLP
from rl_lightning.types import EnvSpec

SPEC = EnvSpec("bandit", (3,), action_kind="discrete", action_sizes=(2,))
TINY = partial(MLP, hidden_dims=[8])


def bandit(**fields):
    """One state, arm 0 in 80 of 100 rows and worth nothing, arm 1 worth 1."""
    action = torch.tensor([0] * 80 + [1] * 20)
    return rows(
        100,
        obs=torch.ones(100, 3),
        action=action,
        reward=action.float(),
        terminated=torch.ones(100),
        **fields,
    )


def test_the_gap_is_that_of_the_soft_maximum_over_legal_actions():
    q, action = torch.tensor([[0.0, 1.0, 50.0]]), torch.tensor([1])
    legal = torch.tensor([[True, True, False]])
    expected = torch.tensor([1.0, 0.0]).exp().sum().log().item() - 1.0
    assert discrete_gap(q, action, legal).item() == pytest.approx(expected)
    assert discrete_gap(q, action).item() == pytest.approx(49.0)


@pytest.mark.parametrize("cql_alpha", [0.5, 1.0])
def test_values_rest_where_the_two_terms_balance(cql_alpha):
    """Q(a) = r(a) - alpha (softmax(Q)_a / share(a) - 1); the data's mean value stays the mean reward at any weight."""
    torch.manual_seed(0)
    model = ready(DiscreteCQL(SPEC, TINY, cql_alpha=cql_alpha, huber_delta=None, lr=0.03))
    batch = bandit()
    for _ in range(200):
        model.update(batch)
    q = model.q(batch.obs[:1])[0].detach()
    share = torch.tensor([0.8, 0.2])
    torch.testing.assert_close(
        q, torch.tensor([0.0, 1.0]) - cql_alpha * (q.softmax(-1) / share - 1), atol=5e-3, rtol=0
    )
    assert (share * q).sum().item() == pytest.approx(0.2, abs=5e-3)
    if cql_alpha == 1.0:
        assert q.tolist() == pytest.approx([0.269, -0.075], abs=5e-3)


def test_the_loss_is_dqns_and_the_weighted_gap():
    torch.manual_seed(0)
    model, batch = ready(DiscreteCQL(SPEC, TINY, cql_alpha=2.0)), rows(16, action=torch.arange(16) % 2)
    with torch.no_grad():
        best = model.q(batch.next_obs).argmax(-1, keepdim=True)
        target = 1 + 0.9 * model.q_target(batch.next_obs).gather(-1, best)[:, 0]
        q = model.q(batch.obs)
        error = q[torch.arange(16), batch.action] - target
        td = torch.where(error.abs() <= 1, 0.5 * error**2, error.abs() - 0.5)
        weight = torch.rand(16)
        expected = (weight * (td + 2.0 * discrete_gap(q, batch.action))).mean()
    metrics = model.update(batch._replace(weight=weight))
    assert finite(metrics)
    torch.testing.assert_close(metrics["train/loss"].detach(), expected)


def test_it_acts_greedily_and_so_does_a_later_stage():
    torch.manual_seed(0)
    model, obs = ready(DiscreteCQL(SPEC, TINY)), torch.randn(50, 3)
    greedy = model.act(obs, (), None)[0]
    assert torch.equal(model.act(obs, (), torch.Generator())[0], greedy)
    assert torch.equal(provided(model).choose(obs, torch.Generator(), True), greedy)
