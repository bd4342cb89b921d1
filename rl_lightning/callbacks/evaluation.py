"""Evaluation on the run's own clock, in separate envs, leaving training bit for bit as it was."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer

from rl_lightning import ranks
from rl_lightning.callbacks.metrics import emit
from rl_lightning.rollout.evaluate import StepCap, summarize
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
        self.untrained = 0  # evaluations at the start of `history` that scored a policy from elsewhere
        self.best: tuple[int, float] | None = None
        self.is_best = False  # the evaluation of this block is the best so far
        self._place: int | None = None

    @property
    def last(self) -> float | None:
        return self.history[-1][1] if self.history else None

    @property
    def last10(self) -> float | None:
        tail = [value for _, value in self.history[self.untrained :][-10:]]
        return sum(tail) / len(tail) if tail else None

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        if self._place is not None and trainer.is_global_zero and self.path.exists():
            os.truncate(self.path, self._place)  # episodes past the checkpoint will be played again
        self._place = None
        schedule = trainer.datamodule.schedule  # type: ignore[attr-defined]
        if schedule.pass_updates and schedule.run.eval_every and schedule.now == 0 and self.last_at is None:
            self.assess(trainer, pl_module)  # what it is worth untrained: where overfitting is told from
        self._tell_limit(trainer, pl_module)

    def _tell_limit(self, trainer: Trainer, module: Any) -> None:
        """Says at the start that evaluation may have to cut episodes: an env without a time limit may never end one."""
        data = trainer.datamodule  # type: ignore[attr-defined]
        run = data.schedule.run
        if run.eval_every is None or not module.acts or data.spec.max_episode_steps is not None:
            return
        envs = data.eval_envs(-(-run.eval_episodes // trainer.world_size))
        note = None if envs is None else StepCap(envs, run.eval_max_steps, data.longest).note
        if note and trainer.is_global_zero:
            print(note, file=sys.stderr, flush=True)  # noqa: T201

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *args: Any) -> None:
        schedule = trainer.datamodule.schedule  # type: ignore[attr-defined]
        before, self.seen, self.is_best = self.seen, schedule.now, False
        due = crossed(before, schedule.now, schedule.run.eval_every) or schedule.evaluate_now
        due = due or any(before < mark <= schedule.now for mark in schedule.early_looks())
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
        seed = derive(data.seed, f"eval/{now}", trainer.global_rank)
        played = module.play(envs, share, seed, data.schedule.run.eval_max_steps, data.longest)
        data.longest = max([data.longest, *(episode.length for episode in played if not episode.cut)])
        episodes = [episode for part in ranks.gather_objects(played) for episode in part]
        summary = summarize(episodes)
        summary |= data.scores(summary)
        self._keep(now, summary["eval/return"], module.policy_trained)
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
        self._keep(data.schedule.now, metrics["eval/score"], newest_is_best=module.newest_is_best)
        emit(trainer, metrics)

    def _keep(self, now: int, score: float, trained: bool = True, newest_is_best: bool = False) -> None:
        self.last_at = now
        self.history.append((now, score))
        self.untrained += not trained
        better = newest_is_best or self.best is None or score > self.best[1]
        self.is_best = trained and better
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
                row |= {"cut": True} if episode.cut else {}
                file.write(json.dumps(row | ({"final": True} if final else {})) + "\n")

    def state_dict(self) -> dict[str, Any]:
        place = self.path.stat().st_size if self.path.exists() else 0
        history = {"history": list(self.history), "untrained": self.untrained, "best": self.best}
        return {"seen": self.seen, "place": place, "last_at": self.last_at, **history}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen, self.last_at, self._place = state["seen"], state["last_at"], state["place"]
        self.history = [(int(clock), float(value)) for clock, value in state["history"]]
        self.untrained = state.get("untrained", 0)
        self.best = None if state["best"] is None else (int(state["best"][0]), float(state["best"][1]))
