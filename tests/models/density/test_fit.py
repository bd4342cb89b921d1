"""Trained densities against the truth."""

from functools import partial

import pytest
import torch
from density_toys import ENOUGH, SMALL, correlated, draw, fit, fitted, mixture, stretch, true_log_prob

from rl_lightning.errors import ConfigError
from rl_lightning.functional.density_penalties import auroc
from rl_lightning.models.density import ODEFlow, RealNVP
from rl_lightning.models.density.density_model import DensityModel

FLOWS = {
    "RealNVP": partial(RealNVP, hidden_dims=[64, 64], whiten=True),
    "ODEFlow": partial(ODEFlow, hidden_dim=32, num_solver_steps=4),
}
UNHELPED = {
    "RealNVP": partial(RealNVP, hidden_dims=[64, 64]),
    "ODEFlow": partial(ODEFlow, hidden_dim=64, num_solver_steps=5, whiten=False),
}


def gap(net, truth) -> float:
    """Nats that the model's mean log-likelihood of fresh rows lies below the truth's."""
    test = draw(truth, 20_000, 99)
    return (truth.log_prob(test) - net.score(test)).mean().item()


@pytest.mark.parametrize("name", FLOWS)
def test_correlated_gaussian_in_sixteen_dimensions(name):
    truth = correlated(16)
    net = fit(FLOWS[name], draw(truth, 50_000, 0), updates=40, lr=1e-3)
    assert -0.005 < gap(net, truth) < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("name", UNHELPED)
def test_dependence_is_learned_where_it_is_not_taken_out(name):
    truth = correlated(6)
    net = fit(UNHELPED[name], draw(truth, 100_000, 0), updates=1200, lr=5e-3)
    assert -0.005 < gap(net, truth) < 0.05


@pytest.mark.parametrize("name", FLOWS)
def test_overlapping_mixture(name):
    test = stretch(draw(mixture(), 20_000, 99))
    assert -0.005 < (true_log_prob(test) - fitted(name).score(test)).mean() < 0.05


def ranking(net) -> tuple[float, float]:
    """Area under the curve against rows far away, and correlation with the true log-density inside."""
    test = stretch(draw(mixture(), 4000, 99))
    far = 6.0 + 2.0 * torch.randn(4000, 2, generator=torch.Generator().manual_seed(0))
    far[::2, 0] *= -1.0
    scores = net.score(test)
    together = torch.stack((true_log_prob(test), scores))
    return auroc(scores, net.score(stretch(far))), torch.corrcoef(together)[0, 1].item()


@pytest.mark.parametrize("name", SMALL)
def test_rows_far_away_are_told_from_rows_inside(name):
    area, correlation = ranking(fitted(name))
    assert area >= 0.995
    if name not in ENOUGH:
        assert correlation >= 0.93


@pytest.mark.slow
@pytest.mark.parametrize("name", ENOUGH)
def test_bounds_rank_as_the_truth_does(name):
    area, correlation = ranking(fitted(name, enough=True))
    assert area >= 0.995 and correlation >= 0.93


@pytest.mark.parametrize("name", SMALL)
def test_scores_are_repeatable_finite_and_independent_of_the_batch(name):
    net = fit(SMALL[name], draw(correlated(5), 3000, 0), updates=3)
    test = draw(correlated(5), 700, 1)
    test[0] *= 1e4
    state = torch.get_rng_state()
    scores = net.score(test)
    assert scores.shape == (700,) and scores.isfinite().all()
    assert scores[0] == scores.min()
    assert torch.equal(scores, net.score(test)) and torch.equal(state, torch.get_rng_state())
    torch.testing.assert_close(net.score(test[100:110]), scores[100:110], atol=1e-3, rtol=1e-4)
    assert net.score(test[:0]).shape == (0,)


@pytest.mark.parametrize("name", SMALL)
def test_score_is_in_data_units(name):
    """Stretching the data by c lowers the log-density by D ln c, and nothing else changes."""
    x, test = draw(mixture(), 2000, 0), draw(mixture(), 200, 1)
    plain, stretched = fit(SMALL[name], x, 5), fit(SMALL[name], 100.0 * x, 5)
    expected = plain.score(test) - 2 * torch.log(torch.tensor(100.0))
    torch.testing.assert_close(stretched.score(100.0 * test), expected, atol=2e-3, rtol=1e-3)


@pytest.mark.parametrize("name", SMALL)
def test_a_constant_column_does_no_harm(name):
    x = torch.cat((draw(mixture(), 2000, 0), torch.full((2000, 1), 7.0)), 1)
    net = fit(SMALL[name], x, updates=5)
    inside, outside = net.score(x).mean(), net.score(x + torch.tensor([0.0, 0.0, 9.0])).mean()
    assert inside.isfinite() and inside > outside


def test_a_part_of_the_bases_name_is_refused():
    """It would silently take the place of what standardises rows."""

    class Taken(DensityModel):
        def __init__(self, dim, /):
            super().__init__(dim)
            self.shift = torch.nn.Parameter(torch.zeros(dim))

    with pytest.raises(ConfigError, match=r"Taken\.shift: the base of all densities uses this name"):
        Taken(3)
