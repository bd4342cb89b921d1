"""How sure a policy is of the actions that it writes down, and how far they lie from what was recorded."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rl_lightning.artifacts import load_exported
from rl_lightning.datamodules.model_rollout_data import ModelRolloutData
from rl_lightning.errors import ConfigError
from rl_lightning.io.artifact_place import Artifact, find_artifact
from rl_lightning.models.density.calibrated import CalibratedDensity
from rl_lightning.models.dynamics.ensemble_dynamics import EnsembleDynamics
from rl_lightning.runs.agents.in_model import PERCENTILE, density_of, percentile_of
from rl_lightning.types import Carry

DRAWS = 32  # of each action, for its spread
PIECE = 4096


class Judges(NamedTuple):
    """What says how likely an action is where it is taken.

    Args:
        density: Scores rows; null: nobody does.
        dynamics: Says what would follow; null: nobody does.
        percentile: Percentage of held-out rows below the density's threshold.
    """

    density: CalibratedDensity | None = None
    dynamics: EnsembleDynamics | None = None
    percentile: float = PERCENTILE


def judges_of(data: Any, density: str | None, dynamics: str | None) -> Judges:
    """Those that are named, else those that the run was penalised or evaluated by.

    Args:
        data: Of the run.
        density: Artifact of a density stage; null: the run's own.
        dynamics: Artifact of a dynamics stage; null: the run's own.
    """
    density = density or there(density_of(data))
    known = data.artifact if isinstance(data, ModelRolloutData) else None
    if known is None and data.eval_model is not None:
        known = data.eval_model.dynamics
    dynamics = dynamics or there(known)
    scores: Any = None if density is None else load_exported(density, "density")
    if scores is not None and not isinstance(scores, CalibratedDensity):
        raise ConfigError(f"{density} exports a {type(scores).__name__}; a density is needed here")
    model: Any = None if dynamics is None else load_exported(dynamics, "dynamics")
    if scores is not None and scores.density_of != "obs_action" and model is None:
        raise ConfigError(
            f"{density} is a density of {scores.density_of.replace('_', ' ')}, and what follows is not known: name "
            "a model with --dynamics RUN/dynamics"
        )
    return Judges(scores, model, percentile_of(data))


def there(artifact: Artifact | None) -> str | None:
    """A run's own artifact, unless it is gone: the run acts without it."""
    return None if artifact is None or find_artifact(artifact) is None else str(artifact)


@torch.no_grad()
def spread(model: Any, obs: Tensor, carry: Carry, mask: Tensor | None, draws: int, seed: int) -> np.ndarray:
    """So many draws of each action, as the policy draws them when it explores.  -> [draws, B, ...]"""
    own = torch.Generator().manual_seed(seed)
    return np.stack([model.act(obs, carry, own, mask)[0].cpu().numpy() for _ in range(draws)])


def uncertainty(
    played: np.ndarray, samples: np.ndarray, half_widths: np.ndarray | None
) -> dict[str, np.ndarray]:
    """Of continuous actions their standard deviation in the env's own scale, of discrete ones how often they are drawn.

    Args:
        played: What evaluation plays [N, ...].
        samples: Draws of it [draws, N, ...].
        half_widths: Of the bounds of continuous actions; null: they are discrete.
    """
    if half_widths is not None:
        return {"action_std": (samples.std(0) * half_widths).astype(np.float32)}
    same = (samples == played).reshape(*samples.shape[:2], -1).all(-1)
    return {"action_probability": same.mean(0).astype(np.float32)}


@torch.no_grad()
def judged(judges: Judges, obs: np.ndarray, action: np.ndarray, prefix: str = "") -> dict[str, np.ndarray]:
    """What the judges say of actions in [-1, 1] where they are taken: `score`, `below_threshold`, `disagreement`."""
    columns: dict[str, list[Tensor]] = {}
    rows = torch.from_numpy(np.ascontiguousarray(obs, np.float32))
    actions = torch.from_numpy(np.ascontiguousarray(action))
    for part, taken in zip(rows.split(PIECE), actions.split(PIECE), strict=True):
        following, reward = torch.zeros_like(part), torch.zeros(len(part))
        if judges.dynamics is not None:
            means = judges.dynamics.predict(part, taken)[0][judges.dynamics.elites]
            following, reward = means.mean(0)[..., :-1], means.mean(0)[..., -1]
            width = means[..., :-1].std(0, correction=0) / judges.dynamics.input_std[: part.shape[1]]
            columns.setdefault("disagreement", []).append(width.square().mean(-1).sqrt())
        if judges.density is not None:
            score = judges.density.score(judges.density.rows(part, taken, following, reward))
            columns.setdefault("score", []).append(score)
            threshold = judges.density.threshold(judges.percentile)
            columns.setdefault("below_threshold", []).append(score < threshold)
    return {prefix + name: torch.cat(parts).numpy() for name, parts in columns.items()}


def summary(arrays: dict[str, np.ndarray]) -> str:
    """What a user should know of the rows before the file is opened."""
    parts = []
    if "action_std" in arrays and len(arrays["action_std"]):
        width = float(arrays["action_std"].mean())
        parts.append(f"standard deviation {width:.4g} on average" if width else "the policy draws nothing")
    for name, who in (
        ("below_threshold", "of the policy's actions"),
        ("recorded_below_threshold", "of the recorded"),
    ):
        if name in arrays and len(arrays[name]):
            parts.append(f"{arrays[name].mean():.1%} {who} below the density's threshold")
    return "; ".join(parts)
