"""Learning inside a learned world: rollouts or replay from imagined steps, evaluation in the real env."""

from __future__ import annotations

from typing import Any

import torch

from rl_lightning.artifacts import load_provided
from rl_lightning.datamodules.bases.env_data import MOST_EVAL_ENVS, EnvData
from rl_lightning.datamodules.frame_data import collections
from rl_lightning.datamodules.on_policy_data import OnPolicyData
from rl_lightning.datamodules.online_data import OnlineData
from rl_lightning.envs.own_envs import EnvLike
from rl_lightning.errors import ConfigError
from rl_lightning.models.frames.frame_world import FrameWorld, frame_shape
from rl_lightning.nn.frames.reward_net import RewardNet
from rl_lightning.replay import BufferRecipe
from rl_lightning.replay.frames.frame_artifacts import load_frames
from rl_lightning.replay.frames.frame_log import FrameLog
from rl_lightning.rollout.simulated_env import SimulatedEnvs, Starts


class FrameStarts:
    """Real stacks that imagined episodes begin at: any step, or the first of the newest collection.

    Args:
        log: All frames so far.
        past: Steps before each start that the world's memory is filled with.
    """

    def __init__(self, log: FrameLog, past: int = 0) -> None:
        self.log, self.past = log, past
        self.steps = log.tensor("acted").nonzero()[:, 0]

    def at(self, rows: torch.Tensor) -> Starts:
        window = self.log.windows(rows, 0, 0.99, self.past)
        return Starts(window.stack, window.past_stack, window.past_action, window.past_valid)

    def draw(self, count: int, generator: torch.Generator) -> Starts:
        return self.at(self.steps[torch.randint(len(self.steps), (count,), generator=generator)])

    def first(self) -> Starts:
        return self.at(torch.tensor([self.log.parts[-1]]))


class Dreaming(EnvData):
    """What both kinds of data share: training envs that a world computes, evaluation envs that are real."""

    clock = "update"
    product: str
    reward_product: str | None
    frames_product: str
    horizon: int
    flip_first: bool
    bootstrap: str
    play_in: str
    half: bool
    past = 4

    def prepare_dream(
        self, world: str, reward: str | None, frames: str, horizon: int, flip_first: bool, bootstrap: str,
        play_in: str, half: bool,
    ) -> None:  # fmt: skip
        frame_shape(self.spec)
        if horizon < 1:
            raise ConfigError(f"data.horizon is {horizon}; it must be at least 1")
        if bootstrap not in ("critic", "world"):
            raise ConfigError(f"data.bootstrap is '{bootstrap}'; choose critic or world")
        if play_in not in ("real", "dream"):
            raise ConfigError(f"data.play_in is '{play_in}'; choose real or dream")
        self.product, self.reward_product, self.frames_product = world, reward, frames
        self.horizon, self.flip_first = horizon, flip_first
        self.bootstrap, self.play_in, self.half = bootstrap, play_in, half

    def derive(self, name: str) -> int:
        return super().derive(f"{name}/{collections(self.frames_product)}")

    def dream_envs(
        self, count: int, device: torch.device | str = "cpu", gamma: float = 0.99
    ) -> SimulatedEnvs:
        """The learned world for `count` agents."""
        world = load_provided(self.product, "world")
        assert isinstance(world, FrameWorld)
        world.fits(self.spec, self.product)
        head: RewardNet | None = None
        if self.reward_product is not None:
            head = load_provided(self.reward_product, "reward").to(device)  # type: ignore[assignment]
        elif world.reward is None:
            raise ConfigError(
                f"{self.product} tells no reward; give data.reward, the product of a reward stage"
            )
        starts = FrameStarts(
            load_frames(self.frames_product, self.spec), self.past if world.state_size else 0
        )
        world = world.to(device).for_imagining(self.half)
        return SimulatedEnvs(
            world, head, starts, self.spec, count, self.horizon, self.flip_first, self.bootstrap,
            gamma, self.half, device,
        )  # fmt: skip

    def training_envs(self) -> Any:
        return self.dream_envs(self.num_envs, self.agent.device, self.agent.gamma)

    @property
    def wide(self) -> int:
        """Imagined steps count one each, whatever the real env repeats."""
        return self.num_envs * self.world_size

    def eval_envs(self, episodes: int) -> Any:
        if self.play_in == "real":
            return super().eval_envs(episodes)
        if self._eval_envs is None:
            self._eval_envs = self.dream_envs(min(episodes, MOST_EVAL_ENVS))
        return self._eval_envs

    def render_env(self) -> Any:
        return super().render_env() if self.play_in == "real" else self.dream_envs(1)


