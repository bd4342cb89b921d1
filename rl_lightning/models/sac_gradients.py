"""SAC's losses with their gradients, written out for plain ReLU networks.

Of an update of two layers of 256 on a CPU a good part is autograd's bookkeeping. The arithmetic is that of
`algorithms/online/sac.py`, where the losses stand as a reader expects them; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rl_lightning.functional.action_distributions import squash, squash_backward
from rl_lightning.kernels.relu_mlp import Layers, layer, relu_backward, relu_forward
from rl_lightning.nn.ensemble import EnsembleLinear
from rl_lightning.nn.heads.actors import SquashedGaussianActor, bounded_log_std, bounded_log_std_slope
from rl_lightning.nn.heads.critics import QEnsemble
from rl_lightning.nn.mlp import MLPNet


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
    log_prob: Tensor  # its mean
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


def _actor_tensors(actor: SquashedGaussianActor) -> list[Tensor]:
    """Weights and biases of the actor's layers, in order."""
    layers = (*actor.torso.layers, actor.linear)  # type: ignore[misc]  # an MLPNet's are a Sequential
    return [p for layer in layers for p in layer._parameters.values() if p is not None]


def _members(tensors: Sequence[Tensor]) -> list[Layers]:
    """The layers of each member, from weights [E, I, O] and biases [E, 1, O] in turns."""
    each = [t.unbind(0) if k % 2 == 0 else t.squeeze(1).unbind(0) for k, t in enumerate(tensors)]
    return [_pairs(member) for member in zip(*each, strict=True)]


def _single(tensors: Sequence[Tensor]) -> list[Layers]:
    """Those of linear layers, whose weights are [O, I]."""
    return [_pairs([t.t() if k % 2 == 0 else t for k, t in enumerate(tensors)])]


def _pairs(tensors: Sequence[Tensor]) -> Layers:
    """Layers from weights [I, O] and biases [O] in turns."""
    return [layer(weight, bias) for weight, bias in zip(tensors[::2], tensors[1::2], strict=True)]


class _Views:
    """Networks of the same shape as views of their parameters, and gradients of those: made once, because making them
    takes as long as a product. They hold until the parameters' memory moves."""

    def __init__(self, tensors: list[Tensor], cut: Callable[[Sequence[Tensor]], list[Layers]]) -> None:
        self.tensors, self.places = tensors, [t.data_ptr() for t in tensors]
        self.networks = cut([t.detach() for t in tensors])
        self.grads = [torch.empty_like(t) for t in tensors]
        self.into = cut(self.grads)

    def hold(self) -> bool:
        return self.places == [t.data_ptr() for t in self.tensors]


class WrittenOut:
    """The networks of SAC, ready to be gone through there and back. Gradients are overwritten from step to step."""

    def __init__(self, actor: SquashedGaussianActor, q: QEnsemble, q_slow: QEnsemble) -> None:
        self.bounds = actor.log_std_bounds
        self.actor = _Views(_actor_tensors(actor), _single)
        self.q, self.q_slow = _Views(q.tensors(), _members), _Views(q_slow.tensors(), _members)
        width = len(self.actor.networks[0][0].weight)
        self.to_action = [critic[0].weight[width:].t() for critic in self.q.networks]  # [O, A] each

    def holds(self) -> bool:
        return self.actor.hold() and self.q.hold() and self.q_slow.hold()

    @torch.no_grad()
    def passes(self, obs: Sequence[Tensor], noise: Tensor) -> list[ActorPass]:
        """An action for each observation and its log-probability: one pass for all.  K x [B, O], [K, B, A]"""
        out, entered = relu_forward(self.actor.networks[0], torch.cat(tuple(obs)))
        mean, raw = out.chunk(2, -1)
        log_std = bounded_log_std(raw, self.bounds)
        action, log_prob, spread = squash(mean, log_std, noise.flatten(0, 1))
        parts = (action, log_prob, spread, log_std, *entered)
        each = zip(*(part.split(noise.shape[1]) for part in parts), strict=True)
        return [ActorPass(done, density, far, wide, inside) for done, density, far, wide, *inside in each]

    @torch.no_grad()
    def slow_values(self, obs: Tensor, action: Tensor) -> Tensor:
        """What every slow critic says.  [B, O], [B, A] -> [E, B]"""
        x = torch.cat((obs, action), -1)
        return torch.cat([relu_forward(critic, x)[0] for critic in self.q_slow.networks], 1).t()

    @torch.no_grad()
    def critic_step(self, obs: Tensor, action: Tensor, target: Tensor, weight: Tensor) -> CriticStep:
        """Half the weighted squared distance to the target, a mean over rows and a sum over critics."""
        x = torch.cat((obs, action), -1)
        told, errors, losses = [], [], []
        for critic, into in zip(self.q.networks, self.q.into, strict=True):
            value, entered = relu_forward(critic, x)
            told.append(value[:, 0])
            errors.append(told[-1] - target)
            by_value = errors[-1] * weight
            losses.append(torch.dot(by_value, errors[-1]))
            relu_backward(critic, entered, by_value.div_(len(x)).unsqueeze(1), into)
            del entered  # the next critic's take its place, which the cache still holds
        loss = torch.stack(losses).sum() * (0.5 / len(x))
        return CriticStep(loss, torch.stack(told), torch.stack(errors), self.q.grads)

    @torch.no_grad()
    def actor_step(self, done: ActorPass, alpha: Tensor, lowest: bool) -> ActorStep:
        """Temperature times log-probability, minus the value of the lowest critic or, without `lowest`, of the mean."""
        action, log_prob, spread, log_std, entered = done
        rows = len(action)
        x = torch.cat((entered[0], action), -1)
        critics = self.q.networks
        passes = [relu_forward(critic, x) for critic in critics]
        each = torch.cat([value for value, _ in passes], 1)  # [B, E]
        by_action = torch.zeros_like(action)
        if lowest:
            value, which = each.min(1)
            by_value = torch.full_like(each[:, :1], -1.0 / rows)
            for k, (critic, (_, inside)) in enumerate(zip(critics, passes, strict=True)):
                mine = (which == k).nonzero()[:, 0]  # a row goes back through its lowest critic alone
                some = [x, *(part.index_select(0, mine) for part in inside[1:])]
                by_given = relu_backward(critic, some, by_value[: len(mine)])
                by_action.index_copy_(0, mine, torch.mm(by_given, self.to_action[k]))
        else:
            value, by_value = each.mean(1), torch.full_like(each[:, :1], -1.0 / each.numel())
            for k, (critic, (_, inside)) in enumerate(zip(critics, passes, strict=True)):
                by_action.addmm_(relu_backward(critic, inside, by_value), self.to_action[k])

        by_mean, by_log_std = squash_backward(action, spread, by_action, (alpha / rows).expand(rows))
        by_raw = by_log_std.mul_(bounded_log_std_slope(log_std, self.bounds))
        by_out = torch.cat((by_mean, by_raw), -1)
        relu_backward(self.actor.networks[0], entered, by_out, self.actor.into[0])
        mean = log_prob.mean()
        return ActorStep(alpha * mean - value.mean(), mean, self.actor.grads)
