"""Learning inside a learned world: rollouts or replay from imagined steps, evaluation in the real env."""

from __future__ import annotations

from typing import Any, Literal

import torch

from rl_lightning.artifacts import load_exported
from rl_lightning.datamodules.all_frames import AllFrames
from rl_lightning.datamodules.bases.env_data import MOST_EVAL_ENVS, EnvData
from rl_lightning.datamodules.frame_data import num_collections
from rl_lightning.datamodules.on_policy_data import OnPolicyData
from rl_lightning.datamodules.online_data import OnlineData
from rl_lightning.datasets.in_memory import DatasetLike
from rl_lightning.envs.own_envs import EnvLike
from rl_lightning.errors import ConfigError
from rl_lightning.io.artifact_place import Artifact
from rl_lightning.models.frames.frame_metrics import imagined_windows
from rl_lightning.models.frames.frame_world import FrameWorld
from rl_lightning.models.imagined_windows import ImaginedWindows
from rl_lightning.nn.frames.reward_net import RewardNet
from rl_lightning.ranges import NonNegativeInt, PositiveFloat, PositiveInt
from rl_lightning.replay import BufferFactory, Replay
from rl_lightning.replay.frames.frame_log import FrameLog
from rl_lightning.rollout.simulated_env import SimulatedEnvs, StartStates

SHOWN = 64  # recorded windows that are shown beside imagined ones


class FrameStarts:
    """Real stacks that imagined episodes begin at: any step, or the first of the newest collection.

    Args:
        log: All frames so far.
        context_steps: Steps before each start that the world's memory is filled with.
    """

    def __init__(self, log: FrameLog, context_steps: NonNegativeInt = 0) -> None:
        self.log, self.context_steps = log, context_steps
        self.steps = log.tensor("acted").nonzero()[:, 0]

    def at(self, rows: torch.Tensor) -> StartStates:
        window = self.log.windows(rows, 0, 0.99, self.context_steps)
        return StartStates(window.stack, window.past_stack, window.past_action, window.past_valid)

    def draw(self, count: int, generator: torch.Generator) -> StartStates:
        return self.at(self.steps[torch.randint(len(self.steps), (count,), generator=generator)])

    def first(self) -> StartStates:
        return self.at(torch.tensor([self.log.parts[-1]]))


class SimulatedEnvMixin(EnvData):
    """What both kinds of data share: training envs that a world computes, evaluation envs that are real."""

    clock_name = "update"
    artifact: Artifact
    reward_artifact: Artifact | None
    frames: AllFrames
    horizon: int
    pin_last_env_to_start: bool
    truncation_value: str
    eval_env: Literal["real", "model"]
    sim_dtype: str
    context_steps = 4

    def init_simulation(
        self,
        world: Artifact,
        reward: Artifact | None,
        frames: Artifact | None,
        dataset: DatasetLike | None,
        horizon: int,
        pin_last_env_to_start: bool,
        truncation_value: str,
        eval_env: Literal["real", "model"],
        sim_dtype: str,
    ) -> None:
        self.frames = AllFrames(self.env, self.spec, frames, dataset)
        if truncation_value not in ("critic", "world_model"):
            raise ConfigError(f"data.truncation_value is '{truncation_value}'; choose critic or world_model")
        if eval_env not in ("real", "model"):
            raise ConfigError(f"data.eval_env is '{eval_env}'; choose real or model")
        self.artifact, self.reward_artifact = world, reward
        self.horizon, self.pin_last_env_to_start = horizon, pin_last_env_to_start
        self.truncation_value, self.eval_env, self.sim_dtype = truncation_value, eval_env, sim_dtype

    def derive(self, name: str) -> int:
        return super().derive(f"{name}/{num_collections(self.frames.artifact)}")

    def make_simulated_envs(
        self, count: int, device: torch.device | str = "cpu", gamma: float = 0.99
    ) -> SimulatedEnvs:
        """The learned world for `count` agents."""
        world = load_exported(self.artifact, "world")
        assert isinstance(world, FrameWorld)
        world.check_compatible(self.spec, self.artifact)
        head: RewardNet | None = None
        if self.reward_artifact is not None:
            head = load_exported(self.reward_artifact, "reward").to(device)  # type: ignore[assignment]
        elif world.reward is None:
            raise ConfigError(
                f"{self.artifact} tells no reward; give data.reward_from, the artifact of a reward stage"
            )
        starts = FrameStarts(
            self.frames.read("a world of frames"),
            self.context_steps if world.recurrent_state_size else 0,
        )
        world = world.to(device).for_simulation(self.sim_dtype)
        return SimulatedEnvs(
            world, head, starts, self.spec, count, self.horizon, self.pin_last_env_to_start, self.truncation_value,
            gamma, self.sim_dtype, device,
        )  # fmt: skip

    def imagine_windows(self, horizon: int) -> ImaginedWindows:
        """Recorded windows beside what the world makes of their starts."""
        envs = self.make_simulated_envs(1)
        starts = envs.starts
        assert isinstance(starts, FrameStarts) and isinstance(envs.world, FrameWorld)
        log = starts.log
        horizon = min(horizon, int(log.walk(0.99).run.max()))
        rows = log.starts(horizon)
        spread = torch.linspace(0, len(rows) - 1, min(SHOWN, len(rows))).long()
        window = log.windows(rows[spread], horizon, 0.99, starts.context_steps)
        return imagined_windows(envs.world, window, envs.head)

    def training_envs(self) -> Any:
        return self.make_simulated_envs(self.num_envs, self.agent.device, self.agent.gamma)

    @property
    def env_steps_per_vector_step(self) -> int:
        """Imagined steps count one each, whatever the real env repeats."""
        return self.num_envs * self.world_size

    def eval_envs(self, episodes: int) -> Any:
        if self.eval_env == "real":
            return super().eval_envs(episodes)
        if self._eval_envs is None:
            self._eval_envs = self.make_simulated_envs(min(episodes, MOST_EVAL_ENVS))
        return self._eval_envs

    def render_env(self) -> Any:
        return super().render_env() if self.eval_env == "real" else self.make_simulated_envs(1)


