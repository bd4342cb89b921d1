"""The base of all algorithms: runs the update rule over a block of batches and keeps what it measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from rl_lightning.algorithms.hooks import BackwardHooks
from rl_lightning.algorithms.hyperparameters import Rebuildable
from rl_lightning.algorithms.step import Stepper
from rl_lightning.clock.phases import PhaseContext
from rl_lightning.clock.run_clock import RunClock
from rl_lightning.errors import ConfigError
from rl_lightning.rollout.block import Block
from rl_lightning.trainer.access import data_of
from rl_lightning.trainer.contract import check_partners, check_trainer
from rl_lightning.trainer.fit_clock import FitClock
from rl_lightning.trainer.loops import stand_between_blocks
from rl_lightning.trainer.metrics_logger import MetricsLogger
from rl_lightning.types import EnvSpec

if TYPE_CHECKING:
    from rl_lightning.artifacts import Exported

Metrics = dict[str, Tensor]


class RLModule(Rebuildable, LightningModule):  # type: ignore[misc]  # its load_from_checkpoint is narrower
    """What policies and models share. An algorithm extends PolicyModule or ModelModule and defines `update` and
    `configure_optimizers`.

    Args:
        spec: What the env or data set is like; filled in from the data.
    """

    gamma = 0.99
    n_step = 1
    # parts that may each be given rows of their own (data.ensemble_bootstrap); 0: all learn from the same
    ensemble_size = 0
    learns_from: ClassVar[tuple[type, ...]] = ()  # kinds of batches; (): any
    needs_fields: ClassVar[
        tuple[str, ...]
    ] = ()  # of batches, beside those that all have: next_action, is_real
    doubts_by_itself: ClassVar[bool] = (
        False  # careful with imagined rows; a penalty of the data's would come twice
    )
    evaluated_on: ClassVar[Literal["episodes", "rows"]] = "episodes"
    looks_by_passes = False  # evaluated by passes over the data until the first regular evaluation
    needs_columns: tuple[str, ...] = ("rewards", "terminals")  # of recorded data; who imitates needs neither
    models_next_obs = False  # True: learns what is observed next, so rows that do not tell it are left out
    newest_is_best = False  # of a model: evaluations do not rank it, the newest weights are its best
    action_kinds: tuple[str, ...] = ("continuous", "discrete", "multi_discrete")
    takes_pictures_beside_vectors: ClassVar[bool] = False  # Dict observations of both

    def __init__(self, spec: EnvSpec) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.spec = spec
        self.phase: PhaseContext | None = None  # in a phase: its fields and progress
        self.clock = RunClock()  # the data's, once there are some
        self.data_source: Any = None  # the data, for `setup`; see rollout/learner.py for what they offer
        self.stepper = Stepper()
        self._own_optimizers: list[Optimizer] | None = None
        self._loss = torch.tensor(float("nan"))  # of the newest update
        self._sums: Metrics = {}
        self._counts: dict[str, int] = {}
        if spec.is_bytes and not self.takes_pictures_beside_vectors:
            raise ConfigError(
                f"{type(self).__name__} sees one array; {spec.env_id or 'the data set'} shows {len(spec.obs_parts)}, "
                "pictures among them. What sees several is in docs/observations.md, or wrap the env to show one"
            )
        if spec.action_kind not in self.action_kinds:
            kinds = " or ".join(kind.replace("_", "-") for kind in self.action_kinds)
            raise ConfigError(
                f"{type(self).__name__} needs {kinds} actions; {spec.env_id} has {spec.action_kind.replace('_', '-')} "
                f"ones. See: rl list algorithms"
            )

    # --------------------------------------------------------------------------------------------- the update rule
    def update(self, batch: Any) -> Metrics:
        """One round of the update rule. `priority` and `latent` go back to the buffer, other metrics are logged."""
        raise TypeError(f"{type(self).__name__} must define update(batch)")

    @property
    def progress(self) -> float:
        """Fraction of the budget that was spent when the current block began."""
        return self.clock.progress

    @property
    def should_stop(self) -> bool:
        """True ends the run before its budget: nothing more is to be gained."""
        return False

    @classmethod
    def update_hooks(cls) -> list[str]:
        """The methods that phases may call: `update`, if the class defines it, and every `update_...`."""
        named = [name for name in dir(cls) if name.startswith("update_") and name != "update_hooks"]
        return [*(["update"] if cls.update is not RLModule.update else []), *named]

    def training_step(self, block: Block, batch_idx: int) -> dict[str, Any]:
        """Learns from every batch of a block, as it comes."""
        for batch in block:
            self.phase = block.phase
            metrics = getattr(self, block.hook)(batch)
            if "priority" in metrics:
                block.update_priorities(batch.index, metrics.pop("priority"))
            if "latent" in metrics:
                block.update_latents(batch.index, metrics.pop("latent"))
            self.log_metrics(metrics)
            if self.stepper.schedulers:
                self.step_schedulers(self.clock.update + 1, "step")
        return {"loss": self._loss, "env_step": self.clock.env_step, "update": self.clock.update}

    def step(self, optimizer: Optimizer, loss: Tensor, clip: float | None = None) -> Tensor | None:
        """One step of one optimizer down the gradient of `loss`; its norm, if it is clipped. See step.py."""
        return self.stepper(optimizer, loss, clip)

    def raw_optimizers(self) -> list[Optimizer]:
        """The optimizers in the order of `configure_optimizers`, without Lightning's wrapper (0.1 ms a step).

        Without a Trainer they are the module's own.
        """
        if self._trainer is not None and self._trainer.optimizers:
            return self._trainer.optimizers
        if self._own_optimizers is None:
            self._own_optimizers = optimizers_of(self.configure_optimizers())
        return self._own_optimizers

    def watch_backward(self, trainer: Trainer) -> None:
        """Calls Lightning's hooks around a backward pass from now on, where somebody overrides one."""
        hooks = BackwardHooks(trainer, self)
        self.stepper.hooks = hooks if hooks.any else None
        self.stepper.schedulers = any(c.interval == "step" for c in trainer.lr_scheduler_configs)

    def step_schedulers(self, count: int, interval: str) -> None:
        """Moves the schedulers of `configure_optimizers`, which Lightning leaves alone in manual optimization."""
        for config in self.trainer.lr_scheduler_configs:
            if config.interval == interval and count % config.frequency == 0:
                plateau = isinstance(config.scheduler, ReduceLROnPlateau)
                metric = (
                    self.trainer.callback_metrics.get(config.monitor or "eval/return") if plateau else None
                )
                if not plateau or metric is not None:
                    self.lr_scheduler_step(config.scheduler, metric)

    # ------------------------------------------------------------------------------------------------ what it measured
    def log_metrics(self, metrics: Metrics) -> None:
        """Adds to the running means; nothing is converted or logged here."""
        for name, value in metrics.items():
            if not isinstance(value, Tensor):
                raise TypeError(
                    f"{type(self).__name__} returned {value!r} as {name}; metrics are scalar tensors"
                )
            value = value.detach()
            self._sums[name] = self._sums[name] + value if name in self._sums else value
            self._counts[name] = self._counts.get(name, 0) + 1
            if name.endswith("loss"):
                self._loss = value

    def metrics_state(self) -> dict[str, Any]:
        """The running means, for a checkpoint between two emissions."""
        return {"sums": {k: v.cpu() for k, v in self._sums.items()}, "counts": dict(self._counts)}

    def load_metrics_state(self, state: dict[str, Any]) -> None:
        self._sums = {k: v.to(self.device) for k, v in state["sums"].items()}
        self._counts = dict(state["counts"])

    def pop_metrics(self) -> dict[str, float]:
        """Means since the last call."""
        means = {name: float(total) / self._counts[name] for name, total in self._sums.items()}
        self._sums, self._counts = {}, {}
        return means

    def settings_now(self) -> dict[str, float]:
        """Learning rates, and the settings that a schedule moves, as they are now; PPO's entropy coefficient too.

        That of the first optimizer is `train/learning_rate`; those of others are called after what they train.
        """
        settings: dict[str, float] = {}
        optimizers = [optimizer for optimizer in self.trainer.optimizers if optimizer.param_groups]
        for place, (owner, optimizer) in enumerate(zip(self._owners(optimizers), optimizers, strict=True)):
            if "lr" in (group := optimizer.param_groups[0]):
                settings[f"train/learning_rate{f'_{owner}' if place else ''}"] = float(group["lr"])
        for name, schedule in vars(self).items():
            start = vars(self).get(name.removesuffix("_schedule"))
            if name.endswith("_schedule") and name != "lr_schedule" and isinstance(start, float):
                settings[f"train/{name.removesuffix('_schedule')}"] = float(
                    schedule.value(start, self.progress)
                )
        if isinstance(ent_coef := vars(self).get("ent_coef"), float):
            settings["train/ent_coef"] = ent_coef
        return settings

    def _owners(self, optimizers: Sequence[Optimizer]) -> list[str]:
        """The part of the module that each optimizer trains first, by a word that no other has: actor, q, alpha."""
        names, owners = {id(weight): name for name, weight in self.named_parameters()}, list[str]()
        for place, optimizer in enumerate(optimizers):
            words = names.get(id(optimizer.param_groups[0]["params"][0]), "").split(".")
            free = [word for word in words if word and not word.isdigit() and word not in owners]
            owners.append(free[0].removeprefix("log_") if free else str(place + 1))
        return owners

    def summarize_evaluation(self) -> dict[str, float]:
        """The `eval/*` metrics of the rounds since the last call, over all ranks; none after a sanity check."""
        return {}

    # --------------------------------------------------------------------------------------------- Lightning's hooks
    def attach(self, source: Any) -> None:
        """Takes the data that the Trainer has; called when it is set up, before `setup`."""
        self.data_source, self.clock = source, source.clock

    def configure_callbacks(self) -> list[Callback]:
        """What every fit needs, unless the Trainer has it; what cannot hold is refused here, before all else."""
        trainer = self.trainer
        check_trainer(trainer)
        check_partners(self, data_of(trainer))
        listed = trainer.callbacks  # type: ignore[attr-defined]
        return [kind() for kind in (MetricsLogger, FitClock) if not any(isinstance(c, kind) for c in listed)]

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(checkpoint)
        stand_between_blocks(checkpoint, self.clock.blocks)

    @property
    def policy_trained(self) -> bool:
        """False while the policy is still the one it was started from: its evaluations are no score of this run."""
        return True

    def caution(self) -> str | None:
        """What somebody who reads this model's result must be told of it, e.g. that it is not final."""
        return None

    def borrowed(self) -> dict[str, nn.Module]:
        """Frozen modules of earlier stages' artifacts that `act` goes through; no checkpoint of this one holds them."""
        return {}

    def exports(self) -> dict[str, Exported]:
        """What later stages may take from this one's artifact, by name."""
        return {}


def optimizers_of(configured: Any) -> list[Optimizer]:
    """The optimizers among all that Lightning lets `configure_optimizers` return."""
    if configured is None:
        return []
    if isinstance(configured, dict):
        return [configured["optimizer"]]
    if isinstance(configured, tuple) and configured and isinstance(configured[0], list):
        configured = configured[0]  # optimizers, schedulers
    if isinstance(configured, list | tuple):
        return [item["optimizer"] if isinstance(item, dict) else item for item in configured]
    return [configured]
