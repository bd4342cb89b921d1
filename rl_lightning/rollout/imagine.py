"""Moving an actor through a learned world: many short rollouts at once, all rows that can be learned from."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from rl_lightning.envs.termination import Termination
from rl_lightning.errors import ConfigError
from rl_lightning.functional.action_distributions import standard_noise
from rl_lightning.models.dynamics.ensemble_dynamics import ModelStep
from rl_lightning.rollout.collect import ActFn
from rl_lightning.types import Carry

PIECE = 4096  # rows that act together on a CPU: their hidden layers stay in its caches


class DynamicsModel(Protocol):
    """What is imagined in, e.g. an EnsembleDynamics."""

    def step(
        self, obs: Tensor, action: Tensor, generator: torch.Generator, spread: bool = False
    ) -> ModelStep: ...


class PenaltyFn(Protocol):
    """What makes a reward smaller where the model is not to be trusted, e.g. a Penalty."""

    @property
    def needs_spread(self) -> bool: ...

    def __call__(self, obs: Tensor, action: Tensor, step: ModelStep) -> tuple[Tensor, Tensor]: ...


class ImaginedTransitions(NamedTuple):
    """M imagined rows in order of time: first all first steps, then the second steps of those that live on."""

    obs: Tensor  # [M, O]
    action: Tensor  # [M, A]
    reward: Tensor  # [M] what is learned from: the model's, less the penalty
    next_obs: Tensor  # [M, O]
    terminated: Tensor  # [M] float
    penalty: Tensor  # [M] before the coefficient
    raw_reward: Tensor  # [M] the model's
    below: Tensor  # [M] bool: of a density under its threshold
    start: Tensor  # [M] number of the start that the rollout began at
    starts: int = 0
    dropped: int = 0  # rows that were not finite

    def statistics(self) -> dict[str, float]:
        """What is worth logging of a rollout: means over its rows."""
        rows = len(self.reward)
        share = 1.0 / max(rows, 1)
        return {
            "imagine/transitions": float(rows),
            "imagine/length": rows / max(self.starts, 1),
            "imagine/reward": float(self.raw_reward.sum()) * share,
            "imagine/penalty": float(self.penalty.sum()) * share,
            "imagine/ood_fraction": float(self.below.sum()) * share,
            "imagine/terminated_fraction": float(self.terminated.sum()) * share,
            "imagine/nonfinite": float(self.dropped),
        }


Fields = tuple[Tensor, ...]  # of Imagined, in its order


class _Rows:
    """Columns as long as the longest possible rollout; memory that is never written costs nothing."""

    def __init__(self, capacity: int, example: Fields) -> None:
        self.columns = tuple(field.new_empty(capacity, *field.shape[1:]) for field in example)
        self.count = 0

    def add(self, fields: Fields) -> None:
        until = self.count + len(fields[0])
        for column, field in zip(self.columns, fields, strict=True):
            column[self.count : until] = field
        self.count = until

    def filled(self) -> Fields:
        return tuple(column[: self.count] for column in self.columns)


@torch.no_grad()
def imagine(
    dynamics: DynamicsModel,
    act: ActFn,
    start_obs: Tensor,
    horizon: int,
    termination: Termination,
    generator: torch.Generator,
    policy_generator: torch.Generator | None = None,
    penalty: PenaltyFn | None = None,
    coefficient: float = 0.0,
    ood_terminal_value: float | None = None,
) -> ImaginedTransitions:
    """Rollouts of at most `horizon` steps from each start [B, O].

    Actions are drawn from `policy_generator` (greedy if None), all else from `generator`. Penalties draw nothing,
    and with a coefficient of 0 rewards are the model's own: such a rollout is that without a penalty, bit for bit. A
    penalty that needs the members' spread is not asked then, since asking takes another way through the model.

    With an `ood_terminal_value` a step that the penalty calls outside is the last of its rollout: its row is
    terminal, and its reward includes that value for all that would have followed.
    """
    starts = len(start_obs)
    if horizon < 1 or starts == 0:
        raise ConfigError(f"a rollout needs a step and a start, not {horizon} steps from {starts} starts")
    if penalty is not None and penalty.needs_spread and coefficient == 0.0:
        penalty = None
    spread = penalty is not None and penalty.needs_spread
    obs, start = start_obs, torch.arange(starts, device=start_obs.device)
    rows, dropped = None, 0
    for _ in range(horizon):
        action = _actions(act, obs, policy_generator)
        step = dynamics.step(obs, action, generator, spread)
        weight, below = _penalties(penalty, obs, action, step)
        reward = step.reward if coefficient == 0.0 else step.reward - coefficient * weight
        ended = termination(step.next_obs)
        if ood_terminal_value is not None and coefficient != 0.0:
            reward, ended = torch.where(below, reward + ood_terminal_value, reward), ended | below
        fields: Fields = (
            obs,
            action,
            reward,
            step.next_obs,
            ended.to(reward),
            weight,
            step.reward,
            below,
            start,
        )
        finite = reward.isfinite() & step.next_obs.isfinite().all(-1)
        if not finite.all():
            finite_rows = finite.nonzero().squeeze(-1)
            dropped += len(finite) - len(finite_rows)
            fields, ended = tuple(field[finite_rows] for field in fields), ended[finite_rows]
        if rows is None:
            rows = _Rows(horizon * starts, fields)
        rows.add(fields)
        obs, start = fields[3], fields[8]
        if ended.any():
            alive = (~ended).nonzero().squeeze(-1)
            obs, start = obs[alive], start[alive]
        if len(obs) == 0:
            break
    assert rows is not None
    filled: list[Any] = [*rows.filled(), starts, dropped]
    return ImaginedTransitions(*filled)


def with_random_noise_scale(act: ActFn, noise: float) -> ActFn:
    """The same actor with a hand that shakes: each row by a spread of its own between 0 and `noise`."""

    def shaken(
        obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        action, carry = act(obs, carry, generator)
        if generator is None:
            return action, carry
        share = torch.rand(len(action), 1, generator=generator, device=generator.device).to(action)
        unit_noise = standard_noise(action.shape, generator, action)
        return torch.addcmul(action, noise * share, unit_noise).clamp(-1.0, 1.0), carry

    return shaken


def _actions(act: ActFn, obs: Tensor, generator: torch.Generator | None) -> Tensor:
    if obs.device.type != "cpu":
        return act(obs, (), generator)[0]
    return torch.cat([act(part, (), generator)[0] for part in obs.split(PIECE)])


def _penalties(
    penalty: PenaltyFn | None, obs: Tensor, action: Tensor, step: ModelStep
) -> tuple[Tensor, Tensor]:
    if penalty is None:
        return torch.zeros_like(step.reward), torch.zeros_like(step.reward, dtype=torch.bool)
    weight, below = penalty(obs, action, step)
    assert weight.shape == below.shape == step.reward.shape, (weight.shape, below.shape, step.reward.shape)
    return weight, below