class SimulatedData(SimulatedEnvMixin, OnPolicyData):
    """Rollouts in a learned world, used once: PPO in simulation.

    Args:
        env: The real environment, where the policy is evaluated.
        world_from: Artifact of the stage that learned the world.
        frames_from: Artifact of the newest collection, where imagined episodes begin; null: in what is recorded.
        reward_from: Artifact of the stage that learned the reward head; null: the world's own head.
        num_envs: Agents, stepped together in one pass.
        rollout_steps: Steps of each agent in one rollout.
        horizon: Steps after which an imagined episode is cut.
        pin_last_env_to_start: The last agent always begins at the newest collection's first frames.
        truncation_value: Value of a cut episode's rest: critic (the learner's own value) or world_model (the world's).
        eval_env: Where evaluation and rl play act: real, or model (to watch what the agent trains in).
        sim_dtype: Compute the world in bfloat16 while imagining.
        normalize_rewards: Divide rewards by the running spread of the discounted return; evaluation is untouched.
        dataset: Recorded episodes where imagined ones begin, too; null: none.
    """

    def __init__(
        self,
        env: EnvLike,
        world_from: Artifact,
        frames_from: Artifact | None = None,
        reward_from: Artifact | None = None,
        num_envs: PositiveInt = 16,
        rollout_steps: PositiveInt = 50,
        horizon: PositiveInt = 50,
        pin_last_env_to_start: bool = True,
        truncation_value: str = "critic",
        eval_env: Literal["real", "model"] = "real",
        sim_dtype: Literal["float32", "bfloat16"] = "float32",
        normalize_rewards: bool = False,
        dataset: DatasetLike | None = None,
    ) -> None:
        super().__init__(env, num_envs, rollout_steps, "sync", normalize_rewards)
        self.init_simulation(
            world_from,
            reward_from,
            frames_from,
            dataset,
            horizon,
            pin_last_env_to_start,
            truncation_value,
            eval_env,
            sim_dtype,
        )


class SimulatedReplayData(SimulatedEnvMixin, OnlineData):
    """Replay of imagined steps: DQN, or any other learner of single steps, in simulation.

    Args:
        env: The real environment, where the policy is evaluated.
        world_from: Artifact of the stage that learned the world.
        frames_from: Artifact of the newest collection, where imagined episodes begin; null: in what is recorded.
        reward_from: Artifact of the stage that learned the reward head; null: the world's own head.
        num_envs: Agents, stepped together in one pass.
        batch_size: Rows of one update.
        buffer: Where imagined experience is kept, and how it is drawn.
        learning_starts: Imagined steps with random actions before the first update.
        train_every: Imagined steps between updates (rounded up to whole steps of the vector).
        utd_ratio: Updates per imagined step after the start.
        horizon: Steps after which an imagined episode is cut.
        pin_last_env_to_start: The last agent always begins at the newest collection's first frames.
        truncation_value: Value of a cut episode's rest: critic (the learner's own value) or world_model (the world's).
        eval_env: Where evaluation and rl play act: real, or model (to watch what the agent trains in).
        sim_dtype: Compute the world in bfloat16 while imagining.
        dataset: Recorded episodes where imagined ones begin, too; null: none.
    """

    def __init__(
        self,
        env: EnvLike,
        world_from: Artifact,
        frames_from: Artifact | None = None,
        reward_from: Artifact | None = None,
        num_envs: PositiveInt = 16,
        batch_size: PositiveInt = 32,
        buffer: BufferFactory = Replay,
        learning_starts: NonNegativeInt = 1000,
        train_every: PositiveInt = 16,
        utd_ratio: PositiveFloat = 0.25,
        horizon: PositiveInt = 50,
        pin_last_env_to_start: bool = True,
        truncation_value: str = "critic",
        eval_env: Literal["real", "model"] = "real",
        sim_dtype: Literal["float32", "bfloat16"] = "float32",
        dataset: DatasetLike | None = None,
    ) -> None:
        super().__init__(env, num_envs, batch_size, buffer, learning_starts, train_every, utd_ratio, "sync")
        self.init_simulation(
            world_from,
            reward_from,
            frames_from,
            dataset,
            horizon,
            pin_last_env_to_start,
            truncation_value,
            eval_env,
            sim_dtype,
        )
