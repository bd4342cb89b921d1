"""Ends a run at a signal, always at the end of a block, and keeps its record up to date."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from rl_lightning import distributed, stop_request
from rl_lightning.trainer.access import clock_of
from rl_lightning.trainer.loops import is_last_block, reached_limit

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)  # the last is how a cluster warns


class RunController(Callback):
    """Stops the Trainer at the end of the block in which a signal arrives, and knows what ended a fit.

    A first Ctrl-C or SIGTERM asks for a stop (the block ends, a checkpoint is saved); a second one stops at once. A
    block that waits for something that does not come is left after a few seconds (stop_request.py).
    Must run before the callback that saves, which looks at `trainer.should_stop`.

    Args:
        update_record: Called with fields of the run's record when something about its state changes.
    """

    def __init__(self, update_record: Callable[..., None] | None = None) -> None:
        self.update_record = update_record or (lambda **fields: None)
        self.caught: int | None = None
        self.farewell: Callable[[], None] | None = None  # what is noted before a hung process is ended
        self.cut = False  # an evaluation that a stop would have added was left out
        self._reported = 0.0
        self._previous: dict[int, Any] = {}

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Here, because Lightning installs handlers of its own after on_fit_start."""
        for number in SIGNALS:
            self._previous[number] = signal.signal(number, self._catch)

    def _catch(self, number: int, frame: Any) -> None:
        if stop_request.late():
            raise stop_request.BlockAbandoned
        again, self.caught = self.caught is not None, number
        if again:
            raise KeyboardInterrupt
        stop_request.request_stop(number, self.farewell)

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *args: Any) -> None:
        clock = clock_of(trainer)
        everywhere = distributed.gather_objects(self.caught)  # a cluster may tell one process only
        self.caught = next((number for number in everywhere if number is not None), None)
        if self.caught is not None:
            trainer.should_stop = True
            if not is_last_block(trainer) and trainer.limit_val_batches:
                self.cut, trainer.limit_val_batches = True, 0  # stopping adds no evaluation
        elif reached_limit(trainer):
            trainer.should_stop = True  # so that the last weights are evaluated
        if trainer.should_stop:
            stop_request.block_ended()
        if time.monotonic() - self._reported > 5.0:
            self._reported = time.monotonic()
            self.update_record(env_step=clock.env_step, update=clock.update)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """A signal that came meanwhile: the evaluation is saved, and then the run stops."""
        if trainer.state.fn == "fit" and any(
            number is not None for number in distributed.gather_objects(self.caught)
        ):
            trainer.should_stop = True

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._restore()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Not in teardown: by then Lightning has taken its own handlers away, and we would bring them back."""
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        stop_request.clear()
        self._previous = {}


class ClockLimit(Callback):
    """Ends a run when its clock reaches a point, whatever its budget: schedules still see the whole budget.

    Args:
        stop_at: The point, on the run's own clock.
    """

    def __init__(self, stop_at: int) -> None:
        self.stop_at = stop_at

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *args: Any) -> None:
        if clock_of(trainer).now >= self.stop_at:
            trainer.should_stop = True
