"""Recorded episodes as a module, so that they travel from stage to stage as any other artifact."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rl_lightning.artifacts import Exported
from rl_lightning.types import EnvSpec, Sequences

FIELDS = ("obs", "action", "reward", "terminated", "truncated", "is_first")


class Recording(nn.Module):
    """Whole episodes, one after the other, as arrival rows: what was received on arriving at obs, then the action.

    Args:
        obs_shape: Of one observation.
        obs_dtype: uint8 or float32.
        action_shape: Of one stored action.
        continuous: Actions are numbers, not classes.
    """

    obs: Tensor
    action: Tensor
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    is_first: Tensor

    def __init__(
        self, obs_shape: list[int], obs_dtype: str, action_shape: list[int], continuous: bool
    ) -> None:
        super().__init__()
        self.obs_shape, self.obs_dtype = list(obs_shape), obs_dtype
        self.action_shape, self.continuous = list(action_shape), continuous
        self.register_buffer("obs", torch.zeros(0, *obs_shape, dtype=getattr(torch, obs_dtype)))
        kind = torch.float32 if continuous else torch.int64
        self.register_buffer("action", torch.zeros(0, *action_shape, dtype=kind))
        self.register_buffer("reward", torch.zeros(0))
        for name in ("terminated", "truncated", "is_first"):
            self.register_buffer(name, torch.zeros(0, dtype=torch.bool))

    @classmethod
    def from_spec(cls, spec: EnvSpec) -> Recording:
        """An empty one for an env."""
        return cls(
            list(spec.obs_shape), spec.obs_dtype, list(spec.action_shape), spec.action_kind == "continuous"
        )

    def exported(self, prefix: str) -> Exported:
        names = ("obs_shape", "obs_dtype", "action_shape", "continuous")
        args = {name: getattr(self, name) for name in names}
        return Exported(f"{type(self).__module__}.{type(self).__name__}", args, prefix)

    def __len__(self) -> int:
        return len(self.reward)

    @property
    def episodes(self) -> int:
        return int(self.is_first.sum())

    def append(self, rows: dict[str, np.ndarray]) -> None:
        """Adds whole episodes."""
        for name in FIELDS:
            old = getattr(self, name)
            setattr(self, name, torch.cat([old, torch.from_numpy(rows[name]).to(old)]))

    def windows(self, start: Tensor, length: int) -> Sequences:
        """Rows start ... start + length - 1 of each; they may run into the next episode, which `is_first` tells.

        [B] -> [B, L, ...]
        """
        index = start[:, None] + torch.arange(length)
        fields = {name: getattr(self, name)[index] for name in FIELDS}
        for name in ("terminated", "truncated"):
            fields[name] = fields[name].float()
        return Sequences(**fields)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        """Rows are not weights: there are as many as were recorded."""
        for name in FIELDS:
            saved = state_dict.get(f"{prefix}{name}")
            if saved is not None:
                own = getattr(self, name)
                setattr(self, name, own.new_zeros(len(saved), *own.shape[1:]))
        super()._load_from_state_dict(state_dict, prefix, *args)
