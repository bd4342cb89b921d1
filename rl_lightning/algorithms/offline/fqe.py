"""Fitted-Q evaluation (Le et al. 2019): the value of a finished policy, from data alone."""

from __future__ import annotations

import copy
import math
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from rl_lightning.algorithms.model_module import ModelModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.artifacts import load_exported
from rl_lightning.errors import ConfigError
from rl_lightning.functional.value import polyak_update, td_target
from rl_lightning.io.artifact_place import Artifact
from rl_lightning.models.policies import ObsNormalizer, flat_width
from rl_lightning.nn.heads.critics import make_critics
from rl_lightning.nn.own_torso import check_network_or_sizes
from rl_lightning.nn.torso import Network
from rl_lightning.optim.optimizers import Adam, OptimizerFactory
from rl_lightning.ranges import Fraction, NonNegativeFloat, PositiveFloat, PositiveFraction, PositiveInt
from rl_lightning.seeding import derive
from rl_lightning.types import EnvSpec, Transitions

CHUNK = 10_000  # rows valued at once
MOST_CHECKED = 20_000  # held-out rows whose error an evaluation looks at
REMEMBERED = 6  # evaluations that the test for a plateau looks at


class FQE(ModelModule):
    """Learns the values of a fixed policy by its own Bellman equation; each critic follows its own target copy.

    Values begin near 0 and rise for many updates, and so does their error on held-out rows, which is measured in their
    own units: the newest critics are the best ones. What is reported are the target copies, averages of the newest.

    Args:
        spec: What the data are like; filled in from them.
        policy_from: Artifact of the stage whose policy is valued.
        num_critics: How many critics are kept; their spread says how sure the estimate is.
        hidden_dims: Hidden sizes of each critic.
        layer_norm: Normalise each hidden layer's output before its activation; without it critics err on actions that
            the data do not have.
        stochastic: Value the policy that draws its actions, not the greedy one. One that draws in evaluation too
            (diffusion, Diffusion-DICE, random) is always valued by its draws.
        draws: Actions drawn beforehand for each row of the data, of a policy that is valued by its draws.
        plateau: The run ends when the value has settled: by its trend less than this fraction of it is still to come.
            null: never.
        tau: Fraction of the critics that the targets take over at each update.
        gamma: Discount.
        normalize_obs: Scale observations by the data's mean and spread, which are part of the model.
        lr: Learning rate.
        optimizer: The optimizer, without its learning rate.
        max_grad_norm: Gradients are scaled down to this norm; null never.
        network: What turns an observation with an action into a critic's features, instead of `hidden_dims`.
    """

    learns_from = (Transitions,)
    action_kinds = ("continuous", "discrete")
    newest_is_best = True
    history: Tensor

    def __init__(
        self,
        spec: EnvSpec,
        policy_from: Artifact,
        num_critics: PositiveInt = 4,
        hidden_dims: list[PositiveInt] | None = None,
        layer_norm: bool = True,
        stochastic: bool = False,
        draws: PositiveInt = 4,
        plateau: float | None = 0.03,
        tau: PositiveFraction = 0.02,
        gamma: Fraction = 0.99,
        normalize_obs: bool = True,
        lr: NonNegativeFloat = 3e-4,
        optimizer: OptimizerFactory | None = None,
        max_grad_norm: PositiveFloat | None = None,
        network: Network | None = None,
    ) -> None:
        super().__init__(spec)
        self.draws, self.plateau = draws, plateau
        self.policy_from, self.stochastic, self.ensemble_size = policy_from, stochastic, num_critics
        self.tau, self.gamma, self.lr = tau, gamma, lr
        self.optimizer, self.max_grad_norm = optimizer or Adam, max_grad_norm
        width = flat_width(spec, "FQE")
        self.norm: nn.Module = ObsNormalizer(width) if normalize_obs else nn.Identity()
        check_network_or_sizes(network, hidden_dims, "network", "hidden_dims")
        self.q = make_critics(
            num_critics, width, spec.action_dim, hidden_dims or [256, 256], network, layer_norm
        )
        self.q_target = copy.deepcopy(self.q).requires_grad_(False)
        self.register_buffer("history", torch.zeros(REMEMBERED, 2))  # update, value; newest last
        self._actions: Tensor | None = None  # [draws, N, A], the policy's at each row's next observation

    @cached_property
    def policy(self) -> Any:
        """The policy in question; no part of this module, so that its weights are neither trained nor saved."""
        return load_exported(self.policy_from, "policy")

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        state_dict.setdefault(
            f"{prefix}history", self.history.clone()
        )  # older checkpoints remember no evaluations
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def setup(self, stage: str) -> None:
        wanted = (self.spec.obs_shape[0], self.spec.action_dim)
        known = self.policy.init_args  # a missing artifact is reported before anything starts
        if self.policy.discrete != (self.spec.action_kind == "discrete"):
            kind = "discrete" if self.policy.discrete else "continuous"
            raise ConfigError(
                f"{self.policy_from}: a policy of {kind} actions; the data have {self.spec.action_kind} ones"
            )
        if (known["obs_dim"], known["action_dim"]) != wanted:
            raise ConfigError(
                f"{self.policy_from}: a policy of {known['obs_dim']} observations and {known['action_dim']} actions; "
                f"the data have {wanted[0]} and {wanted[1]}"
            )

    def on_fit_start(self) -> None:
        data = self.data_source
        if isinstance(self.norm, ObsNormalizer):
            self.norm.fit_once(data)
        # The policy does not change, so its actions are asked for once; after a resume they are the same again.
        draw = torch.Generator().manual_seed(derive(data.seed, "policy"))
        parts = data.dataset.next_obs.split(CHUNK)
        actions = [
            torch.cat([self.policy_action(rows.to(self.device), draw) for rows in parts])
            for _ in range(self.times)
        ]
        self._actions = torch.stack(actions)

    @property
    def times(self) -> int:
        """Draws of each action: one where there is nothing to draw."""
        return self.draws if self.stochastic or self.policy.draws else 1

    @torch.no_grad()
    def policy_action(self, obs: Tensor, generator: torch.Generator) -> Tensor:
        """The policy's actions as the critics take them.  [N, O] -> [N, A]"""
        return self.code(self.policy.to(obs.device).choose(obs, generator, not self.stochastic))

    def code(self, action: Tensor) -> Tensor:
        """Discrete actions as rows with a single 1."""
        if self.spec.action_kind != "discrete":
            return action
        return F.one_hot(action.long(), self.spec.action_dim).float()

    def next_actions(self, batch: Transitions) -> Tensor:
        """What the policy does at the batch's next observations, one of its draws.  [..., A]"""
        if self._actions is None:  # outside of a fit
            rows = batch.next_obs.flatten(0, -2)
            return self.policy_action(rows, torch.default_generator).view(*batch.next_obs.shape[:-1], -1)
        index = batch.index.to(self._actions.device)
        return self._actions[torch.randint(len(self._actions), index.shape).to(index.device), index]

    def update(self, batch: Transitions) -> Metrics:
        """Rows [B, ...] serve all critics; rows [E, B, ...] give each critic its own."""
        with torch.no_grad():
            target = self._target(batch)
        q = self.q(self.norm(batch.obs), self.code(batch.action))
        loss = 0.5 * (batch.weight * (q - target).square()).mean(-1).sum()
        (optimizer,) = self.raw_optimizers()
        self.step(optimizer, loss, self.max_grad_norm)
        polyak_update(list(self.q_target.parameters()), list(self.q.parameters()), self.tau)
        return {"train/critic_loss": loss, "train/q_values": q.mean()}

    def _target(self, batch: Transitions) -> Tensor:  # [E, B]
        next_value = self.q_target(self.norm(batch.next_obs), self.next_actions(batch))
        reward, terminated = batch.reward.expand_as(next_value), batch.terminated.expand_as(next_value)
        return td_target(reward, next_value, terminated, batch.discount)

    @torch.no_grad()
    def td_error(self, rows: Transitions) -> float:
        """Mean squared difference between a row's value and what the target critics make of its successor."""
        total, count = 0.0, 0
        for start in range(0, min(len(rows.reward), MOST_CHECKED), CHUNK):
            part = [
                None if column is None else column[start : start + CHUNK].to(self.device) for column in rows
            ]
            batch = Transitions(*part)  # type: ignore[arg-type]
            target = self._target(batch)
            q = self.q(self.norm(batch.obs), self.code(batch.action))
            total += float((q - target).square().sum())
            count += target.numel()
        return total / max(count, 1)

    @torch.no_grad()
    def values(self, obs: Tensor) -> Tensor:
        """The return that each target critic expects of the policy from each observation on.  [N, O] -> [E, N]"""
        draw, parts = torch.Generator().manual_seed(0), []
        for rows in obs.split(CHUNK):
            here = rows.to(self.device)
            each = [self.q_target(self.norm(here), self.policy_action(here, draw)) for _ in range(self.times)]
            parts.append(torch.stack(each).mean(0).cpu())
        return torch.cat(parts, -1)

    def test_report(self, data: Any) -> dict[str, Any]:
        """Values of the observations that episodes start with: of all episodes, and of the held-out ones."""
        rows = first_rows(data.dataset.recording)
        values = self.values(data.dataset.obs[rows])
        held_out = torch.isin(rows, data.val_rows().index.cpu())
        report = {"gamma": self.gamma, **_estimate(values), "settled": self.settled}
        report |= {} if math.isnan(self.still_to_come) else {"still_to_come": self.still_to_come}
        return report | ({"val": _estimate(values[:, held_out])} if held_out.any() else {})

    def validate(self, data: Any) -> dict[str, float]:
        report = self.test_report(data)
        metrics = {"eval/score": report["value"], "eval/td_error": self.td_error(data.val_rows())}
        metrics |= {"eval/value": report["value"], "eval/value_std": report["std"]}
        held_out = report.get("val")
        return metrics | ({"eval/value_val": held_out["value"]} if held_out else {})

    def on_validation(self, metrics: dict[str, float]) -> None:
        at = float(self.clock.update)
        newest = self.history.new_tensor([[at, metrics["eval/value"]]])
        self.history.copy_(torch.cat((self.history[1:], newest)))

    @property
    def still_to_come(self) -> float:
        """Change of the value that its trend promises, as a fraction of it; NaN while there is too little to see.

        Values approach their end as exp(-t / horizon), no more slowly than the horizon of discounting times the updates
        that a target critic takes to follow.
        """
        half = REMEMBERED // 2
        (before, first), (now, value) = (
            self.history[:half].mean(0).tolist(),
            self.history[half:].mean(0).tolist(),
        )
        if not (self.history[:, 0] > 0).all() or not now > before:
            return math.nan
        horizon = 1.0 / (max(1.0 - self.gamma, 1e-3) * self.tau)
        return (value - first) / (now - before) * horizon / max(abs(value), 1e-6)

    @property
    def settled(self) -> bool:
        return abs(self.still_to_come) <= (0.03 if self.plateau is None else self.plateau)

    @property
    def should_stop(self) -> bool:
        return self.plateau is not None and self.settled

    def caution(self) -> str | None:
        if self.settled:
            return None
        trend = self.still_to_come
        reason = (
            "too few evaluations to tell"
            if math.isnan(trend)
            else f"by its trend {100.0 * trend:+.0f}% to come"
        )
        return f"the value has not settled ({reason}); continue with more updates: rl resume RUN --updates N"

    def predict_rows(self, rows: Transitions) -> dict[str, np.ndarray]:
        with torch.no_grad():
            q = self.q_target(
                self.norm(rows.obs.to(self.device)), self.code(rows.action.to(self.device))
            ).cpu()
        value = self.values(rows.obs)
        named = {"q": q.mean(0), "q_std": q.std(0, correction=0)}
        named |= {"value": value.mean(0), "value_std": value.std(0, correction=0)}
        return {name: column.numpy() for name, column in named.items()}

    def configure_optimizers(self) -> Optimizer:
        return self.optimizer(self.q.parameters(), self.lr)


def first_rows(episode: Tensor) -> Tensor:
    """Rows with which an episode begins.  [N] -> [K]"""
    changed = torch.ones_like(episode, dtype=torch.bool)
    changed[1:] = episode[1:] != episode[:-1]
    return changed.nonzero().squeeze(-1)


def _estimate(values: Tensor) -> dict[str, Any]:  # [E, K]
    members = values.mean(-1)
    return {
        "value": float(members.mean()),
        "std": float(members.std(correction=0)),
        "members": [float(member) for member in members],
        "episodes": values.shape[-1],
    }
