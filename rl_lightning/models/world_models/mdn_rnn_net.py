"""What World Models remember and predict with: an LSTM whose head is a mixture density over the next latent code."""

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
        latent_dim: Size of a code.
        action_dim: Width of an action (one-hot if discrete).
        hidden_dim: Size of the LSTM.
        num_mixtures: Gaussians.
        joint_mixture: One mixture over the whole code instead of one for each of its dimensions (the paper's).
        predict_reward: Predict rewards.
        predict_termination: Predict the end.
    """

    no_bias: Tensor

    def __init__(
        self,
        latent_dim: int = 32,
        action_dim: int = 3,
        hidden_dim: int = 256,
        num_mixtures: int = 5,
        joint_mixture: bool = False,
        predict_reward: bool = True,
        predict_termination: bool = True,
    ) -> None:
        super().__init__()
        if min(latent_dim, action_dim, hidden_dim, num_mixtures) < 1:
            raise ConfigError("latent, action_dim, hidden and num_mixtures must be at least 1")
        self.latent_dim, self.action_dim, self.hidden_dim, self.num_mixtures = (
            latent_dim,
            action_dim,
            hidden_dim,
            num_mixtures,
        )
        self.joint_mixture, self.predict_reward, self.predict_termination = (
            joint_mixture,
            predict_reward,
            predict_termination,
        )
        bound = 1.0 / math.sqrt(hidden_dim)
        self.w_in = nn.Parameter(torch.empty(4 * hidden_dim, latent_dim + action_dim).uniform_(-bound, bound))
        self.w_hidden = nn.Parameter(torch.empty(4 * hidden_dim, hidden_dim).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(4 * hidden_dim))
        self.register_buffer("no_bias", torch.zeros(4 * hidden_dim), persistent=False)
        self.widths = [
            num_mixtures if joint_mixture else num_mixtures * latent_dim,
            num_mixtures * latent_dim,
            num_mixtures * latent_dim,
        ]
        self.widths += [1] * predict_reward + [1] * predict_termination
        self.head = nn.Linear(hidden_dim, sum(self.widths))

    def init_args(self) -> dict[str, Any]:
        """What makes the same empty model again."""
        names = (
            "latent_dim",
            "action_dim",
            "hidden_dim",
            "num_mixtures",
            "joint_mixture",
            "predict_reward",
            "predict_termination",
        )
        return {name: getattr(self, name) for name in names}

    def initial_carry(self, count: int) -> Carry:
        return (self.bias.new_zeros(count, self.hidden_dim), self.bias.new_zeros(count, self.hidden_dim))

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
        shape = (
            (self.num_mixtures, self.latent_dim)
            if self.joint_mixture
            else (self.latent_dim, self.num_mixtures)
        )
        if not self.joint_mixture:
            logits = logits.unflatten(-1, shape)
        scalars = [part[..., 0] for part in more]
        reward = scalars.pop(0) if self.predict_reward else None
        ended = scalars.pop(0) if self.predict_termination else None
        return Prediction(logits, mean.unflatten(-1, shape), log_std.unflatten(-1, shape), reward, ended)

    def log_prob(self, prediction: Prediction, code: Tensor) -> Tensor:  # [..., Z] -> [...]
        density = joint_mixture_log_prob if self.joint_mixture else mixture_log_prob
        return density(code, prediction.logits, prediction.mean, prediction.log_std)

    def sample(self, prediction: Prediction, temperature: float, clocks: Tensor, noise: Tensor) -> Tensor:
        draw = joint_mixture_sample if self.joint_mixture else mixture_sample
        return draw(prediction.logits, prediction.mean, prediction.log_std, temperature, clocks, noise)

    def clock_shape(self) -> tuple[int, ...]:
        """Of the exponential numbers that one row's draw takes."""
        return (self.num_mixtures,) if self.joint_mixture else (self.latent_dim, self.num_mixtures)
