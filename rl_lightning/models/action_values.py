"""What critics think of many actions at each state, and the actions that conservative rules ask them about."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from rl_lightning.models.policies import SquashedGaussianPolicy


def q_of_each(critics: nn.Module, obs: Tensor, action: Tensor) -> Tensor:
    """[B, O], [B, K, A] -> [E, B, K]"""
    rows = obs.unsqueeze(1).expand(-1, action.shape[1], -1)
    return critics(rows.flatten(0, 1), action.flatten(0, 1)).unflatten(-1, action.shape[:2])


@torch.no_grad()
def drawn_actions(
    policy: SquashedGaussianPolicy, obs: Tensor, next_obs: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    """CQL's actions at each state: uniform ones, the policy's there, and the policy's at the next state, each with the
    log-density that it was drawn with.  [B, O] twice -> [B, 3N, A], [B, 3N]"""
    here, log_here = policy.sample_with_log_prob(obs, count)
    there, log_there = policy.sample_with_log_prob(next_obs, count)
    uniform = torch.rand_like(here) * 2.0 - 1.0
    log_uniform = torch.full_like(log_here, -here.shape[-1] * math.log(2.0))
    return torch.cat((uniform, here, there), 1), torch.cat((log_uniform, log_here, log_there), 1)


def q_and_action_grads(critics: nn.Module, obs: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
    """Values, and their gradients by the action, which lead on into the critics' weights. Each critic is given actions
    of its own, or it would see the sum of all gradients.  [B, O], [B, A] -> [E, B], [E, B, A]"""
    members = int(critics.ensemble_size)  # type: ignore[arg-type]
    own = action.detach().repeat(members, 1, 1).requires_grad_()
    q = critics(obs.expand(members, *obs.shape), own)
    return q, torch.autograd.grad(q.sum(), own, create_graph=True)[0]
