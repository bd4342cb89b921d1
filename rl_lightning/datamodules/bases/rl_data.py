"""The base of all DataModules: what Lightning asks of one, evaluations, and everything that must be saved with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from rl_lightning import types
from rl_lightning.clock.run_clock import RunClock
from rl_lightning.datamodules.bases.block_data import BlockData, BlockStream
from rl_lightning.datasets.dataset import check_env
from rl_lightning.envs.make import EnvConfig, make_envs
from rl_lightning.envs.model_env.learned_env import LearnedEnv, ModelSettings, learned_env
from rl_lightning.envs.model_env.model_envs import ModelEnvs
from rl_lightning.envs.termination import Termination
from rl_lightning.errors import ConfigError
from rl_lightning.io.artifact_place import Artifact
from rl_lightning.models.imagined_windows import ImaginedWindows
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.rollout.evaluate import extra_means
from rl_lightning.rollout.learner import Learner
from rl_lightning.rollout.rounds import ROUND, EvaluationRound, EvaluationRounds
from rl_lightning.seeding import derive
from rl_lightning.trainer.loops import is_last_block, limits_of
from rl_lightning.types import EnvSpec, EpisodeStats

SANITY_STEPS = 200  # env steps of an episode of Lightning's sanity check
GATHERED = {
    kind.__name__: kind
    for kind in (types.Transitions, types.FrameWindow, types.ActionWindows, types.ReturnWindows)
}


class RLData(BlockData):
    """Base of the DataModules. A subclass sets `spec` in its constructor and defines `sample_batches()`; one that
    collects between updates also defines `batches()` and `forecast()`.

    Beside its own arguments every DataModule takes, by keyword, what a config has in `run:`, for use without one:
    `seed` (0), `env_steps` and `updates` (budgets; none by default), `eval_every` (10,000 env steps, or updates where
    there is no env; None: never) and `eval_episodes` (10).
    """

    spec: EnvSpec
    yields: ClassVar[type[Any]]  # what its batches are

    def __init__(self) -> None:
        super().__init__()
        self.agent: Learner = None  # type: ignore[assignment]  # handed over when a fit begins
        self.longest = 0  # env steps of the longest episode that ended by itself
        self.episodes: list[EpisodeStats] = []  # ended since the last time metrics were emitted
        self._resumed = False  # the epoch that comes next has some of its blocks behind it
        self.eval_model: ModelSettings | None = None  # evaluation acts in a learned model, not in the env
        self.exact = True  # all that a resumed fit needs was restored, or it began anew

    def check_model(self, module: Any) -> None:
        """Raises where these data cannot serve a module; called once both are there, before a run has a folder."""

    # ----------------------------------------------------------------------------------------- Lightning's own hooks
    def setup(self, stage: str) -> None:
        """Takes the Trainer's module as the learner."""
        trainer = self.trainer
        if trainer is not None and stage == "fit":
            if trainer.global_step == 0:
                self.begin_anew()  # as in Lightning; a Trainer that fits again continues
            self.clock.limits = limits_of(trainer)
            vars(trainer)["reload_dataloaders_every_n_epochs"] = 1  # every epoch is planned when it begins
        self.connect(self.agent if trainer is None else trainer.lightning_module, stage)

    def connect(self, module: Any, stage: str = "fit") -> None:
        """Opens what a stage needs of a learner and tells the module of itself; all that is needed without a Trainer:

        data.connect(module); module.training_step(data.next_block(), 0)
        """
        self.agent = module
        self.open(stage)
        if module is not None:
            module.attach(self)

    def begin_anew(self) -> None:
        """Forgets what an earlier fit has left: clocks, rows, generators."""
        self.clock = RunClock(self.clock.run, self.clock_name)
        self.skips, self.longest, self.episodes, self.pending, self._resumed = 0, 0, [], None, False

    def open(self, stage: str) -> None:
        """Makes what a stage ("fit", "validate", "test", "predict") needs: envs, buffers, generators."""

    def train_dataloader(self) -> BlockStream:
        done = self.clock.blocks if self._resumed else 0
        self._resumed = False
        if not done:
            self.clock.begin_epoch()
        return BlockStream(self, done)

    def val_dataloader(self) -> EvaluationRounds:
        fitting = self.trainer is not None and self.trainer.state.fn == "fit"
        return EvaluationRounds(
            self, -(-self.evaluation_episodes() // ROUND) if fitting and self._plays else 1
        )

    def test_dataloader(self) -> EvaluationRounds:
        return EvaluationRounds(self, 1)

    def predict_dataloader(self) -> EvaluationRounds:
        """One episode at a time."""
        return EvaluationRounds(self, self.evaluation_episodes() if self._plays else 1, 1)

    def state_dict(self) -> dict[str, Any]:
        """The clocks, for any checkpoint of Lightning's. What an exact resume needs besides is in `save`."""
        return {"clock": self.clock.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.clock.load_state_dict(state_dict["clock"])
        self._resumed, self.exact = self.clock.blocks > 0, False  # until `load` brings the rest

    # ----------------------------------------------------------------------------------------------------- evaluation
    @property
    def _plays(self) -> bool:
        return self.agent is None or self.agent.evaluated_on == "episodes"

    @property
    def evaluates(self) -> bool:
        """Whether the validation that the Trainer has come to is an evaluation.

        A model's last weights are always weighed, and they are saved with it: where a callback only stops a fit that
        is to be resumed later, nothing is.
        """
        schedule, trainer = self.clock, self.trainer
        if trainer is None or trainer.state.fn != "fit":
            return True
        if schedule.open_end and not (schedule.epoch_over or trainer.should_stop):
            return False
        if self._plays or trainer.sanity_checking:
            return schedule.run.eval_every is not None or schedule.evaluate_now
        due = schedule.epoch_over or (is_last_block(trainer) and schedule.run.eval_every is not None)
        return due or schedule.is_finished or schedule.time_exceeded

    def evaluation_episodes(self) -> int:
        """Episodes of one evaluation that this rank plays."""
        wanted = self.clock.run.eval_episodes
        if self.clock.evaluate_now and self._evaluating is not None:
            wanted = self._evaluating.eval_episodes or wanted
        return -(-wanted // self.world_size)

    def evaluation_round(self, first: int, episodes: int) -> EvaluationRound:
        """Episodes `first` to `first + episodes` of an evaluation at the clock of now."""
        trainer = self.trainer
        sanity = trainer is not None and trainer.sanity_checking
        fitting = trainer is not None and trainer.state.fn == "fit"
        name = f"eval/{self.clock.now}" if fitting else "test"
        episodes = 1 if sanity else episodes
        limit = SANITY_STEPS if sanity else self.clock.run.eval_max_steps
        envs = self.eval_envs(episodes) if self._plays else None
        report = (lambda played: None) if sanity or not fitting else self.note_episodes
        seed = derive(self.seed, name, self.rank) + first
        return EvaluationRound(self, envs, episodes, seed, limit, self.longest, self.scores, report)

    def note_episodes(self, played: list[EpisodeStats]) -> None:
        """An evaluation shows how long episodes can be."""
        self.longest = max([self.longest, *(episode.length for episode in played if not episode.cut)])

    def scores(self, summary: dict[str, float]) -> dict[str, float]:
        """More numbers about an evaluation, e.g. its return on a data set's own scale."""
        return {}

    def diagnostics(self, module: Any) -> dict[str, Any]:
        """What `rl test` tells besides the episodes: numbers by name, or groups of them."""
        return {}

    def eval_envs(self, episodes: int) -> Any:
        """A vector of envs for evaluation, kept between calls; None where there is no env."""
        return None

    def imagine_windows(self, horizon: int) -> ImaginedWindows | None:
        """Real windows of so many steps beside what the world that the data come from makes of their starts."""
        return None

    def evaluate_in(
        self,
        dynamics: Artifact,
        density: Artifact | None = None,
        termination: Termination | None = None,
        percentile: float = 1.0,
    ) -> None:
        """From here on evaluation acts in a learned model.

        Args:
            dynamics: Artifact of a dynamics stage.
            density: Artifact of a density stage; null: nothing is said of how likely a step is.
            termination: When an episode ends; null: by the data set's env, or never where no row is terminal.
            percentile: Percentage of held-out rows below the density's threshold.
        """
        self.eval_model = ModelSettings(
            str(dynamics),
            None if density is None else str(density),
            termination=termination,
            percentile=percentile,
        )

    def learned_env(self) -> LearnedEnv:
        """The model that evaluation acts in; refused where it is one of other rows."""
        assert self.eval_model is not None
        limit = self.clock.run.eval_max_steps
        world = learned_env(self.eval_model if limit is None else replace(self.eval_model, horizon=limit))
        check_env(str(self.eval_model.dynamics), world.spec, self.spec)
        return world

    def model_envs(self, count: int) -> ModelEnvs:
        """A vector of episodes in that model."""
        return ModelEnvs(self.learned_env(), count)

    def filmed_model(self) -> Any:
        """One episode in that model, drawn."""
        assert self.eval_model is not None
        kwargs = {**vars(self.eval_model), "horizon": self.learned_env().horizon}
        return make_envs(EnvConfig(id="rl/Model-v0", kwargs=kwargs), 1, "sync", render_mode="rgb_array")

    def render_env(self) -> Any:
        """A vector of one env that renders frames; refused where there is no env."""
        raise ConfigError(f"{type(self).__name__} has no environment to film")

    # --------------------------------------------------------------------------------------------------------- saving
    def save(self, store: SegmentStore) -> dict[str, Any]:
        """All that this rank's data needs to resume exactly; large rows go to the store."""
        episodes = [tuple(e) for e in self.episodes]
        counts = {"skips": self.skips, "longest": self.longest}
        pending = (
            None if self.pending is None else [type(self.pending).__name__, dict(self.pending._asdict())]
        )
        return {"clock": self.clock.state_dict(), "episodes": episodes, "pending": pending, **counts}

    def load(self, state: dict[str, Any], store: SegmentStore) -> None:
        self.exact = True
        self.clock.load_state_dict(state["clock"])
        self.episodes = [EpisodeStats(*e) for e in state["episodes"]]
        self.skips = state["skips"]
        self.longest = int(state["longest"])
        self.pending = (
            None if state["pending"] is None else GATHERED[state["pending"][0]](**state["pending"][1])
        )

    def collect_metrics(self) -> dict[str, float]:
        """Means over the training episodes that ended since the last call."""
        episodes, self.episodes = self.episodes, []
        metrics: dict[str, float] = {}
        if self.clock.phases is not None:
            metrics = {
                "train/phase": float(self.clock.phases.index),
                "train/skipped_updates": float(self.skips),
            }
            self.skips = 0
        if not episodes:
            return metrics
        metrics |= {
            "collect/return": sum(e.episode_return for e in episodes) / len(episodes),
            "collect/length": sum(e.length for e in episodes) / len(episodes),
            "collect/episodes": float(len(episodes)),
        }
        return metrics | {f"collect/{key}": value for key, value in extra_means(episodes).items()}
