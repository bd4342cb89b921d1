"""A squashed sample in one step against its twin in many."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rl_lightning.kernels.squashed_gaussian import squashed_gaussian, squashed_gaussian_twin
from rl_lightning.nn.heads.actors import SquashedGaussianActor
from rl_lightning.nn.mlp import MLP

BOUNDS = (-5.0, 2.0)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 100), st.sampled_from([0.1, 1.0, 5.0]), st.integers(1, 4))
def test_values_and_gradients_are_the_twins(seed, size, actions):
    torch.manual_seed(seed)
    out, noise = (size * torch.randn(6, 2 * actions)).requires_grad_(), torch.randn(6, actions)
    by_action, by_log_prob = torch.randn(6, actions), torch.randn(6)
    found = []
    for function in (squashed_gaussian, squashed_gaussian_twin):
        action, log_prob = function(out, noise, BOUNDS)
        (grad,) = torch.autograd.grad((action * by_action).sum() + (log_prob * by_log_prob).sum(), out)
        found.append((action, log_prob, grad))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-3)


def test_either_output_may_be_left_out_of_the_loss():
    out, noise = torch.randn(5, 4, requires_grad=True), torch.randn(5, 2)
    for k in range(2):
        grads = [
            torch.autograd.grad(function(out, noise, BOUNDS)[k].sum(), out)[0]
            for function in (squashed_gaussian, squashed_gaussian_twin)
        ]
        torch.testing.assert_close(*grads, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("hooked", [False, True])
def test_an_actors_sample_is_that_of_its_mean_and_deviation(hooked):
    torch.manual_seed(0)
    actor, obs, called = SquashedGaussianActor(MLP((3,), [8], "relu"), 2), torch.randn(6, 3), []
    if hooked:
        actor.register_forward_hook(lambda *_: called.append(1))
    action, log_prob = actor.sample(obs, torch.Generator().manual_seed(1))
    noise = torch.randn(6, 2, generator=torch.Generator().manual_seed(1))
    mean, log_std = actor(obs)
    torch.testing.assert_close(action, (mean + log_std.exp() * noise).tanh())
    assert log_prob.shape == (6,) and len(called) == 2 * hooked
