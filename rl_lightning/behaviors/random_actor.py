"""An actor that chooses uniformly among the legal actions: prefill, baseline, and the lower bar of every table."""

from __future__ import annotations

import torch
from torch import Tensor

from rl_lightning.errors import ConfigError
from rl_lightning.rollout.collect import ActFn
from rl_lightning.types import Carry, EnvSpec


def random_actor(spec: EnvSpec) -> ActFn:
    """Ignores what it sees. Draws from `explore`, and from a fixed generator where it is None."""
    fallback = torch.Generator().manual_seed(0)

    def act(
        obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        generator, n = generator or fallback, len(obs)
        if spec.action_kind == "continuous":
            return torch.empty((n, *spec.action_shape)).uniform_(-1.0, 1.0, generator=generator), carry
        if mask is None and spec.action_kind == "discrete":
            return torch.randint(spec.action_sizes[0], (n,), generator=generator), carry
        legal = torch.ones(n, spec.action_dim) if mask is None else mask.float()
        columns = [
            torch.multinomial(part, 1, generator=generator) for part in legal.split(spec.action_sizes, 1)
        ]
        action = torch.cat(columns, 1)
        return (action if spec.action_kind == "multi_discrete" else action[:, 0]), carry

    return act


def check_noise(spec: EnvSpec, where: str = "exploration_noise") -> None:
    if spec.action_kind != "continuous":
        raise ConfigError(f"{where} needs continuous actions; {spec.env_id} has discrete ones")


def with_action_noise(act: ActFn, scale: float, spec: EnvSpec) -> ActFn:
    """The same actor with Gaussian noise on its continuous actions, kept within the bounds."""
    check_noise(spec)

    def noisy(
        obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        action, carry = act(obs, carry, generator, mask)
        if generator is None:
            return action, carry
        noise = torch.randn(action.shape, generator=generator).to(action.device)
        return (action + scale * noise).clamp(-1.0, 1.0), carry

    return noisy
