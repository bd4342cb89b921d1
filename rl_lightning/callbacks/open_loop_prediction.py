"""Pictures of what a world model dreams, now and then, for whoever watches a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, Trainer

from rl_lightning.clock.run_clock import crossed_multiple
from rl_lightning.rollout.open_loop_images import save_open_loop_images
from rl_lightning.trainer.access import data_of


class OpenLoopPrediction(Callback):
    """Examines the world model each time the clock passes a multiple of `every`: a picture, and a video of pixels.

    Args:
        folder: The run's folder; the newest dream.png and videos/open-loop.mp4 are kept.
        every: Interval on the run's clock.
    """

    def __init__(self, folder: str, every: int) -> None:
        self.folder, self.every, self.seen = Path(folder), every, 0

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *args: Any) -> None:
        data = data_of(trainer)
        before, self.seen = self.seen, data.clock.now
        if not crossed_multiple(before, self.seen, self.every) or not trainer.is_global_zero:
            return
        data.diagnostics(pl_module)
        rollout = getattr(data, "foresight", None)
        if rollout is not None:
            save_open_loop_images(rollout, self.folder)

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen = state["seen"]
