"""What an imagined step pays for lying outside the data: GORMPO's penalties by density, MOPO's by disagreement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from rl_lightning.artifacts import load_exported
from rl_lightning.errors import ConfigError
from rl_lightning.functional import density_penalties as weigh
from rl_lightning.io.artifact_place import Artifact
from rl_lightning.models.density.calibrated import CalibratedDensity
from rl_lightning.ranges import Percentage


class ModelOutcome(Protocol):
    """One step of a learned model, as far as a penalty looks at it."""

    @property
    def next_obs(self) -> Tensor: ...  # [B, O]
    @property
    def reward(self) -> Tensor: ...  # [B]
    @property
    def spread(self) -> Tensor | None: ...  # [B], how far the members' predictions may lie off


class Penalty(ABC):
    """A penalty; `setup` loads what it needs."""

    needs_spread = False

    def setup(self) -> None:  # noqa: B027  (most need nothing)
        """Loads what earlier stages left; called once, before the first step."""

    def artifact(self) -> tuple[Artifact, nn.Module] | None:
        """Path of the artifact that `setup` loaded, and what came of it; None for a penalty that loads nothing."""
        return None

    @abstractmethod
    def __call__(self, obs: Tensor, action: Tensor, step: ModelOutcome) -> tuple[Tensor, Tensor]:
        """Weight of each row [B], finite and not negative, and whether the row counts as outside [B]."""


class NoPenalty(Penalty):
    """Every step is free: MBPO."""

    def __call__(self, obs: Tensor, action: Tensor, step: ModelOutcome) -> tuple[Tensor, Tensor]:
        free = torch.zeros_like(step.reward)
        return free, free.bool()


class EnsembleStdPenalty(Penalty):
    """The largest predicted standard deviation among all models of an ensemble, elites or not (MOPO).

    Args:
        cap: Largest weight of a step; keeps a model that diverges from ruling the buffer.
    """

    needs_spread = True

    def __init__(self, cap: float = 100.0) -> None:
        if cap <= 0.0:
            raise ConfigError(f"cap must be above 0, not {cap}")
        self.cap = cap

    def __call__(self, obs: Tensor, action: Tensor, step: ModelOutcome) -> tuple[Tensor, Tensor]:
        if step.spread is None:
            raise ConfigError("EnsembleStdPenalty needs a dynamics model that tells its spread")
        weight = step.spread.nan_to_num(nan=self.cap, posinf=self.cap).clamp(0.0, self.cap)
        return weight, torch.zeros_like(weight, dtype=torch.bool)


class DensityPenalty(Penalty):
    """Base of the penalties by density: a function of how far a row's score lies below the threshold.

    Args:
        density: Artifact of a density stage.
        percentile: Percentage of held-out rows that lie below the threshold.
        score_unit: What a score is measured in: standard deviations of held-out scores, or nats.
        slope: What a shortfall is multiplied by before it is weighed.
        cap: Largest weight of a step.
    """

    def __init__(
        self,
        density: Artifact,
        percentile: Percentage = 1.0,
        score_unit: Literal["std", "nats"] = "std",
        slope: float = 1.0,
        cap: float = 5.0,
    ) -> None:
        if not 0.0 <= percentile <= 100.0:
            raise ConfigError(f"percentile is {percentile}; it lies between 0 and 100")
        if score_unit not in ("std", "nats"):
            raise ConfigError(f"scale '{score_unit}' is unknown; choose std or nats")
        if slope <= 0.0 or cap <= 0.0:
            raise ConfigError(f"slope and cap must be above 0, not {slope} and {cap}")
        self.density, self.percentile = density, percentile
        self.score_unit, self.slope, self.cap = score_unit, slope, cap
        self.model: CalibratedDensity | None = None

    def setup(self) -> None:
        if self.model is not None:
            return
        density = load_exported(self.density, "density")
        if not isinstance(density, CalibratedDensity):
            raise ConfigError(f"{self.density} exports a {type(density).__name__}; a density is needed here")
        self.use(density)

    def use(self, density: CalibratedDensity) -> None:
        """Takes a density that is ready, instead of one from an artifact."""
        density.threshold(self.percentile)  # says so now if it was never calibrated
        self.model = density

    def artifact(self) -> tuple[Artifact, nn.Module] | None:
        return None if self.model is None else (self.density, self.model)

    @abstractmethod
    def penalty_of(self, u: Tensor) -> Tensor:
        """The weight of a shortfall."""

    def __call__(self, obs: Tensor, action: Tensor, step: ModelOutcome) -> tuple[Tensor, Tensor]:
        assert self.model is not None, "setup() comes before the first step"
        if self.model.std.device != obs.device:
            self.model.to(obs.device)
        score = self.model.score(self.model.rows(obs, action, step.next_obs, step.reward))
        threshold = self.model.threshold(self.percentile)
        unit = self.model.std if self.score_unit == "std" else 1.0
        return self.penalty_of(
            self.slope * weigh.deficit_below_threshold(score, threshold, unit)
        ), score < threshold


class LinearPenalty(DensityPenalty):
    """Grows evenly below the threshold, up to the cap.

    Args:
        slope: Weight of a row one unit below the threshold.
    """

    def penalty_of(self, u: Tensor) -> Tensor:
        return weigh.linear_penalty(u, self.cap)


class InversePenalty(DensityPenalty):
    """The inverse likelihood of a row, relative to the threshold's, less 1.

    Args:
        slope: Exponent of the ratio.
        cap: Largest ratio; the weight is at most 1 less.
    """

    def penalty_of(self, u: Tensor) -> Tensor:
        return weigh.inverse_penalty(u, self.cap)


class ExponentialPenalty(DensityPenalty):
    """Grows exponentially below the threshold, up to the cap.

    Args:
        slope: Rate of the growth.
    """

    def penalty_of(self, u: Tensor) -> Tensor:
        return weigh.exponential_penalty(u, self.cap)


class TanhPenalty(DensityPenalty):
    """Grows below the threshold and levels off at 1; GORMPO's own is `scale: nats, slope: 0.1`.

    Args:
        slope: How steeply the weight begins to grow.
    """

    def penalty_of(self, u: Tensor) -> Tensor:
        return weigh.tanh_penalty(u, self.cap)


class SoftplusPenalty(DensityPenalty):
    """A smooth linear penalty; rows inside pay a little too.

    Args:
        slope: Weight added per unit far below the threshold.
    """

    def penalty_of(self, u: Tensor) -> Tensor:
        return weigh.softplus_penalty(u, self.cap)
