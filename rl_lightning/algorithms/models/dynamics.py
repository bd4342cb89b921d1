"""Learning an ensemble of dynamics models by maximum likelihood (Chua et al. 2018; as in MBPO, MOPO and GORMPO)."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from rl_lightning.algorithms.model_module import ModelModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.artifacts import Exported
from rl_lightning.envs.termination import Termination, termination_for
from rl_lightning.errors import ConfigError
from rl_lightning.models.dynamics import dynamics_metrics as checks
from rl_lightning.models.dynamics.ensemble_dynamics import EnsembleDynamics, gaussian_nll
from rl_lightning.optim.optimizers import Adam, OptimizerFactory
from rl_lightning.ranges import NonNegativeFloat, PositiveFloat, PositiveInt
from rl_lightning.types import EnvSpec, Transitions

OPEN_LOOP_STEPS = (1, 3, 5, 8, 15)


class Dynamics(ModelModule):
    """An ensemble that predicts the change of the observation and the reward; each member's best weights are kept.

    Args:
        spec: What the env or data set is like; filled in from the data.
        ensemble_size: Networks in all; 1 is a single model. With data.ensemble_bootstrap at the same number each has
            its own rows.
        num_elites: Networks, best on held-out rows first, that later stages use.
        hidden_dims: Width of each hidden layer (swish).
        probabilistic: Predict a variance, too; off: the mean alone, by squared error.
        standardize_targets: Learn changes and rewards in units of their own spread in the data.
        lr: Learning rate.
        optimizer: The optimizer, without its learning rate.
        weight_decays: L2 penalty of each layer's weights, first to last; null: 2.5e-5, 5e-5, 7.5e-5 ..., 1e-4.
        weight_decay_scale: Multiplies all of them (0.5 in MOPO's implementations, 1 in GORMPO's).
        logvar_loss_coef: Weight of the distance between the learned bounds of the log-variance.
        max_grad_norm: Gradients are scaled down to this norm; null never.
        eval_rows: Most held-out rows that an evaluation looks at.
        improvement_threshold: Share by which a member's held-out error must fall for its weights to be kept.
        patience: Evaluations without any such member after which training ends.
        termination: When an episode ends, for the report; null: by the env's name, if it is known.
    """

    learns_from = (Transitions,)
    needs_columns = ("rewards",)
    models_next_obs = True
    action_kinds = ("continuous",)
    stale: Tensor

    def __init__(
        self,
        spec: EnvSpec,
        ensemble_size: PositiveInt = 7,
        num_elites: PositiveInt = 5,
        hidden_dims: list[PositiveInt] = [200, 200, 200, 200],  # noqa: B006  (copied, never mutated)
        probabilistic: bool = True,
        standardize_targets: bool = False,
        lr: NonNegativeFloat = 1e-3,
        optimizer: OptimizerFactory | None = None,
        weight_decays: list[float] | None = None,
        weight_decay_scale: float = 0.5,
        logvar_loss_coef: float = 0.01,
        max_grad_norm: PositiveFloat | None = None,
        eval_rows: PositiveInt = 5000,
        improvement_threshold: float = 0.01,
        patience: PositiveInt = 5,
        termination: Termination | None = None,
    ) -> None:
        super().__init__(spec)
        if len(spec.obs_shape) != 1:
            raise ConfigError(f"Dynamics needs flat observations; {spec.env_id} has shape {spec.obs_shape}")
        if weight_decays is not None and len(weight_decays) != len(hidden_dims) + 1:
            raise ConfigError(
                f"model.weight_decays has {len(weight_decays)} numbers; the network has {len(hidden_dims) + 1} layers"
            )
        self.model = EnsembleDynamics(
            spec.obs_shape[0],
            spec.action_dim,
            ensemble_size,
            num_elites,
            hidden_dims,
            probabilistic,
            standardize_targets,
        )
        self.best = copy.deepcopy(self.model).requires_grad_(False)
        self.lr, self.optimizer, self.max_grad_norm = lr, optimizer or Adam, max_grad_norm
        self.weight_decays = [
            weight_decay_scale * value
            for value in weight_decays or default_weight_decays(len(hidden_dims) + 1)
        ]
        self.logvar_loss_coef, self.eval_rows = logvar_loss_coef, eval_rows
        self.ensemble_size = ensemble_size
        self.improvement_threshold, self.patience, self.termination = (
            improvement_threshold,
            patience,
            termination,
        )
        self.register_buffer("stale", torch.zeros((), dtype=torch.int64))  # evaluations without improvement

    def on_fit_start(self) -> None:
        if not self.model.fitted:  # after a resume the scales are those that the weights were learned with
            rows = self.data_source.train_rows()
            self.fit_statistics(rows)

    def fit_statistics(self, rows: Transitions) -> None:
        for model in (self.model, self.best):
            model.fit_statistics(rows.obs, rows.action, rows.reward, rows.next_obs)

    def update(self, batch: Transitions) -> Metrics:
        """One step of all members on rows [B, ...], or on rows of their own [E, B, ...]."""
        loss, metrics = self.loss(batch)
        self.step(self.raw_optimizers()[0], loss, self.max_grad_norm)
        return metrics

    def loss(self, batch: Transitions) -> tuple[Tensor, Metrics]:
        """Sum of the members' losses. The weights' decay is not in it: it goes straight into the gradient."""
        model = self.model
        mean, log_var = model(model.inputs(batch.obs, batch.action))
        target = model.targets(batch.obs, batch.reward, batch.next_obs)
        error = (mean.detach() - target).square().mean()
        if log_var is None:
            loss = (mean - target).square().mean((-2, -1)).sum()
            return loss, {"train/loss": loss, "train/mse": error}
        bounds = model.max_log_var.sum() - model.min_log_var.sum()
        loss = gaussian_nll(mean, log_var, target).sum() + self.logvar_loss_coef * bounds
        return loss, {"train/loss": loss, "train/mse": error, "train/log_var": log_var.detach().mean()}

    def configure_optimizers(self) -> Optimizer:
        """A group for each layer's weights, so that the optimizer adds their decay to the gradient at no cost.

        The gradient of d * |W|^2 is 2 d W; an optimizer's weight_decay w adds w W.
        """
        optimizer = self.optimizer(self.model.parameters(), self.lr)
        (group,) = optimizer.param_groups
        weights: list[Any] = [layer.weight for layer in self.model.layers]
        others = [p for p in group["params"] if not any(p is weight for weight in weights)]
        own = group["weight_decay"]
        optimizer.param_groups[:] = [
            {**group, "params": [weight], "weight_decay": own + 2.0 * decay}
            for weight, decay in zip(weights, self.weight_decays, strict=True)
        ] + [{**group, "params": others}]
        return optimizer

    def validate(self, data: Any) -> dict[str, float]:
        """The members on held-out rows. The score is minus the error of the elites that would now be handed on."""
        rows = self._here(checks.subsample(data.val_rows(), self.eval_rows))
        errors = checks.squared_errors(self.model, rows).mean(-1)
        best_errors = torch.where(self._improved(errors), errors, self.best.holdout.to(errors))
        score = -float(best_errors.sort().values[: len(self.best.elites)].mean())
        members = {f"eval/val_mse_member_{k}": float(error) for k, error in enumerate(errors)}
        return {"eval/score": score, "eval/val_mse": float(errors.mean()), **members}

    def _improved(self, errors: Tensor) -> Tensor:
        best = self.best.holdout.to(errors)
        return errors.isfinite() & (best.isinf() | (best - errors > self.improvement_threshold * best))

    @torch.no_grad()
    def on_validation(self, metrics: dict[str, float]) -> None:
        """Keeps the weights of each member that has improved, and chooses the elites."""
        member_errors = [metrics[f"eval/val_mse_member_{k}"] for k in range(self.model.ensemble_size)]
        errors = torch.tensor(member_errors, dtype=torch.float64, device=self.best.holdout.device)
        improved = self._improved(errors)
        self.stale.copy_(torch.where(improved.any(), 0, self.stale + 1))
        if not improved.any():
            return
        for best, new in zip(self.best.parameters(), self.model.parameters(), strict=True):
            if best.ndim == 3:
                best[improved] = new[improved]
            else:  # the bounds of the log-variance, which all members share
                best.copy_(new)
        self.best.holdout[improved] = errors[improved].to(self.best.holdout)
        self.best.elites.copy_(self.best.holdout.argsort(stable=True)[: len(self.best.elites)])

    @property
    def should_stop(self) -> bool:
        return bool(self.stale >= self.patience)

    def test_report(self, data: Any) -> dict[str, Any]:
        """The kept members on all held-out rows: errors, calibration, rollouts along episodes, terminations."""
        model, rows = self.best, self._here(data.val_rows())
        errors = checks.squared_errors(model, rows)
        elite = errors.mean(-1)[model.elites].mean()
        names = [*(f"obs_{i}" for i in range(model.obs_dim)), "reward"]
        report: dict[str, Any] = {
            "eval/score": -float(elite),
            "rows": len(rows.obs),
            "elites": model.elites.tolist(),
            "member_error": {f"member_{k}": float(error) for k, error in enumerate(errors.mean(-1))},
            "rmse": dict(zip(names, errors[model.elites].mean(0).sqrt().tolist(), strict=True)),
            "error": {
                f"member_{k}": dict(zip(names, row.tolist(), strict=True)) for k, row in enumerate(errors)
            },
        }
        if model.probabilistic:
            report["calibration"] = checks.calibration(model, rows)
        report["open_loop"] = self._open_loop(data, rows.index)
        rule = self._rule()
        if rule is not None:
            report["termination"] = checks.terminal_recall(model, rows, rule)
        return report

    def _open_loop(self, data: Any, first: Tensor) -> dict[str, float]:
        """From held-out rows along their episodes: as many steps as any of those are long."""
        whole = data.dataset
        episode = torch.where(whole.next_known, whole.episode, -1)
        for length in reversed(OPEN_LOOP_STEPS):
            index = checks.windows(episode, first.cpu(), length, 1000)
            if len(index):
                obs, action, next_obs = (
                    part[index].to(self.device) for part in (whole.obs, whole.action, whole.next_obs)
                )
                return checks.open_loop(self.best, obs, action, next_obs, OPEN_LOOP_STEPS)
        return {}

    def _rule(self) -> Termination | None:
        if self.termination is not None:
            return self.termination
        try:
            return termination_for(self.spec.env_id)
        except ConfigError:
            return None  # an env of the user's own: its report does without

    @torch.no_grad()
    def predict_rows(self, rows: Transitions) -> dict[str, np.ndarray]:
        """The elites' mean prediction, their mean standard deviation, and the largest norm of it (`std_norm`)."""
        columns: dict[str, list[Tensor]] = {"next_obs": [], "reward": [], "std": [], "std_norm": []}
        for part in checks.chunks(self._here(rows)):
            mean, std = (of[self.best.elites] for of in self.best.predict(part.obs, part.action))
            middle = mean.mean(0)
            values = (middle[:, :-1], middle[:, -1], std.mean(0), std.norm(dim=-1).amax(0))
            for name, value in zip(columns, values, strict=True):
                columns[name].append(value.cpu())
        return {name: torch.cat(values).numpy() for name, values in columns.items()}

    def _here(self, rows: Transitions) -> Transitions:
        return checks.map_fields(rows, lambda field: field.to(self.device))

    def exports(self) -> dict[str, Exported]:
        path = f"{EnsembleDynamics.__module__}.{EnsembleDynamics.__qualname__}"
        return {"dynamics": Exported(path, self.best.init_args(), "best.")}


def default_weight_decays(layers: int) -> list[float]:
    """The numbers of PETS and its descendants for five layers, and their like for fewer or more."""
    if layers < 3:
        return [2.5e-5, 1e-4][-layers:]
    return [2.5e-5, 5e-5, *[7.5e-5] * (layers - 3), 1e-4]
