"""Thresholds: held-out rows fall below them as often as was asked, whatever the density and the units."""

import copy
from functools import partial

import pytest
import torch
from density_toys import SMALL, correlated, draw, fit

from rl_lightning.errors import ConfigError
from rl_lightning.models.density import KDE, CalibratedDensity, RealNVP
from rl_lightning.models.described import describe

RECIPES = SMALL | {"KDE": partial(KDE, max_rows=1000)}


def wrapped(recipe, dim: int) -> CalibratedDensity:
    return CalibratedDensity(describe(recipe), dim - 1, 1)


@pytest.fixture(scope="module", params=RECIPES)
def trained(request):
    """A density of columns of very different size, shortly trained."""
    recipe = RECIPES[request.param]
    x = draw(correlated(5), 10_000, 0)
    density = wrapped(recipe, 5)
    density.net.load_state_dict(fit(recipe, x, updates=40).state_dict())
    density.calibrate(draw(correlated(5), 20_000, 1))
    return density


@pytest.fixture(scope="module")
def fresh(trained):
    return trained.score(draw(correlated(5), 20_000, 2))


@pytest.mark.parametrize(("percentile", "low", "high"), [(1.0, 0.7, 1.3), (5.0, 3.5, 6.5), (10.0, 7.0, 13.0)])
def test_fresh_rows_fall_below_as_often_as_asked(trained, fresh, percentile, low, high):
    assert low < 100.0 * (fresh < trained.threshold(percentile)).double().mean() < high


def test_rows_from_outside_fall_below(trained):
    outside = draw(correlated(5), 2000, 2) + 8.0 * trained.net.scale
    assert (trained.score(outside) < trained.threshold(1.0)).double().mean() > 0.99


def test_a_threshold_from_unscaled_rows_would_never_fire():
    """The failure that one path to the score rules out: calibration that skips the standardisation."""
    x, held = draw(correlated(5), 4000, 0), draw(correlated(5), 4000, 1)
    density = wrapped(partial(KDE, max_rows=1000), 5)
    density.net.fit_statistics(x)
    wrong = copy.deepcopy(density)
    density.calibrate(held)
    wrong.calibrate(held * wrong.net.scale + wrong.net.shift)
    fresh = density.score(draw(correlated(5), 4000, 2))
    assert (fresh < wrong.threshold(1.0)).double().mean() < 0.001
    assert 0.004 < (fresh < density.threshold(1.0)).double().mean() < 0.018


def test_statistics_of_the_scores(trained, fresh):
    assert trained.mean.item() == pytest.approx(fresh.mean().item(), abs=0.2)
    assert trained.std.item() == pytest.approx(fresh.std().item(), rel=0.2)
    assert (trained.quantiles.diff() >= 0).all()
    assert trained.threshold(50.0).item() == pytest.approx(fresh.median().item(), abs=0.1)


def test_one_wild_row_does_not_set_the_scale():
    density = wrapped(partial(RealNVP, hidden_dims=[8]), 5)
    x = torch.randn(5000, 5)
    density.calibrate(x)
    usual = density.std.item()
    x[0] *= 1e4
    density.calibrate(x)
    assert density.std.item() == pytest.approx(usual, rel=0.05)


def test_a_product_rebuilds_it(trained):
    """The class, plain values and a state dict are all there is to it."""
    recipe = next(RECIPES[name] for name in RECIPES if name in type(trained.net).__name__)
    again = CalibratedDensity(
        density_model=describe(recipe), obs_dim=4, action_dim=1, density_of="next_obs_action"
    )
    again.load_state_dict(trained.state_dict())
    x = draw(correlated(5), 100, 3)
    assert torch.equal(again.score(x), trained.score(x))
    assert torch.equal(again.threshold(2.5), trained.threshold(2.5))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("obs_action", [1.0, 2.0, 5.0]),
        ("next_obs_action", [3.0, 4.0, 5.0]),
        ("obs_action_next_obs", [1.0, 2.0, 5.0, 3.0, 4.0]),
        ("action_reward", [5.0, 6.0]),
    ],
)
def test_rows_are_made_of(kind, expected):
    density = CalibratedDensity(describe(partial(RealNVP, hidden_dims=[8])), 2, 1, kind)
    parts = ([[1.0, 2.0]], [[5.0]], [[3.0, 4.0]], [6.0])
    x = density.rows(*(torch.tensor(part) for part in parts))
    assert x.tolist() == [expected] and density.dim == len(expected)
    assert density.score(x).shape == (1,)


def test_discrete_actions_are_one_hot():
    density = CalibratedDensity(describe(partial(RealNVP, hidden_dims=[8])), 1, 5, "obs_action", [2, 3])
    x = density.rows(torch.zeros(2, 1), torch.tensor([[1, 2], [0, 0]]), torch.zeros(2, 1), torch.zeros(2))
    assert x.tolist() == [[0, 0, 1, 0, 0, 1], [0, 1, 0, 1, 0, 0]]


def test_a_score_is_finite_whatever_the_row():
    density = CalibratedDensity(describe(partial(RealNVP, hidden_dims=[8])), 2, 1)
    x = torch.tensor([[0.0] * 3, [float("nan")] * 3, [float("inf")] * 3, [1e30] * 3])
    assert density.score(x)[1:].tolist() == [-1e6] * 3


def test_errors_say_what_to_do():
    with pytest.raises(ConfigError, match="choose one of obs_action"):
        CalibratedDensity(describe(RealNVP), 2, 1, "state")
    density = CalibratedDensity(describe(partial(RealNVP, hidden_dims=[8])), 2, 1)
    with pytest.raises(ConfigError, match="never calibrated"):
        density.threshold(1.0)
    density.calibrate(torch.randn(100, 3))
    with pytest.raises(ConfigError, match="between 0 and 100"):
        density.threshold(101.0)
    with pytest.raises(ConfigError, match="not a class that a checkpoint may make"):
        CalibratedDensity({"class_path": "os.system", "init_args": {}}, 2, 1)
    with pytest.raises(ConfigError, match="only DensityModel may stand"):
        CalibratedDensity({"class_path": "rl_lightning.nn.mlp.MLP", "init_args": {}}, 2, 1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: RealNVP(3, num_couplings=0),
        lambda: KDE(3, bandwidth=0.0),
        lambda: RealNVP(3, noise_std=-1),
    ],
)
def test_recipes_check_their_arguments(make):
    with pytest.raises(ConfigError):
        make()
