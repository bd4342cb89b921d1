"""Fresh rollouts, used once: the data of PPO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rl_lightning import distributed
from rl_lightning.clock.phases import Hook, Phase
from rl_lightning.clock.run_clock import RunClock
from rl_lightning.datamodules.bases.env_data import EnvData
from rl_lightning.envs.own_envs import EnvLike
from rl_lightning.models.normalizers import RewardNormalizer
from rl_lightning.ranges import PositiveInt
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.types import Rollout


class OnPolicyData(EnvData):
    """Plays `rollout_steps` steps in every env with the current policy and hands them over as one block.

    Args:
        env: The environment and all that is wrapped around it.
        num_envs: Training envs of one process.
        rollout_steps: Steps of each env in one rollout.
        vectorization: sync (one after the other), async (a process each) or native (Atari's own C++ vector).
        normalize_rewards: Divide rewards by the running spread of the discounted return; evaluation is untouched.
    """

    yields = Rollout

    def __init__(
        self,
        env: EnvLike,
        num_envs: PositiveInt = 8,
        rollout_steps: PositiveInt = 128,
        vectorization: str = "sync",
        normalize_rewards: bool = False,
    ) -> None:
        super().__init__(env, num_envs, vectorization)
        self.rollout_steps = rollout_steps
        self.normalize_rewards = normalize_rewards
        self.scaler: RewardNormalizer | None = None
        self.fresh: Rollout | None = None  # between the collect and the update hooks of a phase

    def begin_anew(self) -> None:
        super().begin_anew()
        self.scaler = self.fresh = None

    def open(self, stage: str) -> None:
        super().open(stage)
        if stage == "fit" and self.normalize_rewards and self.scaler is None:
            self.scaler = RewardNormalizer(self.agent.gamma, self.num_envs)

    def save(self, store: SegmentStore) -> dict[str, Any]:
        scaler = None if self.scaler is None else self.scaler.state_dict()
        fresh = None if self.fresh is None else dict(self.fresh._asdict())
        return super().save(store) | {"scaler": scaler, "fresh": fresh}

    def load(self, state: dict[str, Any], store: SegmentStore) -> None:
        super().load(state, store)
        self.fresh = None if state["fresh"] is None else Rollout(**state["fresh"])
        if self.scaler is not None:
            self.scaler.load_state_dict(state["scaler"])

    def batches(self) -> Iterator[Rollout]:
        self.fresh = self._roll(None)
        yield from self.sample_batches(1)

    def forecast(self, clock: RunClock) -> tuple[int, int]:
        return self.rollout_steps * self.env_steps_per_vector_step, 1

    def forecast_collect(self, phase: Phase) -> int:
        return (phase.collect_steps or self.rollout_steps) * self.env_steps_per_vector_step

    def collect_hook(self, phase: Phase, collected: int) -> int:
        """A rollout is not cut: it may pass the budget, in a phase as in a turn."""
        self.fresh = self._roll(phase)
        return 0

    def ready(self) -> bool:
        return self.fresh is not None

    def updates_per_hook(self, hook: Hook) -> int:
        return 1

    def sample_batches(self, updates: int) -> Iterator[Rollout]:
        """A rollout is used by each hook once, while it is fresh."""
        rollout = self.fresh
        assert rollout is not None
        if self.clock.phases is None or self.clock.phases.last_update:
            self.fresh = None
        yield rollout

    def _roll(self, phase: Phase | None) -> Rollout:
        assert self.collector is not None
        carry = self.collector.carry
        steps = (phase.collect_steps if phase else None) or self.rollout_steps
        played = self.collect(self.actor(phase), steps, bool(phase and phase.deterministic_policy))
        rollout = played.rollout(carry, self.collector.carry)
        if self.scaler is not None:
            done = rollout.terminated | rollout.truncated
            rollout = rollout._replace(reward=self.scaler.scale(rollout.reward, done, distributed.gather))
        return rollout
