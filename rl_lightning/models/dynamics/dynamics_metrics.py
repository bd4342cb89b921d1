"""How good a dynamics model is, on rows that it has not seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from rl_lightning.models.dynamics.ensemble_dynamics import EnsembleDynamics
from rl_lightning.types import Transitions

PIECE = 4096  # rows looked at together


def map_fields(rows: Transitions, change: Callable[[Tensor], Tensor]) -> Transitions:
    """The same rows with every column changed."""
    return Transitions(*(None if field is None else change(field) for field in rows))  # type: ignore[arg-type]


def chunks(rows: Transitions) -> Iterator[Transitions]:
    for begin in range(0, len(rows.obs), PIECE):
        yield map_fields(rows, lambda field: field[begin : begin + PIECE])  # noqa: B023  (called at once)


def subsample(rows: Transitions, limit: int) -> Transitions:
    """At most `limit` of the rows, evenly spread over them."""
    if len(rows.obs) <= limit:
        return rows
    index = torch.linspace(0, len(rows.obs) - 1, limit, device=rows.obs.device).long()
    return map_fields(rows, lambda field: field[index])


def outcome(rows: Transitions) -> Tensor:
    """What is to be predicted.  -> [B, O+1]"""
    return torch.cat((rows.next_obs, rows.reward.unsqueeze(-1)), -1)


@torch.no_grad()
def squared_errors(model: EnsembleDynamics, rows: Transitions) -> Tensor:
    """Mean squared error of each member's mean, in the data's own units.  -> [E, O+1]"""
    total = torch.zeros(model.ensemble_size, model.obs_dim + 1, dtype=torch.float64, device=rows.obs.device)
    for part in chunks(rows):
        mean, _ = model.predict(part.obs, part.action)
        total += (mean - outcome(part)).square().sum(1)
    return total / len(rows.obs)


@torch.no_grad()
def calibration(model: EnsembleDynamics, rows: Transitions) -> dict[str, float]:
    """Fraction of outcomes within one and two standard deviations of an elite's mean: 0.683 and 0.954 are right."""
    within = torch.zeros(2, dtype=torch.float64)
    for part in chunks(rows):
        mean, std = (of[model.elites] for of in model.predict(part.obs, part.action))
        score = (outcome(part) - mean).abs() / std
        within += torch.stack(((score < 1.0).sum(), (score < 2.0).sum())).double().cpu()
    within /= len(rows.obs) * len(model.elites) * (model.obs_dim + 1)
    return {"within_1_std": float(within[0]), "within_2_std": float(within[1])}


@torch.no_grad()
def terminal_recall(
    model: EnsembleDynamics, rows: Transitions, rule: Callable[[Tensor], Tensor]
) -> dict[str, float]:
    """What the rule says of the elites' predictions: fraction of true ends that it sees, and of false alarms."""
    counts = torch.zeros(4, dtype=torch.float64)  # ends, ends seen, others, false alarms
    for part in chunks(rows):
        mean, _ = model.predict(part.obs, part.action)
        terminal_fraction = rule(mean[model.elites][..., :-1]).double().mean(0)
        true = part.terminated > 0.5
        batch_counts = (
            true.sum(),
            terminal_fraction[true].sum(),
            (~true).sum(),
            terminal_fraction[~true].sum(),
        )
        counts += torch.stack([value.double() for value in batch_counts]).cpu()
    ends, hits, others, alarms = counts.tolist()
    result = {"ends": ends, "false_alarms": alarms / max(others, 1.0)}
    return result | ({"recall": hits / ends} if ends else {})


@torch.no_grad()
def open_loop(
    model: EnsembleDynamics, obs: Tensor, action: Tensor, next_obs: Tensor, steps: tuple[int, ...]
) -> dict[str, float]:
    """Error after so many steps along true actions, each elite going on from its own means.

    Windows of true episodes [W, T, ...] -> root mean square over windows, elites and features, each feature in units
    of its spread in the data.
    """
    scale = model.input_std[: model.obs_dim]
    current = obs[:, 0].expand(model.ensemble_size, -1, -1)
    errors = {}
    for t in range(action.shape[1]):
        current = model.predict(current, action[:, t].expand(model.ensemble_size, -1, -1))[0][..., :-1]
        if t + 1 in steps:
            gap = (current[model.elites] - next_obs[:, t]) / scale
            errors[f"after_{t + 1}"] = float(gap.double().square().mean().sqrt())
    return errors


def windows(episode: Tensor, first: Tensor, length: int, limit: int) -> Tensor:
    """Row numbers [W, T] of at most `limit` stretches within an episode that begin at one of the rows `first`."""
    first = first[first + length <= len(episode)]
    first = first[episode[first] == episode[first + length - 1]]
    if len(first) > limit:
        first = first[torch.linspace(0, len(first) - 1, limit).long()]
    return first.unsqueeze(1) + torch.arange(length)
