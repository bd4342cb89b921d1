"""Keeps Lightning's loop and the run's clocks together: epochs, budgets, learning-rate schedulers."""

from __future__ import annotations

import time
from typing import Any

from lightning.pytorch import Callback, Trainer
from lightning.pytorch.utilities import rank_zero_warn

from rl_lightning import distributed, seeding
from rl_lightning.trainer.access import clock_of, data_of
from rl_lightning.trainer.loops import is_last_block


class FitClock(Callback):
    """Ends the fit when a budget of the run's is spent, closes epochs, steps schedulers that count epochs.

    Every module of ours brings one along (`configure_callbacks`); a Trainer needs none listed.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        self._began = time.monotonic()
        pl_module.watch_backward(trainer)
        data = data_of(trainer)
        # Ranks share their first weights, and nothing random after that. (RunCheckpoint comes last, and brings the
        # random states of an exact resume.)
        seeding.seed_globals(data.seed, "train", trainer.global_rank)
        if trainer.ckpt_path is not None and not data.exact:
            rank_zero_warn(
                f"{trainer.ckpt_path} holds weights, optimizers and clocks but no replay and no envs: the fit "
                f"continues at env_step {data.clock.env_step}, update {data.clock.update}, but not exact. List "
                "rl_lightning.callbacks.RunCheckpoint in the Trainer's callbacks for checkpoints that resume exactly"
            )
        if data.clock.is_finished and data.clock.evaluated_at == data.clock.now:
            trainer.should_stop = (
                True  # else its last weights are still to be evaluated: after an empty block
            )

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *args: Any) -> None:
        clock = clock_of(trainer)
        if clock.run.max_hours is not None:  # the same on all ranks
            clock.seconds = distributed.from_rank_zero(time.monotonic() - self._began)
        if clock.is_finished or clock.time_exceeded:
            trainer.should_stop = True

    def on_validation_end(self, trainer: Trainer, pl_module: Any) -> None:
        if trainer.state.fn != "fit" or trainer.sanity_checking:
            return
        clock = clock_of(trainer)
        clock.converged = clock.converged or pl_module.should_stop
        if clock.is_finished:
            trainer.should_stop = True
        if is_last_block(trainer):
            clock.end_epoch()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Where there was no evaluation the epoch is over all the same; one that was stopped midway is not."""
        pl_module.step_schedulers(trainer.current_epoch + 1, "epoch")
        if is_last_block(trainer):
            clock_of(trainer).end_epoch()
