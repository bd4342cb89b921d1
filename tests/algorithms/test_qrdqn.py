"""QR-DQN: what quantiles are learned, whose they are, and what they are moved towards."""

from functools import partial

import numpy as np
import pytest
import torch
from algorithms.offline import ready
from contracts.cases import BY_NAME
from contracts.harness import bare

from rl_lightning.algorithms.online.qrdqn import QRDQN
from rl_lightning.functional.value import quantile_huber_loss
from rl_lightning.models.network_policies import GreedyQuantilePolicy
from rl_lightning.nn import MLP
from rl_lightning.nn.heads.critics import QuantileQNet
from rl_lightning.types import EnvSpec, Transitions

SPEC = EnvSpec("toy", (2,), action_kind="discrete", action_sizes=(3,))
TINY = partial(MLP, hidden_dims=[8])


def batch(rows: int = 6, **fields) -> Transitions:
    ones, draw = torch.ones(rows), torch.Generator().manual_seed(0)
    standing = {
        "obs": torch.randn(rows, 2, generator=draw),
        "action": torch.arange(rows) % 3,
        "reward": ones,
        "next_obs": torch.randn(rows, 2, generator=draw),
        "terminated": 0 * ones,
        "discount": 0.5 * ones,
        "weight": ones,
        "index": torch.arange(rows),
    }
    return Transitions(**{**standing, **fields})


def test_the_loss_sums_over_quantiles_and_averages_over_targets():
    """N = 2, both quantiles 1 below both targets: 0.25 / 2 + 0.75 / 2; above them the weights change places."""
    low, high = torch.zeros(1, 2), torch.ones(1, 2)
    assert quantile_huber_loss(low, high, 1.0).item() == pytest.approx(0.5)
    one_sided = torch.tensor([[0.0, 1.0]])
    assert quantile_huber_loss(one_sided, high, 1.0).item() == pytest.approx(0.25 * 0.5)
    assert quantile_huber_loss(one_sided, low, 1.0).item() == pytest.approx((1 - 0.75) * 0.5)
    assert quantile_huber_loss(low, 3 * high, 1.0).item() == pytest.approx(2.5)  # linear beyond kappa


@pytest.mark.parametrize(("kappa", "lr", "expected"), [(1.0, 1.0, (0.25, 0.75)), (1e-3, 4.0, (0.0, 1.0))])
def test_a_fair_coin_of_rewards_0_and_1(kappa, lr, expected):
    """Within kappa the loss is that of expectiles, beyond it of quantiles; ascending and of mean 0.5 in both."""
    theta = torch.tensor([[0.4, 0.6]], requires_grad=True)
    coin = torch.tensor([[0.0, 1.0]])
    optimizer = torch.optim.SGD([theta], lr)
    for _ in range(600 if kappa < 1.0 else 60):
        optimizer.zero_grad()
        quantile_huber_loss(theta, coin, kappa).sum().backward()
        optimizer.step()
    assert theta.detach()[0].tolist() == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("double", [True, False])
def test_target_quantiles_are_those_of_the_best_legal_mean(double):
    torch.manual_seed(0)
    model = ready(QRDQN(SPEC, TINY, num_quantiles=4, double_q=double))
    with torch.no_grad():
        for weight in model.q_target.parameters():
            weight.add_(0.5 * torch.randn(weight.shape))
    terminated = torch.tensor([0.0, 1.0] * 3)
    legal = torch.tensor([[True, False, True]]).expand(6, 3)
    rows = batch(terminated=terminated, next_mask=legal)
    with torch.no_grad():
        following = model.q_target.quantiles(rows.next_obs)
        means = model.q(rows.next_obs) if double else following.mean(-1)
    best = means.masked_fill(~legal, -1e9).argmax(-1)
    expected = torch.stack([1 + 0.5 * (1 - terminated[i]) * following[i, best[i]] for i in range(6)])
    torch.testing.assert_close(model._target_quantiles(rows), expected)
    chosen = model.q.quantiles(rows.obs)[torch.arange(6), rows.action]
    loss = quantile_huber_loss(chosen, expected, 1.0)
    weight = torch.rand(6)
    metrics = model.update(rows._replace(weight=weight))
    torch.testing.assert_close(metrics["train/loss"], (weight * loss).mean())
    torch.testing.assert_close(metrics["priority"], loss.detach())


def test_values_are_means_of_quantiles_which_are_laid_out_action_by_action():
    torch.manual_seed(0)
    net = QuantileQNet(TINY((2,)), 3, 5)
    obs = torch.randn(7, 2)
    quantiles = net.quantiles(obs)
    assert quantiles.shape == (7, 3, 5)
    torch.testing.assert_close(net(obs), quantiles.mean(-1))


def test_a_later_stage_plays_the_same_actions():
    run = bare(BY_NAME["qrdqn"])
    exported = run.model.exports()["policy"]
    assert exported.class_path.endswith(GreedyQuantilePolicy.__name__)
    policy = GreedyQuantilePolicy(**exported.init_args)
    policy.load_state_dict(
        {k.removeprefix("q."): v for k, v in run.model.state_dict().items() if k.startswith("q.")}
    )
    obs = torch.randn(50, *run.data.spec.obs_shape)
    expected = run.model.act(obs, (), None)[0]
    assert torch.equal(policy.choose(obs, torch.Generator(), True), expected)


def test_the_spread_of_noisy_rewards_is_learned():
    """One state, rewards N(0, 5): 16 quantiles against the true ones."""
    torch.manual_seed(0)
    spec = EnvSpec("bandit", (1,), action_kind="discrete", action_sizes=(1,))
    model = ready(QRDQN(spec, TINY, num_quantiles=16, lr=0.05))
    draw = torch.Generator().manual_seed(1)
    same = {"obs": torch.ones(128, 1), "next_obs": torch.ones(128, 1), "action": torch.zeros(128).long()}
    for step in range(250):
        model.raw_optimizers()[0].param_groups[0]["lr"] = 0.05 * (1 - step / 250)
        reward = 5 * torch.randn(128, generator=draw)
        model.update(batch(128, reward=reward, terminated=torch.ones(128), **same))
    levels = (torch.arange(16) + 0.5) / 16
    true = 5 * torch.distributions.Normal(0.0, 1.0).icdf(levels)
    learned = model.q.quantiles(torch.ones(1, 1))[0, 0].detach()
    assert np.sqrt((learned - true).square().mean().item()) < 0.5
