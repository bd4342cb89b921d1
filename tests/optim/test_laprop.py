"""LaProp by hand: size first, mean then; clipped to a share of the weights; warmed up."""

from functools import partial

import pytest
import torch

from rl_lightning.errors import ConfigError
from rl_lightning.optim import LaProp, OptimizerFactory


def stepped(make: OptimizerFactory, start: list[float], grads: list[list[float]], lr: float) -> torch.Tensor:
    weight = torch.nn.Parameter(torch.tensor(start))
    optimizer = make([weight], lr)
    for grad in grads:
        weight.grad = torch.tensor(grad)
        optimizer.step()
    return weight.detach()


def test_two_steps_by_hand():
    plain = partial(LaProp, betas=(0.5, 0.0), agc=None, warmup_steps=0)
    # with beta2 = 0 each gradient becomes its sign; their debiased mean: 1, then (0.5 * 0.5 * 1 + 0.5 * -1) / 0.75
    assert stepped(plain, [1.0], [[4.0]], 0.1).item() == pytest.approx(0.9)
    assert stepped(plain, [1.0], [[4.0], [-9.0]], 0.1).item() == pytest.approx(0.9 + 0.1 / 3)


def test_the_rate_rises():
    warm = partial(LaProp, betas=(0.0, 0.0), agc=None, warmup_steps=4)
    assert stepped(warm, [0.0], [[1.0]] * 5, 1.0).item() == pytest.approx(-(0.25 + 0.5 + 0.75 + 1.0 + 1.0))


def test_clipping_is_a_share_of_the_weights_own_norm():
    """One huge gradient after a thousand small ones moves no more than its clipped size allows."""
    weight = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    optimizer = LaProp([weight], 1e-3, agc=0.3)
    weight.grad = torch.tensor([300.0, 400.0])
    assert optimizer._clipped([weight])[0].norm().item() == pytest.approx(1.5)
    weight.grad = torch.tensor([0.3, 0.4])
    assert torch.equal(optimizer._clipped([weight])[0], weight.grad)
    zero = torch.nn.Parameter(torch.zeros(2))
    zero.grad = torch.tensor([1.0, 0.0])
    assert optimizer._clipped([zero])[0].norm().item() == pytest.approx(0.3e-3)


def test_it_minimises_and_resumes_exactly():
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(5))
    optimizer = LaProp([weight], 0.05, warmup_steps=10)
    for turn in range(300):
        if turn == 150:
            state, optimizer = optimizer.state_dict(), LaProp([weight], 0.05, warmup_steps=10)
            optimizer.load_state_dict(state)
        optimizer.zero_grad()
        weight.square().sum().backward()
        optimizer.step()
    assert weight.abs().max() < 0.1


def test_senseless_numbers_are_refused():
    with pytest.raises(ConfigError, match="LaProp"):
        LaProp([torch.nn.Parameter(torch.ones(1))], 0.1, agc=0.0)
