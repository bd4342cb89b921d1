"""The kernel of ensembles with layer norm against its plain torch twin: values, gradients, and what is left out."""

from itertools import pairwise

import pytest
import torch

from rl_lightning.kernels import mlp
from rl_lightning.kernels.normed_ensemble import normed_ensemble, normed_twin
from rl_lightning.nn.heads.critics import QEnsemble, normed_stack


def params_of(sizes: list[int], members: int = 3) -> list[torch.Tensor]:
    made = []
    for a, b in pairwise(sizes):
        made += [torch.randn(members, a, b) / a**0.5, torch.randn(members, 1, b)]
        if b != sizes[-1]:
            made += [1.0 + 0.1 * torch.randn(members, 1, b), torch.randn(members, 1, b)]
    return [p.requires_grad_() for p in made]


@pytest.mark.parametrize("norm_last", [True, False])
@pytest.mark.parametrize("sizes", [[5, 7, 2], [5, 24, 16, 1], [20, 256, 256, 1]], ids=str)
def test_it_agrees_with_its_twin(sizes, norm_last):
    torch.manual_seed(0)
    params, x = params_of(sizes), torch.randn(64, sizes[0], requires_grad=True)
    ours, theirs = normed_ensemble(x, params, norm_last), normed_twin(x, params, norm_last)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(normed_ensemble(x, params, norm_last), theirs, rtol=1e-4, atol=1e-5)
    weight = torch.randn_like(ours)
    weight[:, ::3] = 0.0  # rows without a gradient
    lowest = torch.zeros_like(weight).scatter_(0, theirs.argmin(0, keepdim=True), 1.0)
    for tensors in ([x, *params], [x], params):
        for by in (weight, lowest):
            each = [torch.autograd.grad(out, tensors, by, retain_graph=True) for out in (ours, theirs)]
            torch.testing.assert_close(*each, rtol=1e-3, atol=1e-3)


def test_gradients_can_be_derived_themselves():
    torch.manual_seed(0)
    params, x = params_of([5, 8, 8, 1]), torch.randn(16, 5, requires_grad=True)
    slopes = []
    for out in (normed_ensemble(x, params, True), normed_twin(x, params, True)):
        (by_x,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        slopes.append(torch.autograd.grad(by_x.square().sum(), params[0]))
    torch.testing.assert_close(*slopes, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("norm_last", [True, False])
def test_critics_take_it_and_watched_ones_do_not(norm_last, monkeypatch):
    monkeypatch.setattr(mlp, "FEW_ROWS", 0)
    monkeypatch.setattr(mlp, "ENOUGH", 0)
    torch.manual_seed(0)
    q = QEnsemble(2, 3, 2, [8, 8], layer_norm=True, norm_last=norm_last)
    obs, action = torch.randn(16, 3), torch.randn(16, 2)
    fast = q(obs, action)
    assert normed_stack(q.layers) is not None and type(fast.grad_fn).__name__ == "SqueezeBackward1"
    q.layers[0].register_forward_hook(lambda *_: None)
    assert normed_stack(q.layers) is None
    torch.testing.assert_close(q(obs, action), fast, rtol=1e-4, atol=1e-5)


def test_other_layers_are_left_alone():
    for options in ({"dropout": 0.1}, {"activation": "tanh"}):
        assert normed_stack(QEnsemble(2, 3, 2, [8], layer_norm=True, **options).layers) is None
    assert normed_stack(QEnsemble(2, 3, 2, [8]).layers) is None
