"""Recurrent cores under mixed precision: the state stays in full precision, and stays finite."""

from functools import partial

import pytest
import torch

from rl_lightning.nn.rssm_cores import BlockGRUCore, GRUCore, NormGRUCore


@pytest.mark.parametrize(
    "make",
    [
        partial(GRUCore, deter=8, hidden_dim=8),
        partial(NormGRUCore, deter=8, hidden_dim=8),
        partial(BlockGRUCore, deter=8, hidden_dim=8, blocks=2),
    ],
)
def test_a_core_steps_in_half_precision(make):
    torch.manual_seed(0)
    core = make(4, 2)
    h, z, action = torch.randn(3, 8), torch.randn(3, 4), torch.randn(3, 2)
    expected = core.step(h, z, core.project(action), core.weights())
    with torch.autocast("cpu", torch.bfloat16):
        found = core.step(h, z, core.project(action), core.weights())
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=0.05, atol=0.05)
