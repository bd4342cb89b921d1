"""A learned world as a vector env: one batched pass for all agents, on the world's device, from real frames on."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from torch import Tensor

from rl_lightning.envs.palette import ATARI_COLORS, palette
from rl_lightning.envs.vector import Array, Envs, Infos, Seeds, spread_seeds
from rl_lightning.errors import ConfigError, ResumeError
from rl_lightning.types import EnvSpec

ZOOM = 4  # of rendered frames


class StartStates(NamedTuple):
    """Where imagined episodes begin, rows first; see FrameWindow for the past."""

    stack: Tensor
    past_stack: Tensor
    past_action: Tensor
    past_valid: Tensor


class StartSampler(Protocol):
    """Gives places to begin at."""

    def draw(self, count: int, generator: torch.Generator) -> StartStates: ...
    def first(self) -> StartStates: ...


class Simulator(Protocol):
    """A world that goes on from stacks of frames; `FrameWorld` is one."""

    colors: int
    frame_shape: tuple[int, int, int]

    def predict_step(
        self, stack: Tensor, action: Tensor, state: Any, head: Any, generator: torch.Generator | None
    ) -> Any: ...
    def push(self, stack: Tensor, frame: Tensor) -> Tensor: ...
    def warm_up_state(self, stacks: Tensor, actions: Tensor, valid: Tensor) -> Any: ...
    def state_value(self, stack: Tensor, state: Any = None) -> Tensor: ...


class SimulatedEnvs(Envs):
    """N agents in one learned world, under the contract of every vector env here.

    An episode is cut after `horizon` steps. What it was still worth is counted once: by the learner's own critic, who
    sees the true last observation, or (`truncation_value` world) by the world's value of that observation,
    discounted and paid with the last reward, and the episode ends for good.

    Args:
        world: What comes next.
        head: What it pays, where the world has no head of its own.
        starts: Where episodes begin.
        spec: Of the real env.
        num_envs: Agents.
        horizon: Steps of an episode.
        pin_last_env_to_start: The last agent always begins at the newest collection's first frames, which random
            places miss.
        truncation_value: critic or world_model.
        gamma: Discount of the world's value.
        sim_dtype: Compute the world in bfloat16; what it predicts are classes, so that little hangs on the last
            digits.
        device: Where the world lives.
    """

    def __init__(
        self,
        world: Simulator,
        head: Any,
        starts: StartSampler,
        spec: EnvSpec,
        num_envs: int,
        horizon: int,
        pin_last_env_to_start: bool = True,
        truncation_value: str = "critic",
        gamma: float = 0.99,
        sim_dtype: str = "float32",
        device: torch.device | str = "cpu",
    ) -> None:
        if truncation_value not in ("critic", "world_model"):
            raise ConfigError(f"data.truncation_value is '{truncation_value}'; choose critic or world_model")
        self.world, self.head, self.starts = world, head, starts
        self.num_envs, self.horizon, self.pin_last_env_to_start = num_envs, horizon, pin_last_env_to_start
        self.truncation_value, self.gamma, self.sim_dtype, self.device = (
            truncation_value,
            gamma,
            sim_dtype,
            torch.device(device),
        )
        self.metadata = {
            "autoreset_mode": AutoresetMode.SAME_STEP,
            "render_modes": ["rgb_array"],
            "render_fps": 15,
        }
        self.render_mode = "rgb_array"
        self.single_observation_space = spaces.Box(0, 255, spec.obs_shape, np.uint8)
        self.single_action_space = spaces.Discrete(spec.action_dim)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._prepare(num_envs, spec._replace(max_episode_steps=horizon, action_repeat=1))
        self.draw = torch.Generator()  # of starts
        self.noise = torch.Generator(self.device)  # of the world's latent
        self._stack = torch.zeros(num_envs, *spec.obs_shape, dtype=torch.uint8, device=self.device)
        self._state: Tensor | None = None
        self._age = np.zeros(num_envs, np.int64)
        self._returns = np.zeros(num_envs, np.float64)

    def reset(self, *, seed: Seeds = None, options: dict[str, Any] | None = None) -> tuple[Array, Infos]:
        first = spread_seeds(seed, self.num_envs)[0]
        if first is not None:
            self.action_space.seed(first)
            self.draw.manual_seed(first)
            self.noise.manual_seed(first + 1)
        self._state = None
        self._begin(np.ones(self.num_envs, bool))
        return self._seen(), {}

    def _begin(self, rows: Array) -> None:
        """New episodes for some agents; those of the others are left alone."""
        places = np.flatnonzero(rows)
        starts = self.starts.draw(len(places), self.draw)
        if self.pin_last_env_to_start and rows[-1]:
            starts = StartStates(
                *(torch.cat([a[:-1], b]) for a, b in zip(starts, self.starts.first(), strict=True))
            )
        on_device = StartStates(*(part.to(self.device) for part in starts))
        index = torch.from_numpy(places).to(self.device)
        self._stack[index] = on_device.stack
        with self._precision():
            state = self.world.warm_up_state(
                on_device.past_stack, on_device.past_action, on_device.past_valid
            )
        if state is not None:
            if self._state is None:
                self._state = state.new_zeros(self.num_envs, *state.shape[1:])
            self._state[index] = state
        self._age[rows], self._returns[rows] = 0, 0.0

    @torch.no_grad()
    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, Infos]:
        action = torch.as_tensor(np.asarray(actions), dtype=torch.int64).to(self.device)
        with self._precision():
            step = self.world.predict_step(self._stack, action, self._state, self.head, self.noise)
        self._stack, self._state = self.world.push(self._stack, step.frame), step.state
        rewards = step.reward.float().cpu().numpy().astype(np.float32)
        terminated = step.terminated.cpu().numpy().copy()
        self._age += 1
        self._returns += rewards
        self.steps += 1
        truncated = (self._age >= self.horizon) & ~terminated
        if self.truncation_value == "world_model" and truncated.any():
            with self._precision():
                value = self.world.state_value(self._stack, self._state).float().cpu().numpy()
            rewards = np.where(truncated, rewards + self.gamma * value, rewards).astype(np.float32)
            terminated, truncated = terminated | truncated, np.zeros_like(truncated)
        ended = terminated | truncated
        infos: Infos = {}
        if ended.any():
            infos["final_obs"] = self._seen()
            infos["episode"] = {
                "return": np.where(ended, self._returns, 0.0),
                "length": np.where(ended, self._age, 0),
            }
            self._begin(ended)
        return self._seen(), rewards, terminated, truncated, infos

    def cut_after(self, steps: int | None) -> None:
        """Nothing to cut: an imagined episode has its horizon."""

    def _precision(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.sim_dtype == "bfloat16")

    def _seen(self) -> Array:
        frames: Array = self._stack.cpu().numpy()
        return frames.copy() if self.device.type == "cpu" else frames

    def render(self) -> tuple[Any, ...]:
        """The newest frame of every agent, in colours.  [H, W, 3] each"""
        newest = self._stack[:, -self.world.frame_shape[0] :].cpu().numpy()
        return tuple(picture(frame, self.world.colors) for frame in newest)

    def snapshot(self) -> list[Any]:
        """The exact place of each agent; the first one's also holds the generators."""
        states: list[Any] = [
            {
                "stack": self._stack[n].cpu().clone(),
                "state": None if self._state is None else self._state[n].cpu().clone(),
                "age": int(self._age[n]),
                "return": float(self._returns[n]),
            }
            for n in range(self.num_envs)
        ]
        states[0] |= {"draw": self.draw.get_state(), "noise": self.noise.get_state(), "steps": self.steps}
        return states

    def restore(self, states: Any, seed: int = 0) -> dict[int, tuple[Array, Infos]]:
        self._check_states(states)
        for n, state in enumerate(states):
            if state is None or state["stack"].shape != self._stack[n].shape:
                raise ResumeError(f"{self.env_spec.env_id}: agent {n} was saved with other frames")
            self._stack[n] = state["stack"].to(self.device)
            self._age[n], self._returns[n] = state["age"], state["return"]
        if states[0]["state"] is not None:
            self._state = torch.stack([state["state"] for state in states]).to(self.device)
        self.draw.set_state(states[0]["draw"])
        self.noise.set_state(states[0]["noise"])
        self.steps = int(states[0]["steps"])
        return {}


def picture(frame: Array, colors: int) -> Array:
    """A frame [C, H, W] for people: [H, W, 3], each pixel a small square."""
    if not colors:
        shown = np.repeat(frame, 3, 0) if len(frame) == 1 else frame
        shown = shown.transpose(1, 2, 0)
    else:
        levels = None if colors == ATARI_COLORS else np.linspace(0, 255, colors).astype(int).tolist()
        shown = palette(levels)[frame[0]]
    return np.ascontiguousarray(shown.repeat(ZOOM, 0).repeat(ZOOM, 1))
