"""SAC's losses with their gradients, written out for plain ReLU networks.

Of an update of two layers of 256 on a CPU a good part is autograd's bookkeeping. The arithmetic is that of
`algorithms/sac.py`, where the losses stand as a reader expects them; a test holds the two together.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from rl_lightning.functional.policy import squash, squash_backward
from rl_lightning.functional.relu_net import Layers, relu_backward, relu_forward
from rl_lightning.networks.actors import SquashedGaussianActor, bounded_log_std, bounded_log_std_slope
from rl_lightning.networks.critics import QEnsemble
from rl_lightning.networks.ensemble import EnsembleLinear
from rl_lightning.networks.mlp import MLPNet


class CriticStep(NamedTuple):
    """A loss of the critics, and what it does to them."""

    loss: Tensor
    q: Tensor  # [E, B]
    error: Tensor  # [E, B]
    grads: list[Tensor]  # in the order of the critics' parameters


class ActorStep(NamedTuple):
    """A loss of the actor, and what it does to it."""

    loss: Tensor
    log_prob: Tensor  # [B]
    grads: list[Tensor]  # in the order of the actor's parameters


def can_write_out(actor: SquashedGaussianActor, q: QEnsemble) -> bool:
    """Whether both are linear layers and ReLUs by turns, and nothing else."""
    torso = actor.torso
    return (
        isinstance(torso, MLPNet)
        and torso.obs_dims == 1
        and q.torso is None
        and _by_turns(list(torso.layers.children()), nn.Linear)
        and _by_turns(list(q.layers)[:-1], EnsembleLinear)
    )


def _by_turns(layers: list[nn.Module], linear: type[nn.Module]) -> bool:
    return all(isinstance(layer, nn.ReLU if k % 2 else linear) for k, layer in enumerate(layers))


def _tensors(actor: SquashedGaussianActor) -> list[Tensor]:
    """Weights and biases of the actor's layers, in order."""
    layers = (*actor.torso.layers, actor.linear)  # type: ignore[misc]  # an MLPNet's are a Sequential
    return [p for layer in layers for p in layer._parameters.values() if p is not None]


def _members(tensors: list[Tensor]) -> list[Layers]:
    """The layers of each member, from weights [E, I, O] and biases [E, 1, O] in turns."""
    each = [t.unbind(0) if k % 2 == 0 else t.squeeze(1).unbind(0) for k, t in enumerate(tensors)]
    return [list(zip(member[::2], member[1::2], strict=True)) for member in zip(*each, strict=True)]


def _layers(tensors: list[Tensor]) -> Layers:
    """Those of linear layers, whose weights are [O, I]."""
    return [(w.t(), b) for w, b in zip(tensors[::2], tensors[1::2], strict=True)]


@torch.no_grad()
def policy(actor: SquashedGaussianActor, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """An action and its log-probability."""
    mean, raw = relu_forward(_layers(_tensors(actor)), obs)[0].chunk(2, -1)
    return squash(mean, bounded_log_std(raw, actor.log_std_bounds), noise)[:2]


@torch.no_grad()
def values(q: QEnsemble, obs: Tensor, action: Tensor) -> Tensor:
    """What every critic says.  [B, O], [B, A] -> [E, B]"""
    x = torch.cat((obs, action), -1)
    return torch.stack([relu_forward(layers, x)[0][:, 0] for layers in _members(q.tensors())])


@torch.no_grad()
def critic_step(q: QEnsemble, obs: Tensor, action: Tensor, target: Tensor, weight: Tensor) -> CriticStep:
    """Half the weighted squared distance to the target, a mean over rows and a sum over critics."""
    x = torch.cat((obs, action), -1)
    params = q.tensors()
    grads = [torch.empty_like(p) for p in params]
    told, errors, losses = [], [], []
    for layers, into in zip(_members(params), _members(grads), strict=True):
        value, entered = relu_forward(layers, x)
        told.append(value[:, 0])
        errors.append(told[-1] - target)
        by_value = errors[-1] * weight
        losses.append(torch.dot(by_value, errors[-1]))
        relu_backward(layers, entered, by_value.div_(len(x)).unsqueeze(1), into)
        del entered  # the next critic's take its place, which the cache still holds
    loss = torch.stack(losses).sum() * (0.5 / len(x))
    return CriticStep(loss, torch.stack(told), torch.stack(errors), grads)


@torch.no_grad()
def actor_step(
    actor: SquashedGaussianActor, q: QEnsemble, obs: Tensor, noise: Tensor, alpha: Tensor, lowest: bool
) -> ActorStep:
    """Temperature times log-probability, minus the value of the lowest critic or, without `lowest`, of the mean."""
    rows, width = obs.shape
    params = _tensors(actor)
    layers, grads = _layers(params), [torch.empty_like(p) for p in params]
    out, seen = relu_forward(layers, obs)
    mean, raw = out.chunk(2, -1)
    log_std = bounded_log_std(raw, actor.log_std_bounds)
    action, log_prob, spread = squash(mean, log_std, noise)

    x = torch.cat((obs, action), -1)
    critics = _members(q.tensors())
    passes = [relu_forward(critic, x) for critic in critics]
    each = torch.cat([value for value, _ in passes], 1)  # [B, E]
    if lowest:
        value, which = each.min(1, keepdim=True)
        share = torch.zeros_like(each).scatter_(1, which, -1.0 / rows)
    else:
        value, share = each.mean(1, keepdim=True), torch.full_like(each, -1.0 / each.numel())
    by_action = torch.zeros_like(action)
    for critic, (_, entered), by_value in zip(critics, passes, share.split(1, 1), strict=True):
        by_action.addmm_(relu_backward(critic, entered, by_value), critic[0][0][width:].t())

    by_mean, by_log_std = squash_backward(action, spread, by_action, (alpha / rows).expand(rows))
    by_raw = by_log_std.mul_(bounded_log_std_slope(log_std, actor.log_std_bounds))
    relu_backward(layers, seen, torch.cat((by_mean, by_raw), -1), _layers(grads))
    loss = alpha * log_prob.mean() - value.mean()
    return ActorStep(loss, log_prob, grads)
