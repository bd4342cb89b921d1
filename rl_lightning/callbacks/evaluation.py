"""Evaluation on the run's own clock, in separate envs, leaving training bit for bit as it was."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer

from rl_lightning import ranks
from rl_lightning.callbacks.metrics import emit
from rl_lightning.rollout.evaluate import summarize
from rl_lightning.rollout.schedule import crossed
from rl_lightning.seeding import derive
from rl_lightning.types import EpisodeStats


class Evaluate(Callback):
    """Plays episodes each time the clock passes a multiple of `run.eval_every`.

    Every episode goes to eval.jsonl, the summary to the loggers. Ranks share the episodes out evenly.

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
        self._place: int | None = None

    @property
    def last(self) -> float | None:
        return self.history[-1][1] if self.history else None

    @property
    def last10(self) -> float | None:
        tail = [value for _, value in self.history[-10:]]
        return sum(tail) / len(tail) if tail else None

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        if self._place is not None and trainer.is_global_zero and self.path.exists():
            os.truncate(self.path, self._place)  # episodes past the checkpoint will be played again
        self._place = None

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *args: Any) -> None:
        schedule = trainer.datamodule.schedule  # type: ignore[attr-defined]
        before, self.seen, self.is_best = self.seen, schedule.now, False
        due = crossed(before, schedule.now, schedule.run.eval_every) or schedule.evaluate_now
        if pl_module.acts:
            if due:
                self.evaluate(trainer, pl_module, final=False)
        elif due or schedule.finished or schedule.late:
            # A model's last weights are weighed before they are saved.
            self.assess(trainer, pl_module)

    def evaluate(self, trainer: Trainer, module: Any, final: bool) -> None:
        data = trainer.datamodule  # type: ignore[attr-defined]
        if not module.acts:
            return
        wanted = data.schedule.run.eval_episodes
        if data.schedule.evaluate_now and data.view.phase.num_episodes:
            wanted = data.view.phase.num_episodes
        share = -(-wanted // trainer.world_size)
        envs = data.eval_envs(share)
        if envs is None:
            return
        now = data.schedule.now
        played = module.play(envs, share, derive(data.seed, f"eval/{now}", trainer.global_rank))
        episodes = [episode for part in ranks.gather_objects(played) for episode in part]
        summary = summarize(episodes)
        summary |= data.scores(summary)
        self._keep(now, summary["eval/return"])
        if trainer.is_global_zero:
            self._append(data.schedule.env_step, data.schedule.update, episodes, final)
        emit(trainer, summary)

    def assess(self, trainer: Trainer, module: Any) -> None:
        """A model on held-out rows; it may keep its weights, or find that it has learned enough."""
        data = trainer.datamodule  # type: ignore[attr-defined]
        modes = [(part, part.training) for part in module.modules()]
        module.eval()
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            metrics = module.assess(data)
            module.heed(metrics)
        for part, training in modes:
            part.training = training
        data.schedule.converged = module.finished
        self._keep(data.schedule.now, metrics["eval/score"])
        emit(trainer, metrics)

    def _keep(self, now: int, score: float) -> None:
        self.last_at = now
        self.history.append((now, score))
        self.is_best = self.best is None or score > self.best[1]
        if self.is_best:
            self.best = self.history[-1]

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
        place = self.path.stat().st_size if self.path.exists() else 0
        history = {"history": list(self.history), "best": self.best, "last_at": self.last_at}
        return {"seen": self.seen, "place": place, **history}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen, self.last_at, self._place = state["seen"], state["last_at"], state["place"]
        self.history = [(int(clock), float(value)) for clock, value in state["history"]]
        self.best = None if state["best"] is None else (int(state["best"][0]), float(state["best"][1]))
