"""RMS norm in one step against torch's own."""

import pytest
import torch

from rl_lightning.kernels.rms_norm import rms_norm, rms_norm_twin


@pytest.mark.parametrize("shape", [(6,), (5, 6), (3, 5, 6)], ids=str)
def test_values_and_gradients_are_the_twins(shape):
    x, weight = torch.randn(4, *shape, requires_grad=True), torch.rand(6, requires_grad=True)
    ours, theirs = rms_norm(x, weight, 1e-3), rms_norm_twin(x, weight, 1e-3)
    torch.testing.assert_close(ours, theirs)
    probe = torch.randn_like(x)
    for found, expected in zip(
        *(torch.autograd.grad((out * probe).sum(), (x, weight)) for out in (ours, theirs)), strict=True
    ):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