class SimulatedData(Dreaming, OnPolicyData):
    """Rollouts in a learned world, used once: PPO in simulation.

    Args:
        env: The real environment, where the policy is evaluated.
        world: Product of the stage that learned the world.
        frames: Product of the newest collection: where imagined episodes begin.
        reward: Product of the stage that learned the reward head; null: the world's own head.
        num_envs: Agents, stepped together in one pass.
        rollout_steps: Steps of each agent in one rollout.
        horizon: Steps after which an imagined episode is cut.
        flip_first: The last agent always begins at the newest collection's first frames.
        bootstrap: What a cut episode was still worth: critic (the learner's own value) or world (the world's).
        play_in: Where evaluation and rl play act: real, or dream (to watch what the agent trains in).
        half: Compute the world in bfloat16 while imagining.
        normalize_rewards: Divide rewards by the running spread of the discounted return; evaluation is untouched.
    """

    def __init__(
        self,
        env: EnvLike,
        world: str,
        frames: str,
        reward: str | None = None,
        num_envs: int = 16,
        rollout_steps: int = 50,
        horizon: int = 50,
        flip_first: bool = True,
        bootstrap: str = "critic",
        play_in: str = "real",
        half: bool = False,
        normalize_rewards: bool = False,
    ) -> None:
        super().__init__(env, num_envs, rollout_steps, "sync", normalize_rewards)
        self.prepare_dream(world, reward, frames, horizon, flip_first, bootstrap, play_in, half)


class SimulatedReplay(Dreaming, OnlineData):
    """Replay of imagined steps: DQN, or any other learner of single steps, in simulation.

    Args:
        env: The real environment, where the policy is evaluated.
        world: Product of the stage that learned the world.
        frames: Product of the newest collection: where imagined episodes begin.
        reward: Product of the stage that learned the reward head; null: the world's own head.
        num_envs: Agents, stepped together in one pass.
        batch_size: Rows of one update.
        buffer: Where imagined experience is kept, and how it is drawn.
        learning_starts: Imagined steps with random actions before the first update.
        train_every: Imagined steps between updates (rounded up to whole steps of the vector).
        update_ratio: Updates per imagined step after the start.
        horizon: Steps after which an imagined episode is cut.
        flip_first: The last agent always begins at the newest collection's first frames.
        bootstrap: What a cut episode was still worth: critic (the learner's own value) or world (the world's).
        play_in: Where evaluation and rl play act: real, or dream (to watch what the agent trains in).
        half: Compute the world in bfloat16 while imagining.
    """

    def __init__(
        self,
        env: EnvLike,
        world: str,
        frames: str,
        reward: str | None = None,
        num_envs: int = 16,
        batch_size: int = 32,
        buffer: BufferRecipe | None = None,
        learning_starts: int = 1000,
        train_every: int = 16,
        update_ratio: float = 0.25,
        horizon: int = 50,
        flip_first: bool = True,
        bootstrap: str = "critic",
        play_in: str = "real",
        half: bool = False,
    ) -> None:
        super().__init__(
            env, num_envs, batch_size, buffer, learning_starts, train_every, update_ratio, "sync"
        )
        self.prepare_dream(world, reward, frames, horizon, flip_first, bootstrap, play_in, half)
