"""Denoisers: sizes, shapes, what may be shared between candidates, and the guide's written-out gradient."""

from functools import partial

import pytest
import torch

from rl_lightning.errors import ConfigError
from rl_lightning.models.described import describe, rebuild
from rl_lightning.nn.denoisers.guide_net import GuideNet
from rl_lightning.nn.denoisers.row_denoisers import DenoiserFactory, MLPDenoiser, ResidualDenoiser
from rl_lightning.nn.denoisers.sequence_denoisers import TransformerDenoiser, UNetDenoiser

FLAT = [
    partial(ResidualDenoiser, down_dims=[32, 16, 8], embed_dim=16, time_embed_dim=8),
    partial(ResidualDenoiser, down_dims=[16], embed_dim=8, time_embed_dim=8),
    partial(MLPDenoiser, hidden_dims=[16, 16], time_embed_dim=8),
]
LONG = [
    *FLAT,
    partial(UNetDenoiser, down_dims=[8, 16], kernel_size=3, num_groups=4, time_embed_dim=8),
    partial(UNetDenoiser, down_dims=[8], kernel_size=3, num_groups=4, time_embed_dim=8),
    partial(TransformerDenoiser, embed_dim=16, num_heads=2, num_layers=2, dropout=0.0),
]
SHAPES = [((3,), recipe) for recipe in FLAT] + [((8, 3), recipe) for recipe in LONG]


def count(net):
    return sum(parameter.numel() for parameter in net.parameters())


def test_the_papers_network_has_its_parameters():
    """Hopper: 11 observations, 3 actions; the random frequencies are no parameters."""
    assert count(ResidualDenoiser((3,), 11)) == 1_627_939
    assert count(GuideNet(3, 11, [256] * 4)) == 210_721


@pytest.mark.parametrize(
    ("event", "recipe"), SHAPES, ids=lambda v: getattr(getattr(v, "func", None), "__name__", "")
)
def test_candidates_that_share_time_and_condition_get_what_each_alone_gets(event, recipe):
    torch.manual_seed(0)
    net = recipe(event, 5).eval()
    x, cond = torch.randn(2, 4, *event), torch.randn(2, 1, 5)
    together = net(x, torch.full((1, 1), 0.3), cond)
    assert together.shape == x.shape
    rows = cond.expand(2, 4, 5).reshape(8, 5)
    alone = net(x.reshape(8, *event), torch.full((8,), 0.3), rows).reshape(x.shape)
    assert torch.allclose(together, alone, atol=1e-5)


@pytest.mark.parametrize(
    ("event", "recipe"), SHAPES, ids=lambda v: getattr(getattr(v, "func", None), "__name__", "")
)
def test_time_and_condition_matter_and_every_parameter_learns(event, recipe):
    torch.manual_seed(0)
    net = recipe(event, 5)
    x, t, cond = torch.randn(6, *event), torch.rand(6), torch.randn(6, 5)
    found = net(x, t, cond)
    assert not torch.allclose(found, net(x, t.flip(0), cond)) and not torch.allclose(
        found, net(x, t, cond.flip(0))
    )
    gradients = torch.autograd.grad(found.square().sum(), list(net.parameters()), allow_unused=True)
    assert all(gradient is not None and gradient.abs().sum() > 0 for gradient in gradients)


@pytest.mark.parametrize(
    ("event", "recipe"), SHAPES, ids=lambda v: getattr(getattr(v, "func", None), "__name__", "")
)
def test_recipes_are_written_down_and_read_again(event, recipe):
    again = rebuild(describe(recipe), "the denoiser", DenoiserFactory)
    assert again.func is recipe.func and again.keywords.items() >= recipe.keywords.items()


def test_a_causal_transformer_does_not_look_ahead():
    torch.manual_seed(0)
    net = TransformerDenoiser((6, 2), 3, embed_dim=16, num_heads=2, num_layers=2, dropout=0.0).eval()
    x, t, cond = torch.randn(1, 6, 2), torch.rand(1), torch.randn(1, 3)
    changed = x.clone()
    changed[:, 4:] += 1.0
    before, after = net(x, t, cond), net(changed, t, cond)
    assert torch.allclose(before[:, :4], after[:, :4], atol=1e-6) and not torch.allclose(
        before[:, 4:], after[:, 4:]
    )


def test_the_guides_gradient_is_autograds_also_in_inference_mode():
    torch.manual_seed(0)
    net = GuideNet(3, 5, [16, 16, 16], 8).double()
    x, obs = torch.randn(4, 7, 3, dtype=torch.float64), torch.randn(4, 1, 5, dtype=torch.float64)
    t = torch.full((1, 1), 0.4, dtype=torch.float64)
    leaf = x.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(net(leaf, t, obs).sum(), leaf)
    with torch.inference_mode():
        found = net.gradient(x, t, obs)
    assert torch.allclose(found, wanted, atol=1e-12)


def test_a_guide_of_one_layer_has_a_gradient_too():
    net = GuideNet(2, 3, [8], 4)
    leaf = torch.randn(5, 2, requires_grad=True)
    t, obs = torch.rand(5), torch.randn(5, 3)
    (wanted,) = torch.autograd.grad(net(leaf, t, obs).sum(), leaf)
    assert torch.allclose(net.gradient(leaf.detach(), t, obs), wanted, atol=1e-6)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: ResidualDenoiser((6, 2), 3, down_dims=[0]),
        lambda: MLPDenoiser((6, 2), 3, activation="nope"),
        lambda: UNetDenoiser((6, 2), 3, kernel_size=4),
        lambda: UNetDenoiser((6, 2), 3, down_dims=[8], num_groups=3),
        lambda: UNetDenoiser((6, 2), 3, down_dims=[8, 8, 8], num_groups=8),
        lambda: UNetDenoiser((2,), 3),
        lambda: TransformerDenoiser((6, 2), 3, embed_dim=10, num_heads=4),
    ],
)
def test_nonsense_is_refused(bad):
    with pytest.raises(ConfigError):
        bad()
