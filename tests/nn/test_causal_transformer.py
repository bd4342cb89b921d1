"""Causal attention: what a token sees, and that nothing else changes it."""

import pytest
import torch

from rl_lightning.errors import ConfigError
from rl_lightning.nn.torsos.causal_transformer import CausalTransformer


def made(**options):
    torch.manual_seed(0)
    return CausalTransformer(**{"embed_dim": 8, "num_heads": 2, "num_layers": 2, **options}).eval()


def test_a_token_sees_those_before_it_and_no_later_one():
    net, tokens, valid = made(), torch.randn(2, 6, 8), torch.ones(2, 6, dtype=torch.bool)
    changed = tokens.clone()
    changed[:, 3] = torch.randn(8)
    before, after = net(tokens, valid), net(changed, valid)
    assert torch.equal(before[:, :3], after[:, :3])
    assert ((before - after)[:, 3:].abs().amax(-1) > 1e-4).all()


def test_tokens_that_do_not_count_are_not_seen_and_give_numbers():
    net, tokens = made(), torch.randn(2, 6, 8)
    valid = torch.tensor([[False, False, True, True, True, True]] * 2)
    changed = tokens.clone()
    changed[:, :2] = 9.0
    before, after = net(tokens, valid), net(changed, valid)
    torch.testing.assert_close(before[:, 2:], after[:, 2:])
    assert torch.isfinite(after).all()


def test_heads_must_divide_the_width():
    with pytest.raises(ConfigError, match="num_heads must divide"):
        made(num_heads=3)
