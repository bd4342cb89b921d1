"""Products by oneDNN: looked at before they are taken, and given back afterwards."""

import pytest
import torch
from torch import nn

from rl_lightning.kernels import matmul
from rl_lightning.kernels.matmul import MatmulProbe, onednn_products, probe, product_sizes


def test_the_choice_ends_with_its_block():
    before = torch.get_float32_matmul_precision()
    with pytest.raises(KeyError), onednn_products():
        assert torch.get_float32_matmul_precision() == "medium"
        raise KeyError
    assert torch.get_float32_matmul_precision() == before


def test_sizes_are_those_of_the_largest_layers():
    net = nn.Sequential(nn.Linear(8, 300), nn.Linear(300, 400), nn.Linear(400, 300), nn.Conv2d(3, 600, 3))
    net.register_parameter("ensemble", nn.Parameter(torch.empty(5, 200, 100)))
    assert product_sizes(net, 256) == [(256, 300, 400), (256, 400, 300), (256, 100, 200)]
    assert product_sizes(net, 256, most=1) == [(256, 300, 400)]
    assert product_sizes(net, 2) == []


def test_a_probe_tells_error_and_speed(monkeypatch):
    monkeypatch.setattr(matmul, "ROUNDS", 1)
    measured = probe([(64, 128, 128), (32, 64, 200)])
    assert 0.0 < measured.error < 1e-2 and measured.speedup > 0.0


def test_half_precision_is_seen(monkeypatch):
    """As on a CPU whose oneDNN takes the permission to round."""
    linear = nn.functional.linear

    def rounded(x, weight):
        exact = torch.get_float32_matmul_precision() != "medium"
        return linear(x, weight) if exact else linear(x.bfloat16(), weight.bfloat16()).float()

    monkeypatch.setattr(matmul, "ROUNDS", 1)
    monkeypatch.setattr(nn.functional, "linear", rounded)
    measured = probe([(64, 128, 128)])
    assert measured.error > 1e-4 and not measured.exact and not measured.pays


@pytest.mark.parametrize(
    ("speedup", "error", "pays"), [(1.5, 6e-7, True), (1.05, 6e-7, False), (3.0, 1e-3, False)]
)
def test_what_pays_is_quicker_and_exact(speedup, error, pays):
    assert MatmulProbe(speedup, error).pays is pays
