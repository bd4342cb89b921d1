"""Lightning's own counters and loop states, read and set in this one place (Lightning 2.6)."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

from rl_lightning.clock.run_clock import Limits

COUNTS = ("ready", "started", "processed", "completed")


def limits_of(trainer: Trainer) -> Limits:
    """What the Trainer's arguments and checkpoint callbacks say of updates."""
    files = [item for item in trainer.callbacks if isinstance(item, ModelCheckpoint)]  # type: ignore[attr-defined]
    every = {item._every_n_train_steps for item in files}
    epochs = trainer.fit_loop.max_epochs
    return Limits(
        trainer.max_steps if trainer.max_steps > 0 else None,
        epochs if epochs is not None and epochs > 0 else None,
        tuple(sorted(n for n in every if n)),
    )


def set_global_step(trainer: Trainer, updates: int) -> None:
    """Makes `trainer.global_step` the number of updates, however many optimizers each of them moves."""
    progress = trainer.fit_loop.epoch_loop.manual_optimization.optim_step_progress
    progress.total.ready = progress.total.completed = updates


def reached_limit(trainer: Trainer) -> bool:
    """A limit of the Trainer's own that ends it in the middle of an epoch: max_steps, not max_epochs."""
    return 0 < trainer.max_steps <= trainer.global_step


def is_last_block(trainer: Trainer) -> bool:
    """This block ends the epoch: an evaluation follows."""
    return bool(trainer.fit_loop.epoch_loop.batch_progress.is_last_batch)


def stand_between_blocks(checkpoint: dict[str, Any], done_blocks: int) -> None:
    """Rewrites the loops of a checkpoint so that a resume continues with the next block, wherever the file was written.

    Lightning remembers in which hook a file was written, and repeats or leaves out an evaluation accordingly. Here an
    epoch stands between two of its blocks, or is over, evaluation and all, and the next one begins.

    Args:
        checkpoint: As Lightning is about to write it.
        done_blocks: Blocks that the epoch has behind it; 0: it is over, or has not begun.
    """
    if "loops" not in checkpoint:
        return
    fit = checkpoint["loops"]["fit_loop"]
    epochs, blocks, rounds = (
        fit[name]
        for name in ("epoch_progress", "epoch_loop.batch_progress", "epoch_loop.val_loop.batch_progress")
    )
    for part in ("total", "current"):
        over = epochs[part]["started"] - (done_blocks > 0)
        epochs[part] = {name: over + (done_blocks > 0 and name in ("ready", "started")) for name in COUNTS}
        # one fewer is completed: that is how Lightning writes a file in on_train_batch_end
        whole = blocks["total"]["processed"] if part == "total" else done_blocks
        blocks[part] = {name: whole - (done_blocks > 0 and name == "completed") for name in COUNTS}
        rounds[part] = dict.fromkeys(COUNTS, 0)
    blocks["is_last_batch"] = rounds["is_last_batch"] = False
