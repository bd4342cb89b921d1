"""Small controllers as rows of numbers, so that a whole population acts in one artifact."""

from __future__ import annotations

import torch
from torch import Tensor

from rl_lightning.errors import ConfigError
from rl_lightning.types import EnvSpec


class Controller:
    """A linear map, or one hidden tanh layer, from features to an action. The numbers are passed in, not held.

    Args:
        features: Width of what it sees.
        spec: What the actions are like.
        hidden_dim: Units of the hidden layer; 0: linear (the paper's: 867 numbers for CarRacing).
    """

    def __init__(self, features: int, spec: EnvSpec, hidden_dim: int = 0) -> None:
        if spec.action_kind == "multi_discrete":
            raise ConfigError(
                f"a controller has one discrete or several continuous actions; {spec.env_id} has rows"
            )
        if hidden_dim < 0:
            raise ConfigError(f"model.controller_hidden_dim is {hidden_dim}; it must be 0 (linear) or more")
        self.features, self.outputs, self.hidden_dim = features, spec.action_dim, hidden_dim
        self.discrete = spec.action_kind == "discrete"
        sizes = (
            [(features, hidden_dim), (hidden_dim, self.outputs)] if hidden_dim else [(features, self.outputs)]
        )
        self.shapes = sizes
        self.size = sum(i * o + o for i, o in sizes)

    def __call__(self, numbers: Tensor, features: Tensor) -> Tensor:
        """What P members do with R rows each, as the memory hears of it: one-hot, or in [-1, 1].

        [P, size], [P, R, F] -> [P, R, A]
        """
        assert numbers.shape[-1] == self.size, (numbers.shape, self.size)
        start = 0
        for layer, (width, out) in enumerate(self.shapes):
            weight = numbers[:, start : start + width * out].unflatten(1, (width, out))
            bias = numbers[:, start + width * out : start + width * out + out].unsqueeze(1)
            features = torch.baddbmm(bias, features, weight)
            start += width * out + out
            if layer + 1 < len(self.shapes):
                features = features.tanh()
        if not self.discrete:
            return features.tanh()
        best = features.argmax(-1, keepdim=True)
        return torch.zeros_like(features).scatter_(-1, best, 1.0)

    def to_env_action(self, action: Tensor) -> Tensor:
        """The same action as an env takes it.  [..., A] -> [...] integers, or as it is"""
        return action.argmax(-1) if self.discrete else action
