"""What a run's evaluations were: every episode in eval.jsonl, their history, and which is the best."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, Trainer

from rl_lightning.io.score_counts import LAST
from rl_lightning.io.text import counted, score, short
from rl_lightning.rollout.evaluate import StepCap
from rl_lightning.trainer.access import data_of
from rl_lightning.types import EpisodeStats


class EvaluationHistory(Callback):
    """Keeps what each evaluation said. The evaluation itself is Lightning's validation loop.

    Args:
        folder: The run's folder, for eval.jsonl; null: nothing is written.
    """

    def __init__(self, folder: str | None = None) -> None:
        self.path = None if folder is None else Path(folder) / "eval.jsonl"
        self.last_at: int | None = None  # clock of the last evaluation
        self.history: list[tuple[int, float]] = []  # (clock, mean return)
        self.untrained = 0  # evaluations at the start of `history` that scored a policy from elsewhere
        self.best: tuple[int, float] | None = None
        self.is_best = False  # the newest evaluation is the best so far
        self._place: int | None = None

    @property
    def last(self) -> float | None:
        return self.history[-1][1] if self.history else None

    @property
    def last10(self) -> float | None:
        tail = self._tail()
        return sum(tail) / len(tail) if tail else None

    @property
    def newest(self) -> dict[str, Any]:
        """The mean of the last ten, and of how many it is."""
        return {"last10": self.last10, "last10_of": len(self._tail())}

    def _tail(self) -> list[float]:
        return [value for _, value in self.history[self.untrained :][-LAST:]]

    def summary(self, clock: str) -> str:
        """Both scores for the closing line, and what they are of; nothing where nothing was evaluated."""
        if self.best is None or self.last10 is None:
            return ""
        at, best = self.best
        count = len(self._tail())
        few = f" (of {counted(count, 'evaluation')})" if count < LAST else ""
        scale = max(abs(best), abs(self.last10))
        best_text = f" · best evaluation {score(best, scale)} at {clock} {short(at)}"
        return f"{best_text} · last-10 mean {score(self.last10, scale)}{few}"

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        if (
            self._place is not None
            and self.path is not None
            and trainer.is_global_zero
            and self.path.exists()
        ):
            os.truncate(self.path, self._place)  # episodes past the checkpoint will be played again
        self._place = None
        self._tell_limit(trainer, pl_module)

    def _tell_limit(self, trainer: Trainer, module: Any) -> None:
        """Says at the start that evaluation may have to cut episodes: an env without a time limit may never end one."""
        data = data_of(trainer)
        run = data.clock.run
        limited = data.spec.max_episode_steps is not None
        if run.eval_every is None or module.evaluated_on != "episodes" or limited:
            return
        envs = data.eval_envs(-(-run.eval_episodes // trainer.world_size))
        note = None if envs is None else StepCap(envs, run.eval_max_steps, data.longest).note
        if note and trainer.is_global_zero:
            print(note, file=sys.stderr, flush=True)  # noqa: T201

    def on_train_batch_start(self, trainer: Trainer, pl_module: Any, *args: Any) -> None:
        self.is_best = False

    def on_validation_end(self, trainer: Trainer, pl_module: Any) -> None:
        if trainer.sanity_checking or trainer.state.fn != "fit":
            return
        now = data_of(trainer).clock.now
        if pl_module.evaluated_on == "rows":
            if pl_module.evaluated is not None:
                rows_score, pl_module.evaluated = pl_module.evaluated["eval/score"], None
                self._keep(now, rows_score, newest_is_best=pl_module.newest_is_best)
        elif pl_module.evaluation is not None:
            evaluation, pl_module.evaluation = pl_module.evaluation, None
            self._keep(now, evaluation.metrics["eval/return"], pl_module.policy_trained)
            if trainer.is_global_zero and self.path is not None:
                clock = data_of(trainer).clock
                self._append(clock.env_step, clock.update, evaluation.episodes, evaluation.closing)

    def _keep(self, now: int, value: float, trained: bool = True, newest_is_best: bool = False) -> None:
        self.last_at = now
        self.history.append((now, value))
        self.untrained += not trained
        better = newest_is_best or self.best is None or value > self.best[1]
        self.is_best = trained and better
        if self.is_best:
            self.best = self.history[-1]

    def _append(self, env_step: int, update: int, episodes: list[EpisodeStats], final: bool) -> None:
        assert self.path is not None
        with self.path.open("a") as file:
            for episode in episodes:
                row: dict[str, Any] = {
                    "env_step": env_step,
                    "update": update,
                    "return": episode.episode_return,
                }
                row |= {"length": episode.length, "seed": episode.seed, **episode.extra}
                row |= {"cut": True} if episode.cut else {}
                file.write(json.dumps(row | ({"final": True} if final else {})) + "\n")

    def state_dict(self) -> dict[str, Any]:
        place = self.path.stat().st_size if self.path is not None and self.path.exists() else 0
        history = {"history": list(self.history), "untrained": self.untrained, "best": self.best}
        return {"place": place, "last_at": self.last_at, **history}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.last_at, self._place = state["last_at"], state["place"]
        self.history = [(int(clock), float(value)) for clock, value in state["history"]]
        self.untrained = state["untrained"]
        self.best = None if state["best"] is None else (int(state["best"][0]), float(state["best"][1]))
