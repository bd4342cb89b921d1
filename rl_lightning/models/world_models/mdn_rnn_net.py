"""What World Models remember and foresee with: an LSTM whose head is a mixture density over the next latent code."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rl_lightning.errors import ConfigError
from rl_lightning.functional.mixture import (
    joint_mixture_log_prob,
    joint_mixture_sample,
    mixture_log_prob,
    mixture_sample,
)
from rl_lightning.types import Carry

LOG_STD_MIN, LOG_STD_MAX = -7.0, 2.0


class Prediction(NamedTuple):
    """What the memory expects next. The first three are [..., Z, K]; of a joint mixture see functional/mixture.py."""

    logits: Tensor
    mean: Tensor
    log_std: Tensor
    reward: Tensor | None  # [...]
    terminated: Tensor | None  # [...] logit


class MDNRNNNet(nn.Module):
    """LSTM on (code, action) with a mixture head; reward and termination heads where wanted.

    One bias vector, as the paper's own: 422,368 weights with a code of 32, 3 actions, 256 hidden and 5 mixtures.

    Args:
        latent: Size of a code.
        action_dim: Width of an action (one-hot if discrete).
        hidden: Size of the LSTM.
        mixtures: Gaussians.
        joint: One mixture over the whole code instead of one for each of its dimensions (the paper's).
        reward_head: Predict rewards.
        terminated_head: Predict the end.
    """

    no_bias: Tensor

    def __init__(
        self,
        latent: int = 32,
        action_dim: int = 3,
        hidden: int = 256,
        mixtures: int = 5,
        joint: bool = False,
        reward_head: bool = True,
        terminated_head: bool = True,
    ) -> None:
        super().__init__()
        if min(latent, action_dim, hidden, mixtures) < 1:
            raise ConfigError("latent, action_dim, hidden and mixtures must be at least 1")
        self.latent, self.action_dim, self.hidden, self.mixtures = latent, action_dim, hidden, mixtures
        self.joint, self.reward_head, self.terminated_head = joint, reward_head, terminated_head
        bound = 1.0 / math.sqrt(hidden)
        self.w_in = nn.Parameter(torch.empty(4 * hidden, latent + action_dim).uniform_(-bound, bound))
        self.w_hidden = nn.Parameter(torch.empty(4 * hidden, hidden).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(4 * hidden))
        self.register_buffer("no_bias", torch.zeros(4 * hidden), persistent=False)
        self.widths = [mixtures if joint else mixtures * latent, mixtures * latent, mixtures * latent]
        self.widths += [1] * reward_head + [1] * terminated_head
        self.head = nn.Linear(hidden, sum(self.widths))

    def init_args(self) -> dict[str, Any]:
        """What makes the same empty model again."""
        names = ("latent", "action_dim", "hidden", "mixtures", "joint", "reward_head", "terminated_head")
        return {name: getattr(self, name) for name in names}

    def initial_carry(self, count: int) -> Carry:
        return (self.bias.new_zeros(count, self.hidden), self.bias.new_zeros(count, self.hidden))

    def unroll(self, code: Tensor, action: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """Hidden states after each step of B sequences.  [B, L, Z], [B, L, A] -> [B, L, H]"""
        inputs = torch.cat((code, action), -1)
        weights = [self.w_in, self.w_hidden, self.bias, self.no_bias]
        state = [part.unsqueeze(0) for part in carry]
        out, h, c = torch.lstm(inputs, state, weights, True, 1, 0.0, False, False, True)
        return out, (h[0], c[0])

    def step(self, code: Tensor, action: Tensor, carry: Carry) -> Carry:
        """The state after one step of B rows."""
        inputs = torch.cat((code, action), -1)
        return torch.lstm_cell(inputs, list(carry), self.w_in, self.w_hidden, self.bias, self.no_bias)

    def predict(self, hidden: Tensor) -> Prediction:  # [..., H]
        logits, mean, log_std, *more = self.head(hidden).split(self.widths, -1)
        log_std = log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)
        shape = (self.mixtures, self.latent) if self.joint else (self.latent, self.mixtures)
        if not self.joint:
            logits = logits.unflatten(-1, shape)
        scalars = [part[..., 0] for part in more]
        reward = scalars.pop(0) if self.reward_head else None
        ended = scalars.pop(0) if self.terminated_head else None
        return Prediction(logits, mean.unflatten(-1, shape), log_std.unflatten(-1, shape), reward, ended)

    def log_prob(self, prediction: Prediction, code: Tensor) -> Tensor:  # [..., Z] -> [...]
        density = joint_mixture_log_prob if self.joint else mixture_log_prob
        return density(code, prediction.logits, prediction.mean, prediction.log_std)

    def sample(self, prediction: Prediction, temperature: float, clocks: Tensor, noise: Tensor) -> Tensor:
        draw = joint_mixture_sample if self.joint else mixture_sample
        return draw(prediction.logits, prediction.mean, prediction.log_std, temperature, clocks, noise)

    def clock_shape(self) -> tuple[int, ...]:
        """Of the exponential numbers that one row's draw takes."""
        return (self.mixtures,) if self.joint else (self.latent, self.mixtures)
