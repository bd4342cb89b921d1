"""Decision Transformer (Chen et al. 2021): the next action of an episode that is to reach a given return."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim import Optimizer

from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.algorithms.step import set_lr
from rl_lightning.errors import ConfigError
from rl_lightning.functional.action_distributions import categorical_sample, mask_logits
from rl_lightning.models.policies import flat_width
from rl_lightning.models.return_conditioned import DecisionTransformerNet
from rl_lightning.nn.torsos.causal_transformer import CausalTransformer
from rl_lightning.optim.optimizers import AdamW, OptimizerFactory
from rl_lightning.optim.schedules import Schedule, Warmup
from rl_lightning.ranges import FractionBelowOne, NonNegativeFloat, PositiveFloat, PositiveInt
from rl_lightning.types import Carry, EnvSpec, ReturnWindows


class DecisionTransformer(PolicyModule):
    """Imitates those recorded steps that led to the return it is asked for; continuous or discrete actions.

    Args:
        spec: What the data are like; filled in from them.
        target_return: Return of an episode that it is asked for when it acts; null: the highest of the data. Can be
            changed after training.
        return_scale: Returns are divided by this before the network sees them.
        context_length: Steps that are seen, the newest included; as in the data.
        max_timestep: Steps of the longest episode.
        embed_dim: Width of the tokens.
        num_layers: Attention layers.
        num_heads: Attention heads; must divide embed_dim.
        dropout: Fraction of activations dropped in training.
        activation: Non-linearity of the position-wise layers.
        deterministic_eval: Take the likeliest action in evaluation; false draws discrete ones, as the paper does.
        lr: Learning rate.
        lr_schedule: How the learning rate changes over the run; null: a warm-up over its first tenth.
        optimizer: The optimizer, without its learning rate; null: AdamW with weight decay 1e-4.
        max_grad_norm: Gradients are scaled down to this norm; null never.
    """

    learns_from = (ReturnWindows,)
    needs_columns = ("rewards",)
    action_kinds = ("continuous", "discrete")
    reward_carry = 3
    best_return: Tensor

    def __init__(
        self,
        spec: EnvSpec,
        target_return: float | None = None,
        return_scale: PositiveFloat = 1000.0,
        context_length: int = 20,
        max_timestep: PositiveInt = 1000,
        embed_dim: int = 128,
        num_layers: int = 3,
        num_heads: int = 1,
        dropout: FractionBelowOne = 0.1,
        activation: str = "gelu",
        deterministic_eval: bool = True,
        lr: NonNegativeFloat = 1e-4,
        lr_schedule: Schedule | None = None,
        optimizer: OptimizerFactory | None = None,
        max_grad_norm: PositiveFloat | None = 0.25,
    ) -> None:
        super().__init__(spec)
        if spec.max_episode_steps is not None and spec.max_episode_steps > max_timestep:
            raise too_long(spec.max_episode_steps, max_timestep, spec.env_id)
        self.target_return, self.return_scale = target_return, return_scale
        self.context_length, self.max_timestep = context_length, max_timestep
        self.deterministic_eval, self.discrete = deterministic_eval, spec.action_kind == "discrete"
        self.dropout = dropout
        self.lr, self.lr_schedule, self.max_grad_norm = lr, lr_schedule or Warmup(0.1), max_grad_norm
        self.optimizer = optimizer or partial(AdamW, weight_decay=1e-4)
        transformer = CausalTransformer(embed_dim, num_heads, num_layers, activation)
        self.policy = DecisionTransformerNet(
            flat_width(spec, "DecisionTransformer"),
            spec.action_dim,
            transformer,
            embed_dim,
            max_timestep,
            squash=not self.discrete,
        )
        self.register_buffer("best_return", torch.zeros(()))

    def on_fit_start(self) -> None:
        data: Any = self.data_source
        if data.longest_episode() > self.max_timestep:
            raise too_long(data.longest_episode(), self.max_timestep, "the data")
        if not self.policy.norm.fitted:  # a resumed run has both from the checkpoint
            self.best_return.fill_(data.best_return())
        self.policy.norm.fit_once(data)

    def as_rows(self, action: Tensor) -> Tensor:
        """Actions as the network takes them.  [...] or [..., A] -> [..., A]"""
        return F.one_hot(action.long(), self.spec.action_dim).float() if self.discrete else action

    def initial_carry(self, count: int) -> Carry:
        """Per env: the last observations, actions and returns-to-go, the rewards so far, and the steps so far."""
        steps = self.context_length
        sizes = (steps * self.spec.obs_shape[0], steps * self.spec.action_dim, steps, 1, 1)
        return tuple(torch.zeros(count, size, device=self.device) for size in sizes)

    def act(
        self, obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        past_obs, past_action, past_return, earned, count = carry
        width, dim, steps = self.spec.obs_shape[0], self.spec.action_dim, self.context_length
        target = self.best_return if self.target_return is None else self.target_return
        seen = torch.cat((past_obs[:, width:], obs.float()), -1)
        to_go = torch.cat((past_return[:, 1:], target - earned), -1)
        action = torch.cat((past_action[:, dim:], torch.zeros_like(past_action[:, :dim])), -1)
        timestep = count + torch.arange(
            1 - steps, 1, device=count.device
        )  # [N, K], below 0 before the episode
        chosen = self.policy(
            seen.unflatten(-1, (steps, width)),
            action.unflatten(-1, (steps, dim)),
            to_go / self.return_scale,
            timestep.clamp(0, self.max_timestep - 1).long(),
            timestep >= 0,
        )[:, -1]
        played = self._pick(chosen, generator, mask)
        action = torch.cat((past_action[:, dim:], self.as_rows(played)), -1)
        return played, (seen, action, to_go, earned, count + 1.0)

    def _pick(self, chosen: Tensor, generator: torch.Generator | None, mask: Tensor | None) -> Tensor:
        if not self.discrete:
            return chosen
        if generator is None:
            return mask_logits(chosen, mask).argmax(-1)
        return categorical_sample(chosen, generator, mask)

    def update(self, batch: ReturnWindows) -> Metrics:
        rows = self.as_rows(batch.action)
        scaled = batch.return_to_go / self.return_scale
        chosen = self.policy(batch.obs, rows, scaled, batch.timestep, batch.valid, self.dropout)
        if self.discrete:
            error = F.cross_entropy(chosen.transpose(1, 2), batch.action.long(), reduction="none")
        else:
            error = (chosen - rows).square().mean(-1)
        loss = torch.where(batch.valid, error, 0.0).sum() / batch.valid.sum()
        (optimizer,) = self.raw_optimizers()
        set_lr(optimizer, self.lr_schedule, self.progress)
        norm = self.step(optimizer, loss, self.max_grad_norm)
        return {"train/loss": loss.detach()} | ({} if norm is None else {"train/grad_norm": norm})

    def configure_optimizers(self) -> Optimizer:
        return self.optimizer(self.policy.parameters(), self.lr)


def too_long(steps: int, most: int, who: str) -> ConfigError:
    return ConfigError(
        f"model.max_timestep is {most}, and episodes of {who} may have {steps} steps: --model.max_timestep {steps}"
    )
