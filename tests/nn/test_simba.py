"""SimBa: where the norm stands, how large it is, how it starts."""

import torch

from rl_lightning.nn.torsos.simba import SimBa, SimBaBlock


def test_a_block_sees_its_input_without_scale_and_shift():
    """The norm is first: f(c x) - c x = f(x) - x, and the same of a shift."""
    torch.manual_seed(0)
    block, x = SimBaBlock(8).double(), torch.randn(5, 8).double()
    block.norm.eps = 0.0
    change = block(x) - x
    torch.testing.assert_close(block(3.0 * x) - 3.0 * x, change)
    torch.testing.assert_close(block(x + 2.0) - (x + 2.0), change)


def test_features_are_normalised_at_the_end():
    torch.manual_seed(0)
    features = SimBa(5, hidden_dim=64, num_blocks=2)(torch.randn(7, 5))
    torch.testing.assert_close(features.mean(-1), torch.zeros(7), atol=1e-5, rtol=0)
    torch.testing.assert_close(features.var(-1, correction=0), torch.ones(7), atol=1e-3, rtol=0)


def test_a_block_has_eight_squares_of_weights():
    assert sum(p.numel() for p in SimBaBlock(16).parameters() if p.ndim == 2) == 8 * 16**2


def test_observations_of_any_shape_and_rows_in_any_number():
    net = SimBa((2, 3), hidden_dim=4)
    assert net(torch.zeros(6, 5, 2, 3)).shape == (6, 5, 4)
    assert SimBa(3, hidden_dim=4)(torch.zeros(3)).shape == (4,)
