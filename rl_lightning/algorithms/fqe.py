"""Fitted-Q evaluation (Le et al. 2019): what a finished policy is worth, from data alone."""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rl_lightning.algorithms.module import Metrics, RLModule
from rl_lightning.algorithms.step import step
from rl_lightning.errors import ConfigError
from rl_lightning.functional.value import polyak_, td_target
from rl_lightning.models.policy import CategoricalPolicy, ObsScale, flat_width
from rl_lightning.models.provided import load_provided
from rl_lightning.networks.critics import QEnsemble
from rl_lightning.networks.optim import Adam, OptimizerRecipe
from rl_lightning.types import EnvSpec, Transitions

CHUNK = 10_000  # rows valued at once
MOST_CHECKED = 20_000  # held-out rows whose error an evaluation looks at


class FQE(RLModule):
    """Learns the values of a fixed policy by its own Bellman equation; each critic follows its own slow copy.

    Args:
        spec: What the data are like; filled in from them.
        policy: Product of the stage whose policy is valued.
        critics: How many critics are kept; their spread says how sure the estimate is.
        hidden: Hidden sizes of each critic.
        layer_norm: Normalise each hidden layer's output before its activation.
        stochastic: Value the policy that draws its actions, not the greedy one.
        target_rate: Share of the critics that the slow ones take over at each update.
        gamma: Discount.
        normalize_obs: Scale observations by the data's mean and spread, which are part of the model.
        lr: Learning rate.
        optimizer: The optimizer, without its rate.
        max_grad_norm: Gradients are scaled down to this norm; null never.
    """

    action_kinds = ("continuous",)
    acts = False

    def __init__(
        self,
        spec: EnvSpec,
        policy: str,
        critics: int = 4,
        hidden: list[int] | None = None,
        layer_norm: bool = False,
        stochastic: bool = False,
        target_rate: float = 0.005,
        gamma: float = 0.99,
        normalize_obs: bool = True,
        lr: float = 3e-4,
        optimizer: OptimizerRecipe | None = None,
        max_grad_norm: float | None = None,
    ) -> None:
        super().__init__(spec)
        self.policy, self.stochastic, self.members = policy, stochastic, critics
        self.target_rate, self.gamma, self.lr = target_rate, gamma, lr
        self.optimizer, self.max_grad_norm = optimizer or Adam(), max_grad_norm
        width = flat_width(spec, "FQE")
        self.norm: nn.Module = ObsScale(width) if normalize_obs else nn.Identity()
        self.q = QEnsemble(critics, width, spec.action_dim, hidden or [256, 256], layer_norm=layer_norm)
        self.q_slow = copy.deepcopy(self.q).requires_grad_(False)

    @cached_property
    def valued(self) -> Any:
        """The policy in question; no part of this module, so that its weights are neither trained nor saved."""
        return load_provided(self.policy, "policy")

    def setup(self, stage: str) -> None:
        wanted = (self.spec.obs_shape[0], self.spec.action_dim)
        known = self.valued.init_args  # a missing product is reported before anything starts
        if isinstance(self.valued, CategoricalPolicy):
            raise ConfigError(f"{self.policy}: a policy of discrete actions; FQE values continuous ones")
        if (known["obs_dim"], known["action_dim"]) != wanted:
            raise ConfigError(
                f"{self.policy}: a policy of {known['obs_dim']} observations and {known['action_dim']} actions; "
                f"the data have {wanted[0]} and {wanted[1]}"
            )

    def on_fit_start(self) -> None:
        if isinstance(self.norm, ObsScale):
            self.norm.fit_once(self.trainer.datamodule)  # type: ignore[attr-defined]

    def choose(self, obs: Tensor) -> Tensor:
        """The policy's actions.  [..., O] -> [..., A]"""
        net = self.valued.to(obs.device)
        rows = obs.flatten(0, -2)
        action = net.sample(rows, torch.default_generator) if self.stochastic else net.greedy(rows)
        return action.view(*obs.shape[:-1], -1)  # type: ignore[no-any-return]

    def update(self, batch: Transitions) -> Metrics:
        """Rows [B, ...] serve all critics; rows [E, B, ...] give each critic its own."""
        with torch.no_grad():
            next_value = self.q_slow(self.norm(batch.next_obs), self.choose(batch.next_obs))  # [E, B]
            reward, terminated = batch.reward.expand_as(next_value), batch.terminated.expand_as(next_value)
            target = td_target(reward, next_value, terminated, batch.discount)
        q = self.q(self.norm(batch.obs), batch.action)
        loss = 0.5 * (batch.weight * (q - target).square()).mean(-1).sum()
        (optimizer,) = self.raw_optimizers()
        step(optimizer, loss, self.max_grad_norm)
        polyak_(list(self.q_slow.parameters()), list(self.q.parameters()), self.target_rate)
        return {"train/critic_loss": loss, "train/q": q.mean()}

    @torch.no_grad()
    def td_error(self, rows: Transitions) -> float:
        """Mean squared difference between a row's value and what the slow critics make of its successor."""
        total, count = 0.0, 0
        for start in range(0, min(len(rows.reward), MOST_CHECKED), CHUNK):
            part = [
                None if column is None else column[start : start + CHUNK].to(self.device) for column in rows
            ]
            batch = Transitions(*part)  # type: ignore[arg-type]
            following = self.q_slow(self.norm(batch.next_obs), self.choose(batch.next_obs))
            reward, terminated = batch.reward.expand_as(following), batch.terminated.expand_as(following)
            target = td_target(reward, following, terminated, batch.discount)
            total += float((self.q(self.norm(batch.obs), batch.action) - target).square().sum())
            count += target.numel()
        return total / max(count, 1)

    @torch.no_grad()
    def values(self, obs: Tensor) -> Tensor:
        """What each critic thinks the policy will earn from each observation on.  [N, O] -> [E, N]"""
        parts = [rows.to(self.device) for rows in obs.split(CHUNK)]
        return torch.cat([self.q(self.norm(rows), self.choose(rows)) for rows in parts], -1).cpu()

    def report(self, data: Any) -> dict[str, Any]:
        """Values of the observations that episodes start with: of all episodes, and of the held-out ones."""
        rows = first_rows(data.dataset.recording)
        values = self.values(data.dataset.obs[rows])
        held_out = torch.isin(rows, data.holdout_rows().index.cpu())
        found = {"gamma": self.gamma, **_estimate(values)}
        return found | ({"held_out": _estimate(values[:, held_out])} if held_out.any() else {})

    def assess(self, data: Any) -> dict[str, float]:
        found = self.report(data)
        # Ranked by its error on held-out rows: the highest estimate is only the most hopeful one.
        error = self.td_error(data.holdout_rows())
        metrics = {"eval/score": -error, "eval/td_error": error}
        metrics |= {"eval/value": found["value"], "eval/spread": found["spread"]}
        held_out = found.get("held_out")
        return metrics | ({"eval/value_held_out": held_out["value"]} if held_out else {})

    def predict_rows(self, rows: Transitions) -> dict[str, np.ndarray]:
        with torch.no_grad():
            q = self.q(self.norm(rows.obs.to(self.device)), rows.action.to(self.device)).cpu()
        value = self.values(rows.obs)
        named = {"q": q.mean(0), "q_spread": q.std(0, correction=0)}
        named |= {"value": value.mean(0), "value_spread": value.std(0, correction=0)}
        return {name: column.numpy() for name, column in named.items()}

    def configure_optimizers(self) -> Optimizer:
        return self.optimizer.build(self.q.parameters(), self.lr)


def first_rows(episode: Tensor) -> Tensor:
    """Rows with which an episode begins.  [N] -> [K]"""
    changed = torch.ones_like(episode, dtype=torch.bool)
    changed[1:] = episode[1:] != episode[:-1]
    return changed.nonzero().squeeze(-1)


def _estimate(values: Tensor) -> dict[str, Any]:  # [E, K]
    members = values.mean(-1)
    return {
        "value": float(members.mean()),
        "spread": float(members.std(correction=0)),
        "members": [float(member) for member in members],
        "episodes": values.shape[-1],
    }
