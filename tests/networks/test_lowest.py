"""The short way back through the lowest critic gives the gradient of the long one."""

from __future__ import annotations

import pytest
import torch

from rl_lightning.networks.critics import QEnsemble


@pytest.mark.parametrize("members", [1, 2, 5])
def test_value_and_slope_are_those_of_the_minimum(members):
    torch.manual_seed(members)
    q = QEnsemble(members, 5, 3, [32, 16]).double()
    obs, action = torch.randn(64, 5).double(), torch.randn(64, 3).double().requires_grad_()
    long, short = q(obs, action).amin(0), q.lowest(obs, action)
    assert torch.allclose(long, short, atol=1e-12)
    weight = torch.randn(64).double()
    expected = torch.autograd.grad((long * weight).sum(), action)[0]
    found = torch.autograd.grad((short * weight).sum(), action)[0]
    assert torch.allclose(expected, found, atol=1e-12)


def test_critics_get_no_gradient():
    q = QEnsemble(2, 5, 3, [16])
    action = torch.randn(8, 3, requires_grad=True)
    slopes = torch.autograd.grad(
        q.lowest(torch.randn(8, 5), action).sum(), list(q.parameters()), allow_unused=True
    )
    assert all(slope is None for slope in slopes)


@pytest.mark.parametrize("kind", [{"activation": "tanh"}, {"layer_norm": True}])
def test_other_networks_take_the_long_way(kind):
    q = QEnsemble(2, 5, 3, [16], **kind)
    obs, action = torch.randn(8, 5), torch.randn(8, 3, requires_grad=True)
    assert torch.allclose(q.lowest(obs, action), q(obs, action).amin(0))
