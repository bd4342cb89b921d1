"""Recorded rows mixed with imagined ones: what turns SAC into MBPO, MOPO and GORMPO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

import torch

from rl_lightning.artifacts import exported_config, fingerprint, load_exported
from rl_lightning.clock.run_clock import RunClock
from rl_lightning.datamodules.offline_data import OfflineData, reward_std
from rl_lightning.datasets.in_memory import DatasetLike
from rl_lightning.datasets.rows.end_rule import end_rule, rule_or_never
from rl_lightning.envs.own_envs import EnvLike
from rl_lightning.envs.termination import Termination
from rl_lightning.errors import ConfigError, ResumeError
from rl_lightning.io.artifact_place import Artifact
from rl_lightning.models.dynamics.penalties import NoPenalty, Penalty
from rl_lightning.ranges import Fraction, FractionBelowOne, NonNegativeFloat, PositiveInt
from rl_lightning.replay.ring import RingBuffer
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.rollout.imagine import ImaginedTransitions, imagine, with_random_noise_scale
from rl_lightning.rollout.model_exploitation import imagined_return, real_return
from rl_lightning.types import Transitions

EXAMINED = 500  # recorded states that a test of exploitation starts from


class ModelRolloutData(OfflineData):
    """Short rollouts of the policy in a learned model, from recorded states, kept for a while and mixed with the data.

    Args:
        dynamics: Artifact of a dynamics stage.
        penalty: What an imagined step pays for lying outside the data; null: nothing (MBPO).
        penalty_coef: Weight of the penalty; 0 is MBPO, bit for bit.
        penalty_unit: What a penalty of 1 costs: one unit of reward, or one standard deviation of the data's rewards.
        ood_terminal_value: Value of being outside. A number ends an imagined episode at its first step below the
            penalty's threshold, as if all that followed were worth this (MOReL); null goes on there, and a penalty
            above the reward of being alive then makes an early end attractive. A penalty without a threshold knows
            no outside.
        action_noise: Most spread of noise on imagined actions; each row has a fraction of it, drawn evenly. It shows
            the critics what leaving the data costs where the policy itself hardly varies, as one cloned from an expert.
        rollout_length: Steps of an imagined rollout.
        rollout_batch_size: Recorded states that rollouts begin at.
        rollout_freq: Updates between two rollouts.
        retain_rollouts: Newest rollouts that are kept to learn from.
        real_ratio: Fraction of recorded rows in a batch; 1 imagines nothing.
        termination: When an imagined episode ends; null: by the data set's env, or never where no recorded row is
            terminal.
        dataset: Name or path; see rl data list.
        env: Where the policy is evaluated; null: the env that the data set names, if any.
        batch_size: Rows of one update.
        updates_per_block: Updates made of one gather.
        val_fraction: Fraction of the data that is kept for validation, the same for every stage of one seed; null:
            none.
        split: What is held out: whole episodes, or single rows.
        reward_scale: Rewards are multiplied by this.
        reward_shift: And this is added, after scaling.
        max_episodes: Recorded episodes that are used at all, the first ones; null: all.
        eval_env: Where evaluation acts: real, or model (in `dynamics`, from held-out starts, the penalty's density
            telling how many steps are unlikely).
    """

    fields_given: ClassVar[tuple[str, ...]] = ("is_real",)

    def __init__(
        self,
        dataset: DatasetLike,
        dynamics: Artifact,
        penalty: Penalty | None = None,
        penalty_coef: NonNegativeFloat = 0.5,
        penalty_unit: Literal["reward", "reward_std"] = "reward",
        ood_terminal_value: float | None = None,
        action_noise: NonNegativeFloat = 0.0,
        rollout_length: PositiveInt = 5,
        rollout_batch_size: PositiveInt = 50_000,
        rollout_freq: PositiveInt = 1000,
        retain_rollouts: PositiveInt = 5,
        real_ratio: Fraction = 0.05,
        termination: Termination | None = None,
        env: EnvLike | None = None,
        batch_size: PositiveInt = 256,
        updates_per_block: PositiveInt = 50,
        val_fraction: FractionBelowOne | None = None,
        split: Literal["episode", "transition"] = "episode",
        reward_scale: float = 1.0,
        reward_shift: float = 0.0,
        max_episodes: PositiveInt | None = None,
        eval_env: Literal["real", "model"] = "real",
    ) -> None:
        super().__init__(
            dataset,
            env,
            batch_size,
            updates_per_block,
            val_fraction,
            split,
            reward_scale=reward_scale,
            reward_shift=reward_shift,
            max_episodes=max_episodes,
        )
        if self.spec.action_kind != "continuous" or len(self.spec.obs_shape) != 1:
            raise ConfigError(
                f"{self.source}: models are learned of flat observations and continuous actions"
            )
        self.artifact, self.penalty = dynamics, penalty or NoPenalty()
        self.penalty_coef, self.penalty_unit, self.ood_terminal_value = (
            penalty_coef,
            penalty_unit,
            ood_terminal_value,
        )
        self.action_noise = action_noise
        self.rollout_length, self.rollout_batch_size, self.rollout_freq, self.retain_rollouts = (
            rollout_length,
            rollout_batch_size,
            rollout_freq,
            retain_rollouts,
        )
        self.real_ratio = real_ratio
        rule = termination or end_rule(self.dataset, self.spec.env_id)
        self.never_ends, self.termination = rule is None, rule_or_never(rule)
        self.measured: dict[str, float] = {}
        self.eval_env = eval_env
        if eval_env == "model":
            density = getattr(self.penalty, "density", None)
            self.evaluate_in(dynamics, density, self.termination, getattr(self.penalty, "percentile", 1.0))

    def notes(self) -> list[str]:
        if not self.never_ends:
            return super().notes()
        line = f"{self.source} has no terminal, so imagined episodes never end by themselves"
        return [*super().notes(), f"{line}; a rule of your own: --data.termination NAME"]

    def needed_columns(self, module: Any) -> tuple[str, ...]:
        """Rows without terminals are what they say where episodes never end."""
        needed = super().needed_columns(module)
        return tuple(name for name in needed if name != "terminals" or not self.never_ends)

    def check_model(self, module: Any) -> None:
        super().check_model(module)
        if getattr(module, "doubts_by_itself", False):
            name = type(module).__name__
            if not isinstance(self.penalty, NoPenalty):
                raise ConfigError(
                    f"{name} is careful with imagined rows by itself; {type(self.penalty).__name__} would make it pay "
                    "twice. Add: --data.penalty NoPenalty"
                )
            if int(self.real_ratio * self.batch_size) < 1:
                raise ConfigError(
                    f"{name} needs recorded rows in every batch, and data.real_ratio {self.real_ratio} of "
                    f"{self.batch_size} is none; raise it"
                )

    def open(self, stage: str) -> None:
        if self.draw is not None:
            return
        super().open(stage)
        self.check_learned_as(exported_config(self.artifact, "data"), str(self.artifact))
        self.dynamics: Any = load_exported(self.artifact, "dynamics")
        self.penalty.setup()
        loaded = {"dynamics": (self.artifact, self.dynamics), "density": self.penalty.artifact()}
        self.artifacts = [(name, at[0], fingerprint(at[1])) for name, at in loaded.items() if at is not None]
        self.explore, self.noise = self.generator("explore"), self.generator("imagine")
        self.unit = reward_std(self.train_rows()) if self.penalty_unit == "reward_std" else 1.0
        self.model_rows = RingBuffer(
            self.spec, 1, self.rollout_batch_size * self.rollout_length * self.retain_rollouts
        )
        self.rolled_at = -1  # update of the newest rollout

    def check_learned_as(self, learned: Mapping[str, Any], source: str) -> None:
        """Recorded and imagined rewards lie in one batch: the model must have learned them as they are here.

        Args:
            learned: What the data of the model's stage were told.
            source: What the model is called.
        """
        for key, own in (
            ("reward_scale", self.reward_scale),
            ("reward_shift", self.reward_shift),
            ("reward_tuning", None),
        ):
            if learned.get(key, own) != own:
                raise ConfigError(
                    f"{source} learned rewards with data.{key} {learned[key]}, this stage has {own}: "
                    "give both the same"
                )

    def sample_batches(self, updates: int) -> Iterator[Transitions]:
        self.rollout_if_due()
        yield from super().sample_batches(self.cut_updates(self.clock, updates))

    def cut_updates(self, clock: RunClock, updates: int) -> int:
        return min(updates, self.rollout_freq - clock.update % self.rollout_freq)

    def rollout_if_due(self) -> None:
        due = self.clock.update // self.rollout_freq * self.rollout_freq
        if self.real_ratio < 1.0 and self.rolled_at < due:
            self.rollout()
            self.rolled_at = due

    def rollout(self) -> None:
        """One rollout from recorded states by the policy as it is now."""
        assert self.draw is not None
        place = torch.randint(len(self.train_index), (self.rollout_batch_size,), generator=self.draw)
        start = self.rows[self.train_index[place], : self.widths[0]]
        dreamed = self.imagine(start, self.action_noise)
        packed = [dreamed.obs, dreamed.action, dreamed.reward[:, None], dreamed.terminated[:, None]]
        self.model_rows.push(
            torch.cat([*packed, torch.zeros_like(dreamed.reward)[:, None], dreamed.next_obs], 1)
        )
        self.measured = dreamed.statistics() | {"imagine/buffer_size": float(len(self.model_rows))}

    def imagine(
        self, start: torch.Tensor, action_noise: float = 0.0, own: torch.Generator | None = None
    ) -> ImaginedTransitions:
        """Rollouts from states, where the policy lives; the rows come back to where data live.

        With a generator of its `own` it leaves training as it is.
        """
        device, act = self.agent.device, self.agent.act_fn()
        dreamed = imagine(
            self.dynamics.to(device),
            with_random_noise_scale(act, action_noise) if action_noise else act,
            start.to(device),
            self.rollout_length,
            self.termination,
            own or self.noise,
            own or self.explore,
            self.penalty,
            self.penalty_coef * self.unit,
            None if self.ood_terminal_value is None else self.agent.gamma * self.ood_terminal_value,
        )
        parts: list[Any] = [part.cpu() if isinstance(part, torch.Tensor) else part for part in dreamed]
        return ImaginedTransitions(*parts)

    def sample(self, updates: int) -> Transitions:
        """Recorded rows first, then imagined ones: [U, B, ...]."""
        real = int(self.real_ratio * self.batch_size) if len(self.model_rows) else self.batch_size
        whole, self.batch_size = self.batch_size, real
        recorded = super().sample(updates)
        self.batch_size = whole
        if real == whole:
            return recorded._replace(is_real=torch.ones(updates, whole, dtype=torch.bool))
        assert self.draw is not None
        place = torch.randint(len(self.model_rows), (updates, whole - real), generator=self.draw)
        packed = self.model_rows.rows[place]
        obs, action, reward, terminated, _, next_obs = packed.split(self.widths, -1)
        reward, terminated = reward[..., 0], terminated[..., 0]
        ones = torch.ones_like(reward)
        gamma = ones * self.agent.gamma
        dreamed = Transitions(obs, action, reward, next_obs, terminated, gamma, ones, place)
        pairs = zip(recorded[:8], dreamed[:8], strict=True)
        is_real = (torch.arange(whole) < real).expand(updates, -1)
        return Transitions(*(torch.cat(pair, 1) for pair in pairs))._replace(is_real=is_real)

    def diagnostics(self, module: Any) -> dict[str, Any]:
        """Model exploitation: what the policy is promised from recorded states, minus what the env pays."""
        own = torch.Generator().manual_seed(self.derive("examine"))
        place = torch.randint(len(self.train_index), (EXAMINED,), generator=own)
        start = self.rows[self.train_index[place], : self.widths[0]]
        act = module.act_fn()
        model, there = self.dynamics.to(module.device), start.to(module.device)
        dreamed = imagined_return(model, act, there, self.rollout_length, self.termination, own, own).cpu()
        report: dict[str, Any] = {"imagined_return": float(dreamed.mean())}
        scale, shift = self.reward_scale, self.reward_shift
        received = (
            None
            if self.env is None
            else real_return(self.env, act, start, self.rollout_length, own, scale, shift)
        )
        if received is not None:
            report |= {
                "real_return": float(received.mean()),
                "model_exploitation": float((dreamed - received).mean()),
            }
        else:
            report["no_model_exploitation"] = self._why_not_placed()
        report |= {
            k.removeprefix("imagine/"): v for k, v in self.imagine(start, own=own).statistics().items()
        }
        return {"imagination": report}

    def _why_not_placed(self) -> str:
        if self.env is None:
            return "the data name no env; give one: --data.env.id ID"
        return (
            f"{self.env.id} cannot be put into a recorded state; give your env a method set_state_from_obs(obs) "
            "(docs/extending.md)"
        )

    def collect_metrics(self) -> dict[str, float]:
        return super().collect_metrics() | self.measured

    def save(self, store: SegmentStore) -> dict[str, Any]:
        generators = {"explore": self.explore.get_state(), "noise": self.noise.get_state()}
        return super().save(store) | {
            **generators,
            "artifacts": {name: digest for name, _, digest in self.artifacts},
            "rolled_at": self.rolled_at,
            "measured": dict(self.measured),
            "imagined": self.model_rows.save(store.part("imagined")),
        }

    def load(self, state: dict[str, Any], store: SegmentStore) -> None:
        super().load(state, store)
        for name, path, digest in self.artifacts:
            first_digest = state.get("artifacts", {}).get(name, digest)
            if first_digest != digest:
                raise ResumeError(
                    f"{path}: is not the {name} that the run began with (sha256 {digest[:12]}, was "
                    f"{first_digest[:12]}): an exact resume needs the same artifact"
                )
        self.explore.set_state(state["explore"])
        self.noise.set_state(state["noise"])
        self.rolled_at, self.measured = state["rolled_at"], dict(state["measured"])
        self.model_rows.load(state["imagined"], store.part("imagined"))
