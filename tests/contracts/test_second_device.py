"""What is counted, on modules small enough to count by hand."""

import pytest
import torch
from contracts.second_device import FAR, Far, second_device
from torch import nn


class Tidy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.memory = nn.Linear(2, 2), nn.LSTM(2, 2)
        self.register_buffer("scale", torch.tensor([1.0, 2.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.memory(self.layer(x) * self.scale)[0]


class Mixing(Tidy):
    def __init__(self) -> None:
        super().__init__()
        self.scale = self.scale.clone()
        del self._buffers["scale"]
        self.__dict__["scale"] = torch.tensor([1.0, 2.0])  # no buffer: it stays behind


def test_a_module_that_keeps_to_its_device_has_the_numbers_of_the_cpu():
    torch.manual_seed(0)
    module, x = Tidy(), torch.randn(3, 2)
    here = module(x)
    grads = torch.autograd.grad(here.sum(), list(module.parameters()))
    with second_device() as traffic:
        module.to(FAR)
        there = module(x.to(FAR))
        assert traffic.copies.total() == 7 + 1, "seven tensors of the module and one of the batch"
        moved = torch.autograd.grad(there.sum(), list(module.parameters()))
        assert not traffic.mixed and not traffic.waits
        optimizer = torch.optim.Adam(module.parameters())
        for value, grad in zip(module.parameters(), moved, strict=True):
            value.grad = grad
        optimizer.step()
        assert not traffic.mixed
    torch.testing.assert_close(there.near, here)
    for one, other in zip(moved, grads, strict=True):
        assert isinstance(one, Far)
        torch.testing.assert_close(one.near, other)


def test_a_module_that_mixes_is_found():
    with second_device() as traffic:
        Mixing().to(FAR)(torch.ones(3, 2).to(FAR))
    assert [key.split()[0] for key in traffic.mixed] == ["mul"]


@pytest.mark.parametrize(
    ("look", "waits"),
    [
        (lambda x: x.sum().item(), 1),
        (lambda x: bool((x > 0).all()), 1),
        (lambda x: x.tolist(), 1),
        (lambda x: x.cpu(), 1),
        (lambda x: x[x > 0], 1),
        (lambda x: x.nonzero(), 1),
        (lambda x: x.masked_fill(x > 0, 1.0) + 2.0, 0),
        (lambda x: x[torch.zeros(2, dtype=torch.long, device=FAR)], 0),
    ],
)
def test_waiting_is_counted(look, waits):
    with second_device() as traffic:
        x = torch.ones(3, device=FAR)
        look(x)
    assert traffic.waits.total() == waits and not traffic.copies and not traffic.mixed


def test_copies_are_counted():
    with second_device() as traffic:
        x = torch.zeros(3, device=FAR)
        torch.tensor([1.0, 2.0], device=FAR)
        x.copy_(torch.ones(3))
        x[torch.tensor([0, 1])]
    assert traffic.copies.total() == 3 and not traffic.waits and not traffic.mixed


def test_who_draws_must_live_where_it_draws():
    with second_device() as traffic:
        torch.randn(3, device=FAR, generator=torch.Generator(FAR).manual_seed(0))
        torch.randn(3, generator=torch.Generator())
        assert not traffic.mixed
        torch.randn(3, device=FAR, generator=torch.Generator())
    assert traffic.mixed.total() == 1
