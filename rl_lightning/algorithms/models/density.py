"""Learns where the data lie: a density of experience, its best weights on held-out rows, and its thresholds."""

from __future__ import annotations

import copy
import math
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from rl_lightning.algorithms.model_module import ModelModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.artifacts import Exported
from rl_lightning.errors import ConfigError
from rl_lightning.functional.density_penalties import auroc, percentile_of, quantile_grid
from rl_lightning.models.density import CalibratedDensity, DensityFactory, RealNVP
from rl_lightning.models.described import describe
from rl_lightning.optim.optimizers import Adam, OptimizerFactory
from rl_lightning.ranges import NonNegativeFloat, Percentage, PositiveFloat, PositiveInt
from rl_lightning.types import EnvSpec, Transitions

PERCENTILES = (1.0, 5.0, 10.0)
SHIFTS = (
    0.25,
    0.5,
    1.0,
)  # noise that makes outside rows of held-out ones, in standard deviations of each column
REPORT_ROWS = 40_000


class Density(ModelModule):
    """Fits a density model by maximum likelihood and calibrates it on held-out rows.

    Args:
        spec: What the data set is like; filled in from the data.
        density_model: The model: RealNVP, KDE, VAEDensity, ODEFlow, DiffusionDensity, or one of your own.
        density_of: What a row is made of.
        lr: Learning rate.
        optimizer: The optimizer, without its learning rate; null: Adam.
        max_grad_norm: Gradients are scaled down to this norm; null never.
        patience: Evaluations without a better held-out score that end the run.
        lr_patience: Evaluations without a better held-out score after which the learning rate is halved.
        eval_rows: Most held-out rows that an evaluation scores; calibration uses all.
        percentile: Percentage of held-out rows below the threshold that `rl predict` marks rows by.
    """

    learns_from = (Transitions,)
    fitted: Tensor
    evaluations: Tensor
    best_score: Tensor
    stale: Tensor

    def __init__(
        self,
        spec: EnvSpec,
        density_model: DensityFactory = RealNVP,
        density_of: Literal[
            "obs_action", "next_obs_action", "obs_action_next_obs", "action_reward"
        ] = "next_obs_action",
        lr: NonNegativeFloat = 1e-3,
        optimizer: OptimizerFactory | None = None,
        max_grad_norm: PositiveFloat | None = 5.0,
        patience: PositiveInt = 12,
        lr_patience: PositiveInt = 4,
        eval_rows: PositiveInt = 10_000,
        percentile: Percentage = 1.0,
    ) -> None:
        super().__init__(spec)
        if spec.is_pixels:
            raise ConfigError("a density_model is learned of flat observations; this data set has images")
        self.lr, self.optimizer, self.max_grad_norm = lr, optimizer or Adam, max_grad_norm
        self.patience, self.lr_patience, self.eval_rows = patience, lr_patience, eval_rows
        self.percentile = percentile
        self.needs_columns = ("rewards",) if density_of == "action_reward" else ()
        self.models_next_obs = density_of in ("next_obs_action", "obs_action_next_obs")
        self.init_args: dict[str, Any] = {
            "density_model": describe(density_model),
            "obs_dim": math.prod(spec.obs_shape),
            "action_dim": spec.action_dim,
            "density_of": density_of,
            "action_sizes": list(spec.action_sizes),
        }
        self.model = CalibratedDensity(**self.init_args)
        self.best = copy.deepcopy(self.model).requires_grad_(False)
        self.register_buffer("fitted", torch.zeros((), dtype=torch.bool))
        self.register_buffer("evaluations", torch.zeros((), dtype=torch.int64))
        self.register_buffer("best_score", torch.full((), -math.inf, dtype=torch.float64))
        self.register_buffer("stale", torch.zeros((), dtype=torch.int64))  # evaluations since the best one

    @property
    def looks_by_passes(self) -> bool:  # type: ignore[override]
        return self.model.trains

    def on_fit_start(self) -> None:
        if not self.fitted:  # a resumed run has its statistics from the checkpoint
            self.prepare(self.data_source.train_rows())

    def prepare(self, rows: Transitions) -> None:
        """Takes the scale of the inputs, and whatever else needs no gradient, from the training rows."""
        self.model.net.fit_statistics(self.inputs(rows))
        self.best.load_state_dict(self.model.state_dict())
        self.fitted.fill_(True)

    def inputs(self, rows: Transitions) -> Tensor:
        return self.model.rows(rows.obs, rows.action, rows.next_obs, rows.reward).to(self.device)

    def update(self, batch: Transitions) -> Metrics:
        if not self.model.trains:
            return {}
        (optimizer,) = self.raw_optimizers()
        loss = self.model.net.loss(self.inputs(batch))
        norm = self.step(optimizer, loss, self.max_grad_norm)
        return {"train/nll": loss.detach()} | ({} if norm is None else {"train/grad_norm": norm})

    def validate(self, data: Any) -> dict[str, float]:
        scores = self.model.score(self.inputs(subsample_rows(data.val_rows(), self.eval_rows)))
        return {"eval/score": float(scores.double().mean()), "eval/score_std": float(scores.double().std())}

    def on_validation(self, metrics: dict[str, float]) -> None:
        self.evaluations += 1
        if metrics["eval/score"] > self.best_score:
            self.best_score.fill_(metrics["eval/score"])
            self.stale.zero_()
            self.best.load_state_dict(self.model.state_dict())
            self.best.calibrate(self.inputs(self.data_source.val_rows()))
            return
        self.stale += 1
        if self.model.trains and self.stale % self.lr_patience == 0:
            for group in self.raw_optimizers()[0].param_groups:  # saved and restored with the optimizer
                group["lr"] *= 0.5

    @property
    def should_stop(self) -> bool:
        return bool(self.stale >= self.patience if self.model.trains else self.evaluations > 0)

    def test_report(self, data: Any) -> dict[str, Any]:
        """Likelihood, false alarms and detection of the best weights; thresholds come from half of the held-out rows,
        all rates from the other half."""
        generator = torch.Generator().manual_seed(0)
        rows = subsample_rows(data.val_rows(), REPORT_ROWS)
        rows = select_rows(rows, torch.randperm(len(rows.reward), generator=generator))
        half = len(rows.reward) // 2
        known = self.best.score(self.inputs(select_rows(rows, slice(0, half))))
        test = select_rows(rows, slice(half, None))
        x = self.inputs(test)
        inside = self.best.score(x)
        grid = quantile_grid(known)

        def below(scores: Tensor) -> dict[str, float]:
            rates = {p: (scores < percentile_of(grid, p)).double().mean() for p in PERCENTILES}
            return {f"{p:g}%": float(rate) for p, rate in rates.items()}

        order = torch.randperm(len(inside), generator=generator)
        outside = {"shuffled_actions": self.inputs(test._replace(action=test.action[order]))}
        noise = torch.randn(x.shape, generator=generator).to(x) * x.std(0)
        outside |= {f"noise_{size:g}": x + size * noise for size in SHIFTS}
        detected = {}
        for name, shifted in outside.items():
            scores = self.best.score(shifted)
            detected[name] = {"auroc": auroc(inside, scores), "below_threshold": below(scores)}
        likelihood = {"mean": float(inside.double().mean()), "std": float(inside.double().std())}
        return {
            "eval/score": likelihood["mean"],
            "log_likelihood": likelihood,
            "rows": len(inside),
            "false_positive_rate": below(inside),
            "ood": detected,
        }

    def predict_rows(self, rows: Transitions) -> dict[str, np.ndarray]:
        scores = self.best.score(self.inputs(rows))
        below = scores < self.best.threshold(self.percentile)
        return {"score": scores.cpu().numpy(), "below_threshold": below.cpu().numpy()}

    def exports(self) -> dict[str, Exported]:
        path = f"{CalibratedDensity.__module__}.{CalibratedDensity.__name__}"
        return {"density": Exported(path, self.init_args, "best.")}

    def configure_optimizers(self) -> list[Optimizer] | None:
        if not self.model.trains:
            return None
        return [self.optimizer(self.model.parameters(), self.lr)]


def subsample_rows(rows: Transitions, most: int) -> Transitions:
    """At most so many rows, spread evenly over all."""
    count = len(rows.reward)
    return (
        rows
        if count <= most
        else select_rows(rows, torch.linspace(0, count - 1, most, dtype=torch.float64).long())
    )


def select_rows(rows: Transitions, index: Tensor | slice) -> Transitions:
    return Transitions(*(None if field is None else field[index] for field in rows))  # type: ignore[arg-type]
