"""A video of one episode, now and then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, Trainer

from rl_lightning.clock.run_clock import crossed_multiple
from rl_lightning.loggers.media import log_video
from rl_lightning.rollout.video import record_episode, write_video
from rl_lightning.seeding import derive
from rl_lightning.trainer.access import data_of


class VideoRecorder(Callback):
    """Plays and films one episode each time the clock passes a multiple of `every`.

    Args:
        folder: The run's folder; videos go to its videos/.
        every: Interval on the run's clock.
        max_steps: Frames of one video at most.
    """

    def __init__(self, folder: str, every: int, max_steps: int = 1000) -> None:
        self.folder = Path(folder) / "videos"
        self.every, self.max_steps = every, max_steps
        self.seen = 0

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *args: Any) -> None:
        data = data_of(trainer)
        before, self.seen = self.seen, data.clock.now
        due = (
            crossed_multiple(before, self.seen, self.every) and pl_module.evaluated_on == "episodes"
        )  # other stages act
        if not due or not trainer.is_global_zero:
            return
        env = data.render_env()
        try:
            seed = derive(data.seed, f"video/{self.seen}")
            frames, fps = record_episode(pl_module, env, seed, self.max_steps)
        finally:
            env.close()
        path = write_video(frames, self.folder / f"{data.clock.clock_name}-{self.seen}.mp4", fps)
        log_video(trainer.loggers, "eval/video", frames, path, fps, self.seen)

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen = state["seen"]
