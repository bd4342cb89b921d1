"""Saving: last, best and milestones, triggered by our clocks, written whole or not at all."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer

from rl_lightning.callbacks.evaluation import Evaluate
from rl_lightning.rollout.schedule import crossed


def write_atomically(state: dict[str, Any], path: Path) -> None:
    """Writes beside the target, on the same file system, flushes to disk, then renames over it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


class SaveCheckpoints(Callback):
    """Keeps checkpoints/last.ckpt, best.ckpt (by evaluation) and numbered milestones.

    Args:
        folder: The run's folder.
        evaluation: The callback that knows which evaluation was the best.
    """

    def __init__(self, folder: str, evaluation: Evaluate) -> None:
        self.folder = Path(folder) / "checkpoints"
        self.evaluation = evaluation
        self.seen = 0
        self._saved_at = time.monotonic()

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *args: Any) -> None:
        schedule = trainer.datamodule.schedule  # type: ignore[attr-defined]
        run, before, now = schedule.run, self.seen, schedule.now
        self.seen = now
        minutes = (time.monotonic() - self._saved_at) / 60
        timed = run.save_minutes is not None and minutes >= run.save_minutes
        if self.evaluation.is_best:
            self.save(trainer, "best")
        if crossed(before, now, run.keep_every):
            self.save(trainer, f"step-{now}")
        if crossed(before, now, run.save_every) or timed or schedule.finished or trainer.should_stop:
            self.save(trainer, "last")

    def save(self, trainer: Trainer, name: str) -> None:
        state = trainer._checkpoint_connector.dump_checkpoint(weights_only=False)
        if trainer.is_global_zero:
            write_atomically(state, self.folder / f"{name}.ckpt")
        self._saved_at = time.monotonic()

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen = state["seen"]
