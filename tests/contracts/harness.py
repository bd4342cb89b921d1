"""Ways to run an algorithm from a test: the whole Trainer, or the same loop bare."""

import math
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from contracts.cases import Case
from contracts.left import assert_same, column, metrics, newest, state
from lightning.pytorch import Callback, Trainer

from rl_lightning.callbacks import (
    Control,
    Evaluate,
    LogConfig,
    Phases,
    TellTime,
    Titles,
    default_callbacks,
    make_loggers,
)
from rl_lightning.callbacks.control import StopAt
from rl_lightning.datamodules import SequenceData
from rl_lightning.rollout.schedule import RunConfig
from rl_lightning.seeding import seed_globals

__all__ = [
    "Bare", "Fitted", "assert_same", "bare", "column", "differing", "fit", "metrics", "newest", "set_optimizers",
    "state", "updates_due", "weights",
]  # fmt: skip


class Fitted(NamedTuple):
    model: Any
    data: Any
    trainer: Trainer
    folder: Path | None

    @property
    def evaluation(self) -> Evaluate:
        return next(item for item in self.trainer.callbacks if isinstance(item, Evaluate))


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
    callbacks = [TellTime(), Control()] if callbacks is None else callbacks
    first = [*([Phases(phases)] if phases else []), *([StopAt(until)] if until is not None else [])]
    engine = Trainer(
        max_epochs=-1,
        limit_val_batches=0,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        accelerator="cpu",
        logger=loggers,
        callbacks=[*first, *callbacks, *last],
        default_root_dir=folder,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        **trainer,
    )
    path = generation / "model.ckpt" if generation else None
    engine.fit(model, datamodule=data, ckpt_path=path, weights_only=True)
    return Fitted(model, data, engine, folder)


class Bare(NamedTuple):
    """A module and its data in the loop of a Trainer, without one."""

    model: Any
    data: Any
    optimizers: list[Any]

    def block(self) -> Any:
        """The next block that teaches something; turns that only collect are passed over."""
        for _ in range(1000):
            block = self.data.next_block()
            if block.updates:
                return drawn(block) if isinstance(self.data, SequenceData) else block
        raise AssertionError("no block with updates")

    def learn(self, block: Any) -> None:
        self.model.training_step(block, 0)


class Drawn:
    """Batches that a block would draw one by one, drawn now and handed out in turn, as often as they are asked for."""

    def __init__(self, batches: list[Any]) -> None:
        self.batches, self.turn = batches, 0

    def __call__(self) -> Any:
        self.turn += 1
        return self.batches[(self.turn - 1) % len(self.batches)]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.batches[0], name)


def drawn(block: Any) -> Any:
    return block._replace(batch=Drawn([block.batch() for _ in range(block.updates)]))


def bare(case: Case, run: RunConfig | None = None, seed: int = 0) -> Bare:
    seed_globals(seed)
    data = case.data()
    model = case.model(data.spec)
    data.configure(run or RunConfig(env_steps=100_000), seed)
    trainer: Any = SimpleNamespace(lightning_module=model, global_rank=0, world_size=1, datamodule=data)
    data.trainer = model.trainer = trainer
    data.setup("fit")
    return Bare(model, data, set_optimizers(model))


def set_optimizers(model: Any) -> list[Any]:
    """Makes the module's optimizers and hands them to it as a Trainer would."""
    made = model.configure_optimizers()
    optimizers = [] if made is None else list(made) if isinstance(made, list | tuple) else [made]
    model.raw_optimizers = lambda: optimizers
    return optimizers


def weights(model: Any) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def differing(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> set[str]:
    """Names of the tensors that are not bit for bit the same."""
    assert before.keys() == after.keys(), before.keys() ^ after.keys()
    return {name for name in before if not torch.equal(before[name], after[name])}


def updates_due(ratio: float, steps: int, start: int) -> int:
    return math.floor(ratio * max(0, steps - start))
