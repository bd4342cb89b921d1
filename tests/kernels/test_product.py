"""Products by oneDNN are those of full precision, for any layout in memory."""

import pytest
import torch

from rl_lightning.kernels.product import ENOUGH, ENOUGH_TANH, HAS_ONEDNN, affine, affine_tanh, product


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


@pytest.mark.parametrize("rows", [8, 300])
def test_a_tanh_layer_is_as_exact_as_torchs(rows):
    """Saturated and tiny inputs too; 8 rows take torch's own tanh, 300 that of oneDNN."""
    x, weight, bias = torch.randn(rows, 20) * 3, torch.randn(64, 20), torch.randn(64)
    x[: rows // 2] *= 1e-4
    assert (rows * 64 >= ENOUGH_TANH) == (rows == 300)
    exact = (x.double() @ weight.double().t() + bias).tanh()
    torchs = torch.nn.functional.linear(x, weight, bias).tanh()
    ours = affine_tanh(x, weight, bias)
    assert (ours - exact).abs().max() < 2.0 * (torchs - exact).abs().max() + 1e-6
    assert torch.equal(ours, affine_tanh(x.clone(), weight, bias))
