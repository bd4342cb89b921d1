"""The written-out ReLU network against torch's own layers and autograd."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rl_lightning.kernels.relu_mlp import layer, relu_backward, relu_forward


def network(sizes: list[int], seed: int = 0):
    g = torch.Generator().manual_seed(seed)
    make = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64)  # noqa: E731
    return [layer(make(a, b), make(b)) for a, b in pairwise(sizes)]


def by_torch(layers, x):
    for k, (weight, bias, *_) in enumerate(layers):
        x = x @ weight + bias
        x = x.relu() if k + 1 < len(layers) else x
    return x


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=2, max_size=5), st.integers(1, 9), st.booleans())
def test_values_and_gradients_are_autograds(sizes, rows, transposed):
    layers = network(sizes)
    if transposed:  # as nn.Linear keeps its weights
        layers = [layer(each.back.contiguous().t(), each.bias) for each in layers]
    x = torch.randn(rows, sizes[0], dtype=torch.float64, requires_grad=True)
    by_out = torch.randn(rows, sizes[-1], dtype=torch.float64)
    leaves = [tensor.detach().requires_grad_() for each in layers for tensor in each[:2]]
    expected_out = by_torch(list(zip(leaves[::2], leaves[1::2], strict=True)), x)
    *by_params, by_x = torch.autograd.grad(expected_out, [*leaves, x], by_out)

    out, entered = relu_forward(layers, x.detach())
    into = [layer(torch.empty_like(each.weight), torch.empty_like(each.bias)) for each in layers]
    found_x = relu_backward(layers, entered, by_out, into) @ layers[0].back
    torch.testing.assert_close(out, expected_out.detach())
    torch.testing.assert_close(found_x, by_x)
    for found, expected in zip([t for each in into for t in each[:2]], by_params, strict=True):
        torch.testing.assert_close(found, expected)


def test_a_dead_unit_learns_nothing():
    weight, bias = torch.ones(1, 1), torch.tensor([-5.0])
    layers = [layer(weight, bias), layer(torch.ones(1, 1), torch.zeros(1))]
    _, entered = relu_forward(layers, torch.ones(3, 1))
    into = [layer(torch.empty(1, 1), torch.empty(1)) for _ in layers]
    by_first = relu_backward(layers, entered, torch.ones(3, 1), into)
    assert (
        by_first.abs().sum() == 0 and into[0].weight.item() == 0 and into[1].bias.item() == pytest.approx(3.0)
    )
