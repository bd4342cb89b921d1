"""Base of the algorithms that act: they are evaluated by playing episodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rl_lightning.algorithms.acting import Acting
from rl_lightning.algorithms.rl_module import RLModule
from rl_lightning.errors import ConfigError
from rl_lightning.rollout.evaluate import StepCap, evaluate, summarize
from rl_lightning.rollout.evaluation_table import EvaluationTable
from rl_lightning.rollout.rounds import EvaluationRound
from rl_lightning.rollout.trajectory import trajectory
from rl_lightning.seeding import derive
from rl_lightning.types import EnvSpec, EpisodeStats


class Evaluation(NamedTuple):
    """What the newest evaluation says.

    Args:
        metrics: Under the names they are logged by.
        episodes: Those of all ranks.
        closing: It was made because the run ended, not because it was due.
    """

    metrics: dict[str, float]
    episodes: list[EpisodeStats]
    closing: bool


class PolicyModule(Acting, RLModule):  # type: ignore[misc]  # as RLModule
    """An algorithm that acts. A subclass defines `act`, `update` and `configure_optimizers`.

    Args:
        spec: What the env or data set is like; filled in from the data.
    """

    evaluated_on: ClassVar[Literal["episodes", "rows"]] = "episodes"
    deterministic_eval = True  # False for a policy that has no likeliest action: it draws in evaluation, too

    def __init__(self, spec: EnvSpec) -> None:
        super().__init__(spec)
        self.evaluation: Evaluation | None = None
        self._played: list[EpisodeStats] = []
        self._scores: Callable[[dict[str, float]], dict[str, float]] | None = None

    # ---------------------------------------------------------------------------------------------------- evaluation
    def evaluation_draw(self, seed: int) -> torch.Generator | None:
        """What `act` is given wherever a finished policy acts: None for a greedy one, else where it draws from."""
        return None if self.deterministic_eval else torch.Generator().manual_seed(derive(seed, "play"))

    def video_overlay(self) -> Callable[[Tensor], list[np.ndarray]] | None:
        """For a film: takes every observation [1, *O] of one episode, returns pictures [H, W, 3] to lay beside it."""
        return None

    def run_episodes(
        self, envs: Any, episodes: int, seed: int, max_steps: int | None = None, longest: int = 0
    ) -> list[EpisodeStats]:
        """Plays whole episodes and leaves no trace: own generator, eval mode, no gradient. See StepCap for the rest."""
        explore = self.evaluation_draw(seed)
        modes = [(module, module.training) for module in self.modules()]
        self.eval()
        try:
            with torch.random.fork_rng(devices=[]), torch.autocast(self.device.type, enabled=False):
                cap = StepCap(envs, max_steps, longest)
                return evaluate(
                    self.act_fn(), self.initial_carry, envs, episodes, seed, explore, cap, self.reward_carry
                )
        finally:
            for module, training in modes:
                module.training = training

    def on_validation_epoch_start(self) -> None:
        self._played = []

    def on_test_epoch_start(self) -> None:
        self._played = []

    def validation_step(self, batch: EvaluationRound, batch_idx: int) -> None:
        """One round of episodes; without an env there are none."""
        if batch.envs is None:
            return
        played = self.run_episodes(batch.envs, batch.episodes, batch.seed, batch.max_steps, batch.longest)
        batch.report(played)
        self._played += played
        self._scores = batch.scores

    def test_step(self, batch: EvaluationRound, batch_idx: int) -> None:
        self.validation_step(batch, batch_idx)

    def predict_step(self, batch: EvaluationRound, batch_idx: int) -> dict[str, np.ndarray]:
        """One episode: arrays of obs, action, reward, terminated, truncated."""
        if batch.envs is None:
            raise ConfigError("there is no env to play in; give the DataModule one: env=...")
        StepCap(batch.envs, batch.max_steps, batch.longest)
        with torch.random.fork_rng(devices=[]), torch.autocast(self.device.type, enabled=False):
            draw = self.evaluation_draw(batch.seed)
            return trajectory(
                self.act_fn(), self.initial_carry, batch.envs, batch.seed, draw, self.reward_carry
            )

    def summarize_evaluation(self) -> dict[str, float]:
        played, self._played = self._played, []
        if not played or self.trainer.sanity_checking:
            return {}
        table = EvaluationTable().to(self.device)
        table.update(played)
        episodes = table.compute()
        summary = summarize(episodes)
        summary |= {} if self._scores is None else self._scores(summary)
        self.evaluation = Evaluation(summary, episodes, closing=not self.clock.epoch_over)
        return summary
