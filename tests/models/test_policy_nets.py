"""Policies that travel: rebuilt from plain words and a file, they act as in the stage that made them."""

import json

import pytest
import torch
from safetensors.torch import save_file

from rl_lightning.algorithms import SAC
from rl_lightning.artifacts import load_exported
from rl_lightning.models.policies import (
    CategoricalPolicy,
    DeterministicPolicy,
    ObsNormalizer,
    SquashedGaussianPolicy,
    TanhGaussianPolicy,
)
from rl_lightning.types import EnvSpec

KINDS = [DeterministicPolicy, SquashedGaussianPolicy, TanhGaussianPolicy, CategoricalPolicy]
OBS = torch.randn(32, 3, generator=torch.Generator().manual_seed(0))


def made(kind, **options):
    torch.manual_seed(0)
    net = kind(3, 2, [16], **options)
    if isinstance(net.norm, ObsNormalizer):
        net.norm.fit(5 + OBS)
    return net


@pytest.mark.parametrize("normalize_obs", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_artifact_holds_all_that_acting_needs(kind, normalize_obs, tmp_path):
    net = made(kind, normalize_obs=normalize_obs, activation="silu", layer_norm=True)
    save_file({f"policy.{k}": v for k, v in net.state_dict().items()}, tmp_path / "weights.safetensors")
    about = {"exports": {"policy": net.exported("policy.")._asdict()}}
    (tmp_path / "artifact.json").write_text(json.dumps(about))
    loaded = load_exported(tmp_path, "policy")
    assert torch.equal(loaded.greedy(OBS), net.greedy(OBS))
    draws = [each.sample(OBS, torch.Generator().manual_seed(4)) for each in (loaded, net)]
    assert torch.equal(*draws)
    assert not any(p.requires_grad for p in loaded.parameters())


@pytest.mark.parametrize("kind", KINDS[:3])
def test_continuous_actions_lie_within_bounds(kind):
    net = made(kind)
    for action in (net.greedy(100 * OBS), net.sample(100 * OBS, torch.Generator().manual_seed(0))):
        assert action.shape == (32, 2) and action.abs().max() <= 1.0


def test_the_weights_of_sacs_actor_fit_the_squashed_policy():
    sac = SAC(EnvSpec("e", (3,), action_shape=(2,)))
    net = SquashedGaussianPolicy(3, 2, [256, 256])
    net.load_state_dict(sac.actor.state_dict())
    assert torch.equal(net.greedy(OBS), sac.act(OBS, (), None)[0])
    for ours, theirs in zip(net(OBS), sac.actor(OBS), strict=True):
        assert torch.equal(ours, theirs)


def test_log_densities_of_the_two_gaussians():
    action = torch.full((32, 2), 0.3)
    tanh = made(TanhGaussianPolicy)
    mean, log_std = tanh(OBS)
    normal = torch.distributions.Normal(mean, log_std.exp().expand_as(mean))
    torch.testing.assert_close(tanh.log_prob(OBS, action), normal.log_prob(action).sum(-1))
    squashed = made(SquashedGaussianPolicy)
    mean, log_std = squashed(OBS)
    normal = torch.distributions.Normal(mean, log_std.exp())
    expected = (normal.log_prob(action.atanh()) - torch.log1p(-action.square())).sum(-1)
    torch.testing.assert_close(squashed.log_prob(OBS, action), expected, atol=1e-4, rtol=1e-4)
