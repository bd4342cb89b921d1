"""Fresh rollouts, used once: the data of PPO."""

from __future__ import annotations

from rl_lightning.data.envs import EnvData
from rl_lightning.envs.make import EnvConfig
from rl_lightning.errors import ConfigError
from rl_lightning.models.normalizer import ReturnScaler
from rl_lightning.types import Block


class OnPolicyData(EnvData):
    """Plays `rollout_steps` steps in every env with the current policy and hands them over as one block.

    Args:
        env: The environment and all that is wrapped around it.
        num_envs: Training envs of one process.
        rollout_steps: Steps of each env in one rollout.
        vectorization: sync (one after the other), async (a process each) or native (Atari's own C++ vector).
        normalize_rewards: Divide rewards by the running spread of the discounted return; evaluation is untouched.
    """

    on_policy = True

    def __init__(
        self,
        env: EnvConfig,
        num_envs: int = 8,
        rollout_steps: int = 128,
        vectorization: str = "sync",
        normalize_rewards: bool = False,
    ) -> None:
        super().__init__(env, num_envs, vectorization)
        if rollout_steps < 1:
            raise ConfigError(f"data.rollout_steps is {rollout_steps}; it must be at least 1")
        self.rollout_steps = rollout_steps
        self.normalize_rewards = normalize_rewards
        self.scaler: ReturnScaler | None = None

    def setup(self, stage: str) -> None:
        super().setup(stage)
        if stage == "fit" and self.normalize_rewards and self.scaler is None:
            self.scaler = ReturnScaler(self.agent.gamma, self.num_envs)

    def next_block(self) -> Block:
        self.schedule.begin_block()
        assert self.collector is not None
        carry = self.collector.carry
        rollout = self.collect(self.agent.act, self.rollout_steps).rollout(carry, self.collector.carry)
        if self.scaler is not None:
            done = rollout.terminated | rollout.truncated
            rollout = rollout._replace(reward=self.scaler.scale(rollout.reward, done))
        return Block(rollout, 1, stacked=False)
