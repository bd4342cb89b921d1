"""Rows that were recorded before: the data of everything that learns without an env."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from rl_lightning.datamodules.bases.eval_env_data import EvaluatedData
from rl_lightning.datasets import Dataset, check_env, load_dataset
from rl_lightning.datasets.dataset import check_learner
from rl_lightning.datasets.in_memory import DatasetLike, look_at
from rl_lightning.datasets.rows.holdout import ASSESSED, split_rows
from rl_lightning.datasets.rows.reward_tuning import RewardTuning
from rl_lightning.envs.make import EnvConfig, probe_spec
from rl_lightning.envs.own_envs import EnvLike, as_env_config
from rl_lightning.envs.termination import Termination
from rl_lightning.errors import ConfigError, DataError, ResumeError
from rl_lightning.functional.score_statistics import normalized
from rl_lightning.io.artifact_place import Artifact
from rl_lightning.ranges import FractionBelowOne, NonNegativeInt, PositiveFraction, PositiveInt
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.seeding import derive
from rl_lightning.types import Transitions


class OfflineData(EvaluatedData):
    """Random batches of a data set; the env, if there is one, serves evaluation alone.

    Args:
        dataset: Name (d4rl/hopper-medium-v2, local/hopper-medium, minari/...) or path; see rl data list. In Python also
            a dict of arrays by D4RL's names, a Dataset or a minari.MinariDataset.
        env: Where the policy is evaluated; null: the env that the data set names, if any.
        batch_size: Rows of one update.
        updates_per_block: Updates made of one gather.
        val_fraction: Fraction of the data that is kept for validation, the same for every stage of one seed; null:
            0.1 for models that are assessed on it (dynamics, densities, fitted-Q evaluation), none for policies.
        split: What is held out: whole episodes, or single rows.
        ensemble_bootstrap: Members of an ensemble, each with its own resample of the rows; 0: one stream for all.
        reward_scale: Rewards are multiplied by this.
        reward_shift: And this is added, after scaling (-1 for AntMaze in the manner of IQL).
        reward_tuning: Rewards made from the data set, before scale and shift; null: the recorded ones.
        top_fraction: Fraction of the episodes that is learned from, those with the highest returns; 0.1 makes it
            10%-BC.
        max_episodes: Recorded episodes that are used at all, the first ones; null: all.
        eval_env: Where evaluation acts: real, or model (in `eval_dynamics`, from its held-out starts).
        eval_dynamics: Artifact of a dynamics stage.
        eval_density: Artifact of a density stage, which says how many of those steps are unlikely; null: nobody does.
        eval_termination: When an episode of the model ends; null: by the data set's env, or never where no recorded
            row is terminal.
    """

    yields: ClassVar[type[Any]] = Transitions
    fields_given: ClassVar[tuple[str, ...]] = ("next_action",)
    clock_name = "update"

    def __init__(
        self,
        dataset: DatasetLike,
        env: EnvLike | None = None,
        batch_size: PositiveInt = 256,
        updates_per_block: PositiveInt = 50,
        val_fraction: FractionBelowOne | None = None,
        split: Literal["episode", "transition"] = "episode",
        ensemble_bootstrap: NonNegativeInt = 0,
        reward_scale: float = 1.0,
        reward_shift: float = 0.0,
        reward_tuning: RewardTuning | None = None,
        top_fraction: PositiveFraction = 1.0,
        max_episodes: PositiveInt | None = None,
        eval_env: Literal["real", "model"] = "real",
        eval_dynamics: Artifact | None = None,
        eval_density: Artifact | None = None,
        eval_termination: Termination | None = None,
    ) -> None:
        super().__init__()
        self.eval_env = eval_env
        if eval_env == "model" and eval_dynamics is not None:
            self.evaluate_in(eval_dynamics, eval_density, eval_termination)
        source = look_at(dataset)
        self.source, self.spec, self.about = source.name, source.spec, source.about
        self.batch_size, self.updates_per_block = batch_size, updates_per_block
        self.val_fraction, self.split, self.ensemble_bootstrap = val_fraction, split, ensemble_bootstrap
        self.held_fraction = val_fraction or 0.0
        self.reward_scale, self.reward_shift = reward_scale, reward_shift
        self.reward_tuning, self.top_fraction = reward_tuning, top_fraction
        if env is None and self.spec.env_id:
            env = EnvConfig(id=self.spec.env_id, **source.options)
        self.env = None if env is None else as_env_config(env)
        if self.env is not None:
            known = probe_spec(self.env)
            check_env(self.source, self.spec, known)
            self.spec = known
        # at once: bad rows are refused before anything else is built
        self.dataset = source.dataset if source.dataset is not None else load_dataset(self.source)
        if max_episodes is not None:
            self.dataset = self.dataset.first(max_episodes)
        if top_fraction < 1.0 or reward_tuning is not None:
            ranked = "data.top_fraction" if top_fraction < 1.0 else "data.reward_tuning"
            check_learner(self.dataset, ranked, ("rewards",))
        self._check_split(self.held_fraction)
        self.draw: torch.Generator | None = None

    def begin_anew(self) -> None:
        super().begin_anew()
        self.draw = None

    def open(self, stage: str) -> None:
        if self.draw is not None:
            return
        self.draw = self.generator("replay")
        if stage == "fit":
            self._check_learner(self.agent)
        self.held_fraction = self.fraction_for(self.agent)
        self._check_split(self.held_fraction)
        rows = self.dataset
        tuned = rows.reward if self.reward_tuning is None else self.reward_tuning.tune(rows)
        reward = tuned * self.reward_scale + self.reward_shift
        obs, next_obs = (
            seen.contiguous().view(torch.float32) if self.spec.is_bytes else seen  # four bytes for a number
            for seen in (rows.obs, rows.next_obs)
        )
        flat = [obs, rows.action, reward, rows.terminated, rows.truncated, next_obs]
        self.widths = [column.reshape(len(reward), -1).shape[1] for column in flat]
        self.rows = torch.cat([column.reshape(len(reward), -1).float() for column in flat], 1)
        self.train_index, self.holdout_index = self._split(rows.recording)
        if self.top_fraction < 1.0:
            self.train_index = self._top_episodes(rows.episode, reward)
        if getattr(self.agent, "models_next_obs", False):
            self._leave_out_unknown(rows)
        self.gives_next_action = "next_action" in getattr(self.agent, "needs_fields", ())
        if self.gives_next_action:
            self._leave_out_last(rows)
        if self.ensemble_bootstrap:
            own = torch.Generator().manual_seed(derive(self.seed, "bootstrap"))
            shape = (self.ensemble_bootstrap, len(self.train_index))
            self.resample = self.train_index[torch.randint(len(self.train_index), shape, generator=own)]
        if stage == "fit" and getattr(self.agent, "looks_by_passes", False):
            self.clock.pass_updates = -(-len(self.train_index) // self.batch_size)

    def fraction_for(self, module: Any) -> float:
        """How much is held out for a module: as told, or what those need that are assessed on it."""
        if self.val_fraction is not None:
            return self.val_fraction
        return ASSESSED if getattr(module, "evaluated_on", "episodes") == "rows" else 0.0

    def needed_columns(self, module: Any) -> tuple[str, ...]:
        """Those of rewards and terminals that a module learns from."""
        return tuple(getattr(module, "needs_columns", ()))

    def check_model(self, module: Any) -> None:
        plays = getattr(module, "evaluated_on", "episodes") == "episodes"
        if plays and self.eval_env == "model" and self.eval_model is None:
            raise ConfigError(
                "data.eval_env is model, and no model is named: --data.eval_dynamics RUN/dynamics"
            )
        self._check_learner(module)
        self._check_split(self.fraction_for(module))
        if getattr(module, "models_next_obs", False):
            self._check_known(self.dataset)

    def _check_split(self, fraction: float) -> None:
        one = int(self.dataset.recording[0]) == int(self.dataset.recording[-1])
        if one and fraction > 0.0 and self.split == "episode":
            raise DataError(
                f"{self.source}: there is one episode to learn from, so none can be held out. "
                "Use --data.split transition, or --data.val_fraction 0"
            )

    def _check_learner(self, module: Any) -> None:
        check_learner(self.dataset, type(module).__name__, self.needed_columns(module))
        if getattr(module, "n_step", 1) != 1:
            raise ConfigError(f"{type(self).__name__} holds single transitions; set model.n_step to 1")
        members = getattr(module, "ensemble_size", 0)
        if self.ensemble_bootstrap and self.ensemble_bootstrap != members:
            learns = f"has {members} members" if members else "learns from one stream of rows"
            raise ConfigError(
                f"data.ensemble_bootstrap is {self.ensemble_bootstrap}, but "
                f"{type(module).__name__} {learns}; set it to {members}"
            )

    def _split(self, episode: Tensor) -> tuple[Tensor, Tensor]:
        """Rows to train on and rows held out. All ranks and all stages of a seed share them."""
        return split_rows(episode, self.held_fraction, self.split, self.seed)

    def _top_episodes(self, episode: Tensor, reward: Tensor) -> Tensor:
        """The training rows of the episodes with the highest returns, at least one of them."""
        own = episode[self.train_index]
        returns = torch.zeros(int(episode[-1]) + 1, dtype=torch.float64)
        returns.index_add_(0, own, reward[self.train_index].double())
        present = torch.unique(own)
        count = max(1, round(self.top_fraction * len(present)))
        chosen = present[returns[present].argsort(descending=True, stable=True)[:count]]
        return self.train_index[torch.isin(own, chosen)]

    def _leave_out_unknown(self, rows: Dataset) -> None:
        """A model of next observations must not learn one that stands in for what a file does not tell."""
        self._check_known(rows)
        self.train_index = self.train_index[rows.next_known[self.train_index]]
        self.holdout_index = self.holdout_index[rows.next_known[self.holdout_index]]

    def _leave_out_last(self, rows: Dataset) -> None:
        """Without the rows that a cut came behind: nobody recorded what would have been done next."""
        last = torch.cat((rows.episode[1:] != rows.episode[:-1], torch.ones(1, dtype=torch.bool)))
        followed = ~last | rows.terminated
        self.train_index = self.train_index[followed[self.train_index]]
        if not len(self.train_index):
            raise DataError(
                f"{rows.name}: every episode is one row and cut behind it: no next action is known"
            )

    def _check_known(self, rows: Dataset) -> None:
        """Refuses rows of whose rewards such a model would never see one."""
        if bool((rows.reward > 0.0).any()) and not bool((rows.reward[rows.next_known] > 0.0).any()):
            raise DataError(
                f"{rows.name}: no 'next_observations', and all positive rewards lie in terminal rows, whose next "
                "observation is unknown: the model would learn that nothing is ever rewarded.\n"
                "Record the data again with next_observations, or learn values from it (IQL, TD3BC)"
            )

    def sample_batches(self, updates: int) -> Iterator[Any]:
        yield from self.unstack(self.sample(updates))

    def sample(self, updates: int) -> Transitions:
        """One gather for the whole block: [U, B, ...], with a bootstrap [U, E, B, ...]."""
        assert self.draw is not None
        if self.ensemble_bootstrap:
            shape: tuple[int, ...] = (self.ensemble_bootstrap, updates * self.batch_size)
            place = torch.randint(len(self.train_index), shape, generator=self.draw)
            index = self.resample.gather(1, place).unflatten(1, (updates, self.batch_size)).transpose(0, 1)
        else:
            shape = (updates, self.batch_size)
            index = self.train_index[torch.randint(len(self.train_index), shape, generator=self.draw)]
        return self.gather(index)

    def gather(self, index: Tensor) -> Transitions:
        """The rows at an index of any shape."""
        packed = self.rows[index]
        obs, action, reward, terminated, _, next_obs = packed.split(self.widths, -1)
        shape, lead = self.spec.obs_shape, index.shape
        if self.spec.action_kind == "continuous":
            action = action.reshape(*lead, *self.spec.action_shape)
        else:
            action = action.reshape(*lead, *self.spec.action_shape).long()
        if self.spec.is_pixels:
            obs, next_obs = obs.to(torch.uint8), next_obs.to(torch.uint8)
        elif self.spec.is_bytes:
            obs, next_obs = obs.view(torch.uint8), next_obs.view(torch.uint8)
        reward = reward[..., 0]
        ones = torch.ones_like(reward)
        next_action = None
        if self.gives_next_action:
            begin, width = self.widths[0], self.widths[1]
            following = (index + 1).clamp_(max=len(self.rows) - 1)
            next_action = self.rows[:, begin : begin + width][following].reshape(
                *lead, *self.spec.action_shape
            )
        return Transitions(
            obs.reshape(*lead, *shape),
            action,
            reward,
            next_obs.reshape(*lead, *shape),
            terminated[..., 0],
            ones * getattr(self.agent, "gamma", 1.0),
            ones,
            index,
            next_action=next_action,
        )

    def train_rows(self) -> Transitions:
        return self.gather(self.train_index)

    def val_rows(self) -> Transitions:
        """Rows that no update sees; with `holdout: 0` there are none, and the training rows stand in."""
        return self.gather(self.holdout_index if len(self.holdout_index) else self.train_index)

    def scores(self, summary: dict[str, float]) -> dict[str, float]:
        """The return on the scale of the data set's reference scores: D4RL's for its files, local for ours."""
        reference = self.dataset.reference
        if reference is None or self.eval_model is not None:
            return {}
        return {
            "eval/normalized_score": float(normalized(summary["eval/return"], reference.low, reference.high))
        }

    def collect_metrics(self) -> dict[str, float]:
        return super().collect_metrics() | {"collect/buffer_size": float(len(self.rows))}

    def save(self, store: SegmentStore) -> dict[str, Any]:
        assert self.draw is not None
        return super().save(store) | {"draw": self.draw.get_state(), "sha256": self.dataset.sha256}

    def load(self, state: dict[str, Any], store: SegmentStore) -> None:
        super().load(state, store)
        assert self.draw is not None
        if state["sha256"] != self.dataset.sha256:
            raise ResumeError(
                f"{self.source} has changed since the run began (sha256 {self.dataset.sha256[:12]}, was "
                f"{state['sha256'][:12]}): an exact resume needs the same rows"
            )
        self.draw.set_state(state["draw"])


def reward_std(rows: Transitions) -> float:
    """Standard deviation of the rewards, 1 where they are all alike."""
    spread = float(np.std(rows.reward.numpy()))
    return spread if spread > 1e-8 else 1.0
