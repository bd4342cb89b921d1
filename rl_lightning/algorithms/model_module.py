"""Base of the algorithms that model something: they are evaluated on rows that were held out."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
import torch

from rl_lightning.algorithms.rl_module import RLModule
from rl_lightning.errors import ConfigError
from rl_lightning.rollout.rounds import EvaluationRound
from rl_lightning.types import EnvSpec, Transitions


class ModelModule(RLModule):
    """A model of something. A subclass defines `validate`, `update` and `configure_optimizers`.

    Args:
        spec: What the env or data set is like; filled in from the data.
    """

    evaluated_on: ClassVar[Literal["episodes", "rows"]] = "rows"

    def __init__(self, spec: EnvSpec) -> None:
        super().__init__(spec)
        self.assessed: dict[str, Any] | None = None
        self.evaluated: dict[str, float] | None = None  # the newest evaluation of a fit
        self.closing = False  # it was made because the run ended, not because it was due
        self._fresh: dict[str, float] | None = None

    def validate(self, data: Any) -> dict[str, float]:
        """Its scores on held-out rows; `eval/score`, higher is better, ranks it."""
        raise TypeError(f"{type(self).__name__} must define assess(data)")

    def on_validation(self, metrics: dict[str, float]) -> None:
        """Told of each assessment in training; a model keeps its best weights here, and counts its patience."""

    def test_report(self, data: Any) -> dict[str, Any]:
        """What `rl test` says of it: numbers, perhaps in groups."""
        return dict(self.validate(data))

    def predict_rows(self, rows: Transitions) -> dict[str, np.ndarray]:
        """What `rl predict` writes of it, for rows of a data set."""
        raise ConfigError(f"{type(self).__name__} predicts nothing for rows of data")

    def validation_step(self, batch: EvaluationRound, batch_idx: int) -> None:
        """All held-out rows; a sanity check looks at them, too, and nothing is kept of it."""
        with torch.random.fork_rng(devices=[]):
            if self.trainer.state.fn != "fit":
                self._test(batch)
                return
            metrics = self.validate(batch.source)
            if not self.trainer.sanity_checking:
                self.on_validation(metrics)
                self._fresh = metrics

    def test_step(self, batch: EvaluationRound, batch_idx: int) -> None:
        with torch.random.fork_rng(devices=[]):
            self._test(batch)

    def _test(self, batch: EvaluationRound) -> None:
        self.assessed = self.test_report(batch.source)
        self._fresh = {k: float(v) for k, v in self.assessed.items() if isinstance(v, int | float)}

    def predict_step(self, batch: EvaluationRound, batch_idx: int) -> dict[str, np.ndarray]:
        """What it says of the held-out rows."""
        return self.predict_rows(batch.source.val_rows())

    def summarize_evaluation(self) -> dict[str, float]:
        fresh, self._fresh = self._fresh, None
        if fresh and self.trainer.state.fn == "fit":
            self.evaluated, self.closing = fresh, not self.clock.epoch_over
        return fresh or {}
