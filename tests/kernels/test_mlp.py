"""The MLP kernels against their plain torch twins: values, gradients, gradients of gradients, and what is left out."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from rl_lightning.kernels import mlp as kernel
from rl_lightning.kernels.choice import asking
from rl_lightning.kernels.mlp import ensemble_mlp, ensemble_twin, mlp, mlp_twin
from rl_lightning.nn.heads.critics import QEnsemble
from rl_lightning.nn.mlp import MLP

ACTIVATIONS = st.sampled_from([torch.relu_, torch.tanh_])
SIZES = st.lists(st.integers(1, 40), min_size=2, max_size=5)


def single(sizes: list[int]) -> list[torch.Tensor]:
    return [
        t.requires_grad_() for a, b in pairwise(sizes) for t in (torch.randn(b, a) / a**0.5, torch.randn(b))
    ]


def ensemble(sizes: list[int], members: int) -> list[torch.Tensor]:
    shapes = [shape for a, b in pairwise(sizes) for shape in ((members, a, b), (members, 1, b))]
    return [(torch.randn(shape) / shape[1] ** 0.5).requires_grad_() for shape in shapes]


def assert_agree(ours, theirs, tensors):
    """Values, and the gradients by all tensors; weighted, so that none of them cancel."""
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    weight = torch.randn_like(ours)
    grads = [torch.autograd.grad(out, tensors, weight, retain_graph=True) for out in (ours, theirs)]
    for found, expected in zip(*grads, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


@settings(max_examples=25, deadline=None)
@given(SIZES, st.integers(1, 9), ACTIVATIONS, st.booleans())
def test_a_network_agrees_with_its_twin(sizes, rows, activation, last):
    params, x = single(sizes), torch.randn(rows, sizes[0], requires_grad=True)
    out, twin = mlp(x, params, activation, last), mlp_twin(x, params, activation, last)
    assert_agree(out, twin, [x, *params])
    with torch.no_grad():
        torch.testing.assert_close(mlp(x, params, activation, last), twin, rtol=1e-4, atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(SIZES, st.integers(1, 9), st.integers(1, 3), ACTIVATIONS)
def test_an_ensemble_agrees_with_its_twin(sizes, rows, members, activation):
    params, x = ensemble(sizes, members), torch.randn(rows, sizes[0], requires_grad=True)
    out, twin = ensemble_mlp(x, params, activation), ensemble_twin(x, params, activation)
    assert_agree(out, twin, [x, *params])
    assert_agree(out, twin, [x])  # the way through the members that leaves parameters out
    assert_agree(out, twin, params)
    with torch.no_grad():
        torch.testing.assert_close(ensemble_mlp(x, params, activation), twin, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("activation", [torch.relu_, torch.tanh_])
@pytest.mark.parametrize("width", [64, 256])
def test_large_products_agree_too(width, activation):
    params, x = single([20, width, width, 6]), torch.randn(256, 20, requires_grad=True)
    assert_agree(mlp(x, params, activation, False), mlp_twin(x, params, activation, False), [x, *params])
    params = ensemble([20, width, width, 1], 2)
    assert_agree(ensemble_mlp(x, params, torch.relu_), ensemble_twin(x, params, torch.relu_), [x, *params])


def test_a_minimum_over_members_sends_each_row_through_one():
    params, x = ensemble([5, 64, 64, 1], 2), torch.randn(100, 5, requires_grad=True)
    grads = [
        torch.autograd.grad(out.squeeze(-1).min(0).values.sum(), x)[0]
        for out in (ensemble_mlp(x, params, torch.relu_), ensemble_twin(x, params, torch.relu_))
    ]
    torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-5)


def test_gradients_can_be_derived_themselves():
    """As a gradient penalty does."""
    x = torch.randn(7, 4, requires_grad=True)
    for params, ours, theirs in (
        (single([4, 8, 3]), lambda p: mlp(x, p, torch.tanh_), lambda p: mlp_twin(x, p, torch.tanh_, True)),
        (
            ensemble([4, 8, 1], 2),
            lambda p: ensemble_mlp(x, p, torch.tanh_),
            lambda p: ensemble_twin(x, p, torch.tanh_),
        ),
    ):
        second = []
        for network in (ours, theirs):
            (slope,) = torch.autograd.grad(network(params).sum(), x, create_graph=True)
            second.append(torch.autograd.grad(slope.square().sum(), [x, *params], materialize_grads=True))
        for found, expected in zip(*second, strict=True):
            torch.testing.assert_close(found, expected)


def test_a_weight_changed_before_the_way_back_is_noticed():
    params, x = single([3, 8, 2]), torch.randn(4, 3)
    out = mlp(x, params, torch.relu_)
    with torch.no_grad():
        params[2].mul_(2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_an_actors_loss_pays_for_no_weight_of_the_critic(any_size, monkeypatch):
    """Tested with torch 2.13, whose engine says what it will run; without that every weight would be computed."""
    q, made = QEnsemble(2, 3, 2, [8, 8]), []
    inner = kernel.weight_grad
    monkeypatch.setattr(kernel, "weight_grad", lambda *given: made.append(1) or inner(*given))
    action = torch.rand(4, 2, requires_grad=True)
    loss = q(torch.randn(4, 3), action).sum()
    torch.autograd.grad(loss, action, retain_graph=True)
    assert not made
    for wanted in (list(q.parameters()), [q.layers[2].weight]):
        torch.autograd.grad(loss, wanted, retain_graph=True)
        assert made
        made.clear()
    loss.backward()
    assert all(p.grad is not None for p in q.parameters()) and action.grad is not None


def test_a_backward_pass_that_says_what_it_wants_computes_just_that(any_size, monkeypatch):
    """As every step of an optimizer does; the engine is not asked, which would cost 40 us."""
    q, made = QEnsemble(2, 3, 2, [8, 8]), []
    weight_grad = kernel.weight_grad
    monkeypatch.setattr(kernel, "weight_grad", lambda *given: made.append(1) or weight_grad(*given))
    action, encoded = torch.rand(4, 2, requires_grad=True), torch.randn(4, 3, requires_grad=True)
    loss = q(encoded * 2.0, action).sum()
    (alone,) = torch.autograd.grad(loss, action, retain_graph=True)
    with asking([action]):
        (said,) = torch.autograd.grad(loss, action, retain_graph=True)
    assert not made and torch.equal(said, alone)
    wanted = [encoded, *q.parameters()]
    expected = torch.autograd.grad(loss, wanted, retain_graph=True)
    with asking(wanted):
        got = torch.autograd.grad(loss, wanted, retain_graph=True)
    assert made and all(map(torch.equal, got, expected))


@pytest.fixture
def any_size(monkeypatch):
    """Small networks take the kernels too."""
    monkeypatch.setattr(kernel, "FEW_ROWS", 0)
    monkeypatch.setattr(kernel, "ENOUGH", 0)
    monkeypatch.setattr(kernel, "ENOUGH_TANH", 0)


@pytest.fixture
def used(any_size, monkeypatch):
    """Notes each way through a kernel."""
    seen = []
    run = kernel.run_forward
    monkeypatch.setattr(kernel, "run_forward", lambda *given: seen.append(1) or run(*given))
    return seen


def networks():
    x, obs, action = torch.randn(4, 3), torch.randn(4, 3), torch.randn(4, 2)
    net, q = MLP((3,), [8, 8], "relu"), QEnsemble(2, 3, 2, [8])
    return ((net, net.layers[1], lambda: net(x)), (q, q.layers[0], lambda: q(obs, action)))


@pytest.mark.parametrize("k", [0, 1], ids=["MLP", "QEnsemble"])
def test_hooks_on_layers_are_called_and_change_nothing(used, k):
    _, layer, run = networks()[k]
    kernel_out = run()
    assert used
    used.clear()
    called = []
    layer.register_forward_hook(lambda *_: called.append(1))
    torch.testing.assert_close(run(), kernel_out)
    assert called and not used


@pytest.mark.parametrize("k", [0, 1], ids=["MLP", "QEnsemble"])
def test_other_precisions_and_transforms_take_the_twin(used, k):
    network, _, run = networks()[k]
    with torch.autocast("cpu", torch.bfloat16):
        assert run().isfinite().all()
    assert not used
    torch.func.functional_call(
        network, dict(network.named_parameters()), (torch.randn(4, 3), torch.randn(4, 2))[: k + 1]
    )
    used.clear()
    each = (torch.randn(5, 4, 3), torch.randn(5, 4, 2))[: k + 1]
    assert torch.vmap(network)(*each).shape[0] == 5
    network.double()
    network(*(part[0].double() for part in each))
    assert not used


def test_replaced_and_parametrized_layers_are_seen(used):
    net, x = MLP((3,), [8, 8], "relu"), torch.randn(4, 3)
    nn.utils.parametrizations.weight_norm(net.layers[2])
    net(x).sum().backward()
    assert not used
    net.layers[2] = nn.Identity()
    torch.testing.assert_close(net(x), net.layers(x))


def test_anomaly_mode_names_the_kernel(any_size):
    net = MLP((3,), [8], "tanh")
    with torch.no_grad():
        net.layers[0].weight.fill_(float("nan"))
    with torch.autograd.set_detect_anomaly(True), pytest.raises(RuntimeError, match="_MLPBackward"):
        net(torch.randn(4, 3)).sum().backward()


def test_a_dead_unit_learns_nothing():
    params = [torch.ones(1, 1), torch.tensor([-5.0]), torch.ones(1, 1), torch.zeros(1)]
    by_first, grads = kernel.run_backward(
        params[::2],
        kernel.run_forward(torch.ones(3, 1), params, torch.relu_, False)[1],
        torch.ones(3, 1),
        torch.relu_,
        True,
    )
    assert by_first.abs().sum() == 0 and grads[0].item() == 0 and grads[3].item() == pytest.approx(3.0)


@pytest.mark.parametrize("rows, width, taken", [(256, 256, True), (256, 64, False), (8, 256, False)])
def test_only_large_stacks_take_the_kernel(rows, width, taken, monkeypatch):
    """By their size alone, so that a resumed run takes the same road."""
    seen, run = [], kernel.run_forward
    monkeypatch.setattr(kernel, "run_forward", lambda *given: seen.append(1) or run(*given))
    net, q = MLP((3,), [width, width], "relu"), QEnsemble(2, 3, 2, [width, width])
    obs = torch.randn(rows, 3)
    torch.testing.assert_close(net(obs), net.layers(obs))
    q(obs, torch.randn(rows, 2))
    assert bool(seen) is taken
