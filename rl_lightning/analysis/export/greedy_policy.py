"""A policy as one module with plain inputs and outputs, for a file that others run."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rl_lightning.analysis.export.exported_noise import GivenNoise
from rl_lightning.observations import ObsLayout
from rl_lightning.types import EnvSpec


class GreedyPolicy(nn.Module):
    """A module's action, as evaluation plays it, in the env's own scale; recurrent state goes in and out.

    Of a policy that draws its actions in evaluation the random numbers are an input, `noise`: standard normal ones.

    Args:
        model: The trained module.
        spec: What its env is like.
        rescale: Whether the env takes actions in [-1, 1] for its bounds.
    """

    low: Tensor
    high: Tensor

    def __init__(self, model: Any, spec: EnvSpec, rescale: bool = True) -> None:
        super().__init__()
        self.model, self.kind, self.masked, self.rescale = model, spec.action_kind, spec.action_mask, rescale
        self.carries, self.noise = len(model.initial_carry(1)), 0
        self.layout = (
            ObsLayout.of(spec.obs_parts) if spec.is_bytes else None
        )  # each part is an input of its own
        self.register_buffer("low", torch.tensor(spec.action_low or [0.0]))
        self.register_buffer("high", torch.tensor(spec.action_high or [0.0]))
        if not model.deterministic_eval:
            self.noise = self._count(torch.zeros(2, *spec.obs_shape, dtype=getattr(torch, spec.obs_dtype)))

    def _count(self, obs: Tensor) -> int:
        """Random numbers that one action takes."""
        with torch.no_grad(), GivenNoise() as draws:
            legal = self.inputs(obs)[1].bool() if self.masked else None
            self.model.act(obs, self.model.initial_carry(len(obs)), torch.Generator(), legal)
        return draws.used

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        inputs = list(given)
        obs: Any = self._parts(inputs) if self.layout else inputs.pop(0)
        mask = inputs.pop(0).bool() if self.masked else None
        if self.noise:
            with GivenNoise(inputs.pop(0)):
                action, carry = self.model.act(obs, tuple(inputs), torch.Generator(), mask)
        else:
            action, carry = self.model.act(obs, tuple(inputs), None, mask)
        return (self.own_scale(action), *carry)

    def _parts(self, inputs: list[Tensor]) -> dict[str, Tensor]:
        assert self.layout is not None
        return {part.name: inputs.pop(0) for part in self.layout.parts}

    def own_scale(self, action: Tensor) -> Tensor:
        """[-1, 1] onto the env's bounds where they are finite."""
        if self.kind != "continuous":
            return action
        finite = torch.isfinite(self.low) & torch.isfinite(self.high)
        if not self.rescale:
            return torch.maximum(torch.minimum(action, self.high), self.low)
        low, high = torch.where(finite, self.low, -1.0), torch.where(finite, self.high, 1.0)
        moved = (action.clamp(-1, 1) * ((high - low) / 2) + (high + low) / 2).clamp(low, high)
        return torch.where(finite, moved, action)

    def inputs(self, obs: Tensor) -> tuple[Tensor, ...]:
        mask = (
            [torch.ones(len(obs), sum(self.model.spec.action_sizes), dtype=torch.uint8)]
            if self.masked
            else []
        )
        draw = torch.Generator().manual_seed(0)
        noise = [torch.randn(len(obs), self.noise, generator=draw)] if self.noise else []
        seen = (obs,) if self.layout is None else tuple(self.layout.split(obs).values())
        return (*seen, *mask, *noise, *self.model.initial_carry(len(obs)))

    def names(self) -> list[str]:
        more = [*(["mask"] if self.masked else []), *(["noise"] if self.noise else [])]
        seen = ["obs"] if self.layout is None else [part.name for part in self.layout.parts]
        return [*seen, *more, *(f"carry{i}" for i in range(self.carries))]


def observations(data: Any, count: int) -> Tensor:
    """What the policy would see: an env's first steps under random actions, or the data's own rows."""
    envs = data.eval_envs(1)
    if envs is None:
        known = data.dataset.obs
        return known[torch.randint(len(known), (count,), generator=torch.Generator().manual_seed(0))]
    rows = []
    try:
        obs, _ = envs.reset(seed=0)
        envs.action_space.seed(0)
        for _ in range(count):
            rows.append(torch.from_numpy(np.array(obs[0])))
            obs, *_ = envs.step(envs.action_space.sample())
    finally:
        envs.close()
    return torch.stack(rows)
