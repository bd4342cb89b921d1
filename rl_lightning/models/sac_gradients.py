"""SAC's losses with their gradients, written out for plain ReLU networks.

Of an update of two layers of 256 on a CPU a good part is autograd's bookkeeping. The arithmetic is that of
`algorithms/sac.py`, where the losses stand as a reader expects them; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Sequence
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


class ActorPass(NamedTuple):
    """What the actor does in some rows, and what it takes to go back through it."""

    action: Tensor  # [B, A]
    log_prob: Tensor  # [B]
    spread: Tensor  # [B, A] the noise as scaled
    log_std: Tensor  # [B, A]
    entered: list[Tensor]  # what entered each layer


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
def actor_passes(actor: SquashedGaussianActor, obs: Sequence[Tensor], noise: Tensor) -> list[ActorPass]:
    """An action for each observation and its log-probability: one pass for all.  K x [B, O], [K, B, A]"""
    out, entered = relu_forward(_layers(_tensors(actor)), torch.cat(tuple(obs)))
    mean, raw = out.chunk(2, -1)
    log_std = bounded_log_std(raw, actor.log_std_bounds)
    action, log_prob, spread = squash(mean, log_std, noise.flatten(0, 1))
    parts = (action, log_prob, spread, log_std, *entered)
    each = zip(*(part.split(noise.shape[1]) for part in parts), strict=True)
    return [ActorPass(done, density, far, wide, inside) for done, density, far, wide, *inside in each]


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
    actor: SquashedGaussianActor, q: QEnsemble, done: ActorPass, alpha: Tensor, lowest: bool
) -> ActorStep:
    """Temperature times log-probability, minus the value of the lowest critic or, without `lowest`, of the mean."""
    action, log_prob, spread, log_std, entered = done
    obs = entered[0]
    rows, width = obs.shape
    params = _tensors(actor)
    layers, grads = _layers(params), [torch.empty_like(p) for p in params]

    x = torch.cat((obs, action), -1)
    critics = _members(q.tensors())
    passes = [relu_forward(critic, x) for critic in critics]
    each = torch.cat([value for value, _ in passes], 1)  # [B, E]
    by_action = torch.zeros_like(action)
    if lowest:
        value, which = each.min(1)
        by_value = torch.full_like(each[:, :1], -1.0 / rows)
        for k, (critic, (_, inside)) in enumerate(zip(critics, passes, strict=True)):
            mine = (which == k).nonzero()[:, 0]  # a row goes back through its lowest critic alone
            by_given = relu_backward(critic, [part[mine] for part in inside], by_value[: len(mine)])
            by_action.index_copy_(0, mine, torch.mm(by_given, critic[0][0][width:].t()))
    else:
        value, by_value = each.mean(1), torch.full_like(each[:, :1], -1.0 / each.numel())
        for critic, (_, inside) in zip(critics, passes, strict=True):
            by_action.addmm_(relu_backward(critic, inside, by_value), critic[0][0][width:].t())

    by_mean, by_log_std = squash_backward(action, spread, by_action, (alpha / rows).expand(rows))
    by_raw = by_log_std.mul_(bounded_log_std_slope(log_std, actor.log_std_bounds))
    relu_backward(layers, entered, torch.cat((by_mean, by_raw), -1), _layers(grads))
    loss = alpha * log_prob.mean() - value.mean()
    return ActorStep(loss, log_prob, grads)
