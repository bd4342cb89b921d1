"""Diffusion-QL: its normalised term at hand-computed values, the slope through the chain, who follows whom."""

from functools import partial

import pytest
import torch
from algorithms.offline import SPEC, finite, fitted, provided, ready, reloaded, rows
from contracts.harness import differing, weights

from rl_lightning.algorithms.diffusion.diffusion_ql import DiffusionQL
from rl_lightning.functional.noise_schedules import VPBetaSchedule, VPSchedule
from rl_lightning.functional.value import cross_normalized_q_loss
from rl_lightning.nn.denoisers.row_denoisers import MLPDenoiser

tiny = partial(MLPDenoiser, hidden_dims=[16], time_embed_dim=8)


def small(**options):
    torch.manual_seed(0)
    return ready(DiffusionQL(SPEC, tiny, critic_hidden_dims=[16], **{"num_samples": 3, **options}))


def test_the_normalised_term_by_hand():
    """Means 2 and 1 of sizes 2 and 4: each critic's mean is divided by the other's size, which has no slope."""
    q = torch.tensor([[1.0, 3.0], [-3.0, 5.0]], requires_grad=True)
    assert cross_normalized_q_loss(q, 0).item() == pytest.approx(-2 / 4)
    assert cross_normalized_q_loss(q, 1).item() == pytest.approx(-1 / 2)
    (slope,) = torch.autograd.grad(cross_normalized_q_loss(q, 0), q)
    torch.testing.assert_close(slope, torch.tensor([[-1 / 8, -1 / 8], [0.0, 0.0]]))
    doubled = q.detach() * torch.tensor([[2.0], [1.0]])
    assert cross_normalized_q_loss(doubled, 0).item() == pytest.approx(-1.0)
    assert cross_normalized_q_loss(2 * q, 0).item() == pytest.approx(-0.5)


def test_the_coin_falls_on_both_critics():
    model, seen = small(q_coef=1.0), set()
    model.q.forward = lambda obs, action: 0.0 * action.sum(-1) + torch.tensor([[1.0], [4.0]])
    model.step = lambda optimizer, loss, clip=None: None
    for _ in range(20):
        metrics = model._actor_step(rows())
        seen.add(round((metrics["train/actor_loss"] - metrics["train/bc_loss"]).item(), 3))
    assert seen == {-0.25, -4.0}


def test_cloning_is_the_mean_over_an_actions_entries():
    model = small(q_coef=0.0)
    model.step = lambda optimizer, loss, clip=None: None
    model.model.net.forward = lambda x, t, cond: 0.0 * x
    big = rows(20_000)
    assert model._actor_step(big)["train/bc_loss"].item() == pytest.approx(1.0, abs=0.03)


def test_critics_reach_the_weights_through_the_whole_chain():
    """The slope of a sampled action's value in one weight, by finite differences with the noise held."""
    model, batch = small().double(), rows(4)
    weight = model.model.net.layers[-1].bias

    def value(shift: float) -> torch.Tensor:
        with torch.no_grad():
            weight[0] += shift
        torch.manual_seed(3)
        total = model.sample(model.model, batch.obs.double(), 1)[:, 0].sin().sum()
        with torch.no_grad():
            weight[0] -= shift
        return total

    (slope,) = torch.autograd.grad(value(0.0), weight)
    by_difference = (value(1e-6) - value(-1e-6)) / 2e-6
    assert slope[0].item() == pytest.approx(by_difference.item(), rel=1e-4)
    assert abs(slope[0].item()) > 1e-3


def test_the_schedule_is_the_continuous_one_read_at_its_steps():
    schedule = VPBetaSchedule(5)
    t = torch.arange(1, 6, dtype=torch.float64) / 5
    torch.testing.assert_close(schedule.log_alpha(t), VPSchedule(0.1, 10.0).log_alpha(t))
    alpha = torch.tensor([0.8967, 0.6597, 0.3981, 0.1971, 0.0801], dtype=torch.float64)
    torch.testing.assert_close(schedule.alpha_sigma(t)[0], alpha, atol=5e-5, rtol=0)
    before = torch.cat((torch.ones(1), alpha[:-1]))
    beta = torch.tensor([0.1959, 0.4588, 0.6358, 0.7549, 0.8350], dtype=torch.float64)
    torch.testing.assert_close(1 - (alpha / before) ** 2, beta, atol=5e-4, rtol=0)


def test_the_target_is_of_the_average_and_takes_the_best_of_its_samples():
    model, batch = small(num_target_samples=4), rows()

    def target():
        torch.manual_seed(1)
        return model._target(batch)

    first = target()
    with torch.no_grad():
        model.model.net.layers[-1].bias += 1.0
    assert torch.equal(target(), first)
    with torch.no_grad():
        model.average.net.layers[-1].bias += 1.0
    assert not torch.equal(target(), first)
    heap = torch.arange(4.0).repeat(16)  # values of a row's four samples by two critics
    model.q_target.forward = lambda obs, action: torch.stack((heap, 10.0 - 2 * heap))
    torch.testing.assert_close(target(), torch.full((16,), 1 + 0.9 * 3.0))


def test_the_average_follows_every_fifth_update():
    model = small()
    for update in range(1, 11):
        before = weights(model)
        assert finite(model.update(rows()))
        moved = {n.split(".")[0] for n in differing(before, weights(model))}
        assert moved == {"model", "q", "q_target", "updates"} | ({"average"} if update % 5 == 0 else set())


def test_the_chosen_sample_is_likely_the_critics_favourite():
    model = small(num_samples=50)
    model.q_target.forward = lambda obs, action: torch.stack((100 * action[:, 0], 100 * action[:, 0] + 1))
    draws = [model.act(torch.zeros(64, 3), (), torch.Generator().manual_seed(s))[0] for s in range(2)]
    assert draws[0][:, 0].min() > 0.5 and not torch.equal(*draws)


def test_the_same_after_a_reload():
    batch = rows(64, obs=4 + 2 * torch.randn(64, 3))
    model = fitted(small(normalize_obs=True), batch)
    model.update(batch)
    copy = reloaded(
        model, DiffusionQL(SPEC, tiny, critic_hidden_dims=[16], num_samples=3, normalize_obs=True)
    )
    ours, again = (m.act(batch.obs, (), torch.Generator().manual_seed(1))[0] for m in (model, copy))
    assert torch.equal(ours, again)


def test_a_later_stage_plays_the_same():
    torch.manual_seed(0)
    model, obs = ready(DiffusionQL(SPEC, critic_hidden_dims=[16], num_samples=3)), torch.randn(8, 3)
    model.update(rows())
    ours = model.act(obs, (), torch.Generator().manual_seed(1))[0]
    assert torch.equal(provided(model).choose(obs, torch.Generator().manual_seed(1), True), ours)
