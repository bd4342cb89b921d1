"""Evaluation on the run's own clock, in separate envs, leaving training bit for bit as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, Trainer

from rl_lightning.callbacks.metrics import emit
from rl_lightning.rollout.evaluate import summarize
from rl_lightning.rollout.schedule import crossed
from rl_lightning.seeding import derive
from rl_lightning.types import EpisodeStats


class Evaluate(Callback):
    """Plays episodes each time the clock passes a multiple of `run.eval_every`, and once at the end.

    Every episode goes to eval.jsonl, the summary to the loggers.

    Args:
        folder: The run's folder.
    """

    def __init__(self, folder: str) -> None:
        self.path = Path(folder) / "eval.jsonl"
        self.seen = 0
        self.last_at: int | None = None  # clock of the last evaluation
        self.history: list[tuple[int, float]] = []  # (clock, mean return)
        self.best: tuple[int, float] | None = None
        self.is_best = False  # the evaluation of this block is the best so far

    @property
    def last(self) -> float | None:
        return self.history[-1][1] if self.history else None

    @property
    def last10(self) -> float | None:
        tail = [value for _, value in self.history[-10:]]
        return sum(tail) / len(tail) if tail else None

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *args: Any) -> None:
        schedule = trainer.datamodule.schedule  # type: ignore[attr-defined]
        run, self.is_best = schedule.run, False
        due = crossed(self.seen, schedule.now, run.eval_every)
        final = schedule.finished and run.eval_every is not None and self.last_at != schedule.now
        self.seen = schedule.now
        if due or final:
            self.evaluate(trainer, pl_module, final=final and not due)

    def evaluate(self, trainer: Trainer, module: Any, final: bool) -> None:
        data = trainer.datamodule  # type: ignore[attr-defined]
        envs = data.eval_envs(data.schedule.run.eval_episodes)
        if envs is None:
            return
        now = data.schedule.now
        episodes = module.play(envs, data.schedule.run.eval_episodes, derive(data.seed, f"eval/{now}"))
        summary = summarize(episodes)
        self.last_at = now
        self.history.append((now, summary["eval/return"]))
        if self.best is None or summary["eval/return"] > self.best[1]:
            self.best, self.is_best = self.history[-1], True
        if trainer.is_global_zero:
            self._append(data.schedule.env_step, data.schedule.update, episodes, final)
        emit(trainer, summary)

    def _append(self, env_step: int, update: int, episodes: list[EpisodeStats], final: bool) -> None:
        with self.path.open("a") as file:
            for episode in episodes:
                row: dict[str, Any] = {
                    "env_step": env_step,
                    "update": update,
                    "return": episode.episode_return,
                }
                row |= {"length": episode.length, "seed": episode.seed, **episode.extra}
                file.write(json.dumps(row | ({"final": True} if final else {})) + "\n")

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen, "last_at": self.last_at, "history": list(self.history), "best": self.best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen, self.last_at, self.best = state["seen"], state["last_at"], state["best"]
        self.history = [tuple(entry) for entry in state["history"]]
