"""Ways to run an algorithm from a test: the whole Trainer, or the same loop bare."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from contracts.case import Case
from contracts.left import assert_same, column, metrics, newest, state
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import Checkpoint

from rl_lightning.callbacks import (
    EvaluationHistory,
    LogConfig,
    Phases,
    RunController,
    Titles,
    default_callbacks,
    make_loggers,
)
from rl_lightning.callbacks.run_controller import ClockLimit
from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.seeding import seed_globals
from rl_lightning.types import EnvSpec

__all__ = [
    "Bare", "Fitted", "Taken", "assert_same", "bare", "column", "differing", "fit", "metrics", "newest", "observed",
    "state", "updates_due", "weights",
]  # fmt: skip


class Fitted(NamedTuple):
    model: Any
    data: Any
    trainer: Trainer
    folder: Path | None

    @property
    def evaluation(self) -> EvaluationHistory:
        return next(item for item in self.trainer.callbacks if isinstance(item, EvaluationHistory))


def fit(
    case: Case,
    run: RunConfig,
    seed: int = 0,
    folder: Path | None = None,
    callbacks: list[Any] | None = None,
    log_every: int | None = None,
    until: int | None = None,
    resume: bool = False,
    phases: list[Any] | None = None,
    last: Sequence[Callback] = (),
    **trainer: Any,
) -> Fitted:
    """One fit in fresh objects as `rl fit` and, with `resume`, `rl resume` make it.

    Without a folder nothing is written and nothing evaluated. `until` stops the run at a clock before its budget.
    """
    seed_globals(seed)
    data = case.data()
    model = case.model(data.spec)
    data.configure(run, seed)
    loggers: Any = False
    generation: Path | None = None
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        log = LogConfig(tensorboard=False, every=log_every or max(1, (run.env_steps or 100) // 5))
        loggers = make_loggers(folder, log, Titles("task", "group", "name", [], "id"))
        generation = newest(folder) if resume else None
        if callbacks is None:
            callbacks = default_callbacks(folder, log, resume_from=generation)
    callbacks = [RunController()] if callbacks is None else callbacks
    first = [*([Phases(phases)] if phases else []), *([ClockLimit(until)] if until is not None else [])]
    engine = Trainer(
        max_epochs=-1,
        limit_val_batches=1.0 if folder else 0,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        accelerator="cpu",
        logger=loggers,
        callbacks=[*first, *callbacks, *last],
        default_root_dir=folder,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=any(isinstance(item, Checkpoint) for item in [*callbacks, *last]),
        **trainer,
    )
    path = generation / "model.ckpt" if generation else None
    engine.fit(model, datamodule=data, ckpt_path=path, weights_only=True)
    return Fitted(model, data, engine, folder)


class Taken:
    """The batches of a block, taken now and handed out as often as they are asked for; no clock moves."""

    def __init__(self, block: Any) -> None:
        self.batches = list(block.batches)
        self.hook, self.phase = block.hook, block.phase  # a phase tells them when it is walked

    def __iter__(self) -> Any:
        return iter(self.batches)

    @property
    def updates(self) -> int:
        return len(self.batches)

    @property
    def stacked(self) -> Any:
        """All of them in one, [U, ...]."""
        fields = zip(*self.batches, strict=True)
        return type(self.batches[0])(*(None if field[0] is None else torch.stack(field) for field in fields))

    def update_priorities(self, index: Any, priorities: Any) -> None:
        """Goes nowhere."""

    def update_latents(self, index: Any, latents: Any) -> None:
        """Goes nowhere."""


class Bare(NamedTuple):
    """A module and its data in the loop of a Trainer, without one."""

    model: Any
    data: Any
    optimizers: list[Any]

    def block(self) -> Taken:
        """The next block that teaches something; those that only collect are passed over."""
        for _ in range(1000):
            if (block := Taken(self.data.next_block())).updates:
                return block
        raise AssertionError("no block with updates")

    def learn(self, block: Any) -> None:
        self.model.training_step(block, 0)

    def turn(self) -> list[Any]:
        """Learns from the next block as in a fit, clocks and priorities and all; returns the batches it had."""
        block, seen = self.data.next_block(), []
        block.watch(seen.append)
        self.learn(block)
        return seen


def bare(case: Case, run: RunConfig | None = None, seed: int = 0) -> Bare:
    seed_globals(seed)
    data = case.data()
    model = case.model(data.spec)
    data.configure(run or RunConfig(**{f"{data.clock_name}s": 100_000}), seed)
    data.connect(model)
    model.setup("fit")
    model.on_fit_start()
    return Bare(model, data, model.raw_optimizers())


def observed(spec: EnvSpec, count: int = 2) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Observations of as many envs, and what is legal there."""
    draw = torch.Generator().manual_seed(0)
    shape = (count, *spec.obs_shape)
    obs = torch.randint(0, 2, shape, generator=draw, dtype=torch.uint8) if spec.obs_dtype == "uint8" else None
    mask = torch.ones(count, spec.action_dim, dtype=torch.bool) if spec.action_mask else None
    return torch.rand(shape, generator=draw) if obs is None else obs, mask


def weights(model: Any) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def differing(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> set[str]:
    """Names of the tensors that are not bit for bit the same."""
    assert before.keys() == after.keys(), before.keys() ^ after.keys()
    return {name for name in before if not torch.equal(before[name], after[name])}


def updates_due(ratio: float, steps: int, start: int) -> int:
    return math.floor(ratio * max(0, steps - start))
