"""Products by oneDNN are those of full precision, for any layout in memory."""

import pytest
import torch

from rl_lightning.kernels.product import ENOUGH, HAS_ONEDNN, affine, product


@pytest.mark.parametrize("sizes", [(256, 256, 256), (3, 5, 7), (300, 64, 100), (11, 256, 400)], ids=str)
@pytest.mark.parametrize("transposed", [False, True])
def test_products_round_as_fp32_does(sizes, transposed):
    m, k, n = sizes
    left, right = torch.randn(m, k), torch.randn(k, n)
    if transposed:
        left, right = left.t().contiguous().t(), right.t().contiguous().t()
    exact = left.double() @ right.double()
    assert (product(left, right) - exact).abs().max() < 2e-6 * exact.abs().max()
    bias = torch.randn(n)
    assert (affine(left, right.t(), bias) - exact - bias).abs().max() < 2e-6 * exact.abs().max()


@pytest.mark.skipif(not HAS_ONEDNN, reason="this torch is built without oneDNN")
def test_the_operator_that_torch_2_13_has_is_there_and_repeats_itself():
    left, right = torch.randn(256, 256), torch.randn(256, 256)
    assert left.shape[0] * right.numel() >= ENOUGH
    assert torch.equal(product(left, right), product(left.clone(), right.clone()))
