"""Flows are exact: log-determinants, the way back, and a density that integrates to 1."""

from functools import partial

import pytest
import torch
from density_toys import SMALL, draw, fit, fitted, mixture

from rl_lightning.models.density import KDE, ODEFlow, RealNVP

FLOWS = ["RealNVP", "ODEFlow"]


def shaken(recipe, dim: int, scale: float = 0.3):
    """A flow far from the identity, as if trained."""
    torch.manual_seed(0)
    net = recipe(dim)
    with torch.no_grad():
        for weight in net.parameters():
            weight.add_(scale * torch.randn_like(weight) / weight.shape[-1] ** 0.5)
    return net


@pytest.mark.parametrize("dim", [2, 5, 14])
@pytest.mark.parametrize("name", FLOWS)
def test_log_determinant_is_autograds(name, dim):
    recipe = SMALL[name] if name == "RealNVP" else partial(ODEFlow, hidden_dim=32, num_solver_steps=20)
    net = shaken(recipe, dim)
    z = torch.randn(6, dim)
    log_det = net(z)[1]
    jacobian = [torch.autograd.functional.jacobian(lambda row: net(row[None])[0][0], row) for row in z]
    expected = torch.stack([torch.linalg.slogdet(part.double())[1] for part in jacobian]).float()
    assert expected.abs().max() > 0.05, "the check must see a determinant"
    torch.testing.assert_close(log_det, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("dim", [2, 5, 14])
def test_coupling_flow_comes_back(dim):
    net = shaken(partial(RealNVP, hidden_dims=[64, 64]), dim)
    z = torch.randn(100, dim)
    latent = net(z)[0]
    assert (latent - z).abs().max() > 0.1
    assert (net.inverse(latent) - z).abs().max() < 1e-5


def test_ode_flow_comes_back():
    net = shaken(partial(ODEFlow, hidden_dim=32, num_solver_steps=20), 5)
    z = torch.randn(100, 5)
    there, out = net(z)
    back, home = net(there, backward=True)
    assert (back - z).abs().max() < 1e-4 and (out + home).abs().max() < 1e-4


def test_divergence_is_the_trace():
    field = shaken(partial(ODEFlow, hidden_dim=16, num_solver_steps=1), 4, scale=1.0).field
    z = torch.randn(8, 4)
    trace = [
        torch.autograd.functional.jacobian(lambda row: field(row[None], 0.3, field.trace_weight())[0][0], row)
        for row in z
    ]
    found = field(z, 0.3, field.trace_weight())[1]
    torch.testing.assert_close(found, torch.stack([part.trace() for part in trace]), atol=1e-5, rtol=1e-4)


def test_scores_without_a_graph_are_those_with_one():
    net = shaken(partial(RealNVP, hidden_dims=[32, 32]), 7)
    x = torch.randn(3000, 7)
    net.fit_statistics(3.0 * x + 1.0)
    graph = net.log_prob(net.prepare(x)) - net.log_scale()
    assert graph.requires_grad
    torch.testing.assert_close(net.score(x), graph.detach(), atol=1e-4, rtol=1e-5)


def test_every_column_is_moved():
    """Halves alternate before columns change places, else a column could stay as it is."""
    for dim in (2, 3, 14):
        net = shaken(partial(RealNVP, num_couplings=2, hidden_dims=[16]), dim)
        z = torch.randn(50, dim)
        assert ((net(z)[0] - z).abs().max(0).values > 1e-3).all()


@pytest.mark.parametrize("name", [*FLOWS, "KDE"])
def test_density_integrates_to_one(name):
    net = (
        fit(partial(KDE, max_rows=300, n_neighbors=None), draw(mixture(), 300, 0) * 5 + 3, 0)
        if name == "KDE"
        else fitted(name)
    )
    side = torch.linspace(-35, 40, 126)
    grid = torch.cartesian_prod(side, side)
    total = net.score(grid).double().exp().sum() * (side[1] - side[0]) ** 2
    assert total.item() == pytest.approx(1.0, abs=0.01)
