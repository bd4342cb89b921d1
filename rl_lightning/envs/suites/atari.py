"""Atari: the exact wrapper path, and ALE's own vector env for speed. The only file that imports ale_py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ale_py
import gymnasium
import numpy as np
from ale_py.vector_env import AtariVectorEnv
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from rl_lightning.envs.palette import atari_index_table, to_index
from rl_lightning.envs.registry import Env, gym_make, unknown_id
from rl_lightning.envs.vector import Array, Envs, Infos, Seeds, merge_episodes, spread_seeds
from rl_lightning.envs.wrappers.transforms import AtariFrames, AtariPreprocessing
from rl_lightning.errors import ConfigError
from rl_lightning.types import EnvSpec

SCREEN = (210, 160)  # rows and columns of the emulator's picture

gymnasium.register_envs(ale_py)
ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # no banner


def known_ids() -> list[str]:
    return [name for name, spec in gymnasium.registry.items() if str(spec.entry_point).startswith("ale_py.")]


def build(env_id: str, kwargs: dict[str, Any], max_episode_steps: int | None, render_mode: str | None) -> Env:
    return gym_make(env_id, kwargs, max_episode_steps, render_mode)


def native_envs(
    env_id: str,
    kwargs: dict[str, Any],
    preset: AtariPreprocessing,
    num_envs: int,
    training: bool,
    max_episode_steps: int | None,
) -> NativeAtari:
    """ALE's vector env set as `preset` says. Its state cannot be saved: a resumed run starts new episodes."""
    return NativeAtari(
        env_id,
        preset,
        num_envs,
        training,
        _options(env_id, preset.env_kwargs(env_id) | kwargs, max_episode_steps),
    )


def native_frames(
    env_id: str, kwargs: dict[str, Any], preset: AtariFrames, num_envs: int, max_episode_steps: int | None
) -> NativeFrames:
    """The same for worlds of frames: exact colours, pixels left out and none blended."""
    return NativeFrames(
        env_id, preset, num_envs, _options(env_id, preset.env_kwargs(env_id) | kwargs, max_episode_steps)
    )


def _options(env_id: str, kwargs: dict[str, Any], max_episode_steps: int | None) -> dict[str, Any]:
    """Arguments of ALE's vector env; what it does not know is refused."""
    if env_id not in gymnasium.registry:
        raise unknown_id(env_id)
    options = {**gymnasium.spec(env_id).kwargs, **kwargs}
    for name in ("frameskip", "obs_type"):  # set by the preset
        options.pop(name, None)
    unknown = set(options) - {
        "game",
        "repeat_action_probability",
        "full_action_space",
        "max_num_frames_per_episode",
    }
    if unknown:
        raise ConfigError(
            f"vectorization 'native' does not know the env arguments {sorted(unknown)}; use sync"
        )
    if max_episode_steps is not None:
        options["max_num_frames_per_episode"] = max_episode_steps
    return options


def native_spec(
    native: AtariVectorEnv,
    env_id: str,
    shape: tuple[int, ...],
    preset: AtariPreprocessing | AtariFrames,
    options: dict[str, Any],
) -> EnvSpec:
    """What a model must know of games that ALE itself steps."""
    limit = options.get("max_num_frames_per_episode")
    return EnvSpec(
        env_id=env_id,
        obs_shape=shape,
        obs_dtype="uint8",
        action_kind="discrete",
        action_sizes=(len(native.ale.get_action_set()),),
        num_stack=preset.num_stack,
        action_repeat=preset.frame_skip,
        max_episode_steps=int(limit) if limit else None,
    )


class NativeAtari(Envs):
    """`ale_py`'s AtariVectorEnv under the contract: raw returns of whole games, rewards clipped here.

    Args:
        env_id: name used in errors.
        preset: how frames, skips, lives and rewards are treated.
        num_envs: games played at once.
        training: a lost life ends an episode (if the preset says so).
        options: arguments of ALE (game, repeat_action_probability, ...).
    """

    def __init__(
        self, env_id: str, preset: AtariPreprocessing, num_envs: int, training: bool, options: dict[str, Any]
    ) -> None:
        if not preset.grayscale:
            raise ConfigError("vectorization 'native' offers grey frames only; use sync for colours")
        self.native = AtariVectorEnv(
            num_envs=num_envs,
            autoreset_mode=AutoresetMode.SAME_STEP,
            img_height=preset.screen_size,
            img_width=preset.screen_size,
            stack_num=preset.num_stack,
            frameskip=preset.frame_skip,
            noop_max=preset.noop_max,
            life_loss_info=preset.terminal_on_life_loss and training,
            use_fire_reset=preset.fire_reset,
            reward_clipping=False,
            **options,
        )
        self.num_envs = num_envs
        self.metadata = {**self.native.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = self.native.single_observation_space
        self.single_action_space = self.native.single_action_space
        self.observation_space, self.action_space = self.native.observation_space, self.native.action_space
        self.clip_rewards, self.skip = preset.clip_rewards, preset.frame_skip
        self._returns = np.zeros(num_envs, np.float64)
        self._lengths = np.zeros(num_envs, np.int64)
        self._frames = np.zeros(num_envs, np.int64)
        self._stack = preset.num_stack
        self._age = np.zeros(num_envs, np.int64)  # steps since the first observation of each episode
        shape = (preset.num_stack, preset.screen_size, preset.screen_size)
        self._prepare(num_envs, native_spec(self.native, env_id, shape, preset, options))

    def reset(self, *, seed: Seeds = None, options: dict[str, Any] | None = None) -> tuple[Array, Infos]:
        seeds = spread_seeds(seed, self.num_envs)
        if seeds[0] is not None:
            self.action_space.seed(seeds[0])
        values = None if seeds[0] is None else np.array(seeds)
        obs, infos = self.native.reset(seed=values, options=options)
        self._returns[:], self._lengths[:] = 0.0, 0
        self._frames[:] = infos["episode_frame_number"]
        self._age[:] = 0
        return self._pad(obs), {}

    def _pad(self, obs: Array) -> Array:
        """Stacks that begin with the episode's first frame, as everywhere: ALE's hold frames from before it."""
        young = np.flatnonzero(self._age < self._stack - 1)
        if len(young):
            obs = obs.copy()
        for i in young:
            obs[i, : self._stack - 1 - self._age[i]] = obs[i, self._stack - 1 - self._age[i]]
        return obs

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, Infos]:
        obs, rewards, terminated, truncated, native_infos = self.native.step(actions.astype(np.int64))
        self._returns += rewards
        self._lengths += self.skip
        infos: Infos = {}
        ended = terminated | truncated
        self._age += 1
        if ended.any():
            # a lost life leaves the game's own frame count running, and its row of final_obs unwritten
            over = ended & (native_infos["episode_frame_number"] <= self._frames)
            final = native_infos["final_obs"].copy()
            final[~over] = obs[~over]
            infos["final_obs"] = self._pad(final)
            infos["episode"] = self._episodes(over)
        self._frames[:] = native_infos["episode_frame_number"]
        self._age[ended] = 0
        self.steps += 1
        rewards = np.sign(rewards) if self.clip_rewards else rewards
        return self._pad(obs), rewards.astype(np.float32), terminated, truncated, infos

    def snapshot(self) -> list[Any]:
        """ALE's vector env keeps its state to itself: none can be saved."""
        return [None] * self.num_envs

    def restore(self, states: Sequence[Any], seed: int = 0) -> dict[int, tuple[Array, Infos]]:
        self._check_states(states)
        obs, _ = self.reset(seed=seed)
        return {i: (obs[i].copy(), {}) for i in range(self.num_envs)}

    def _episodes(self, over: Array) -> dict[str, Array]:
        rows = [int(i) for i in np.flatnonzero(over)]
        merged = merge_episodes(
            [(i, {"return": self._returns[i], "length": self._lengths[i]}) for i in rows], self.num_envs
        )
        self._returns[over], self._lengths[over] = 0.0, 0
        return merged


class NativeFrames(NativeAtari):
    """`ale_py`'s AtariVectorEnv behind AtariFrames: the screen in colours, cut down and stacked here.

    Args:
        env_id: name used in errors.
        preset: how frames, skips and rewards are treated.
        num_envs: games played at once.
        options: arguments of ALE (game, repeat_action_probability, ...).
    """

    def __init__(self, env_id: str, preset: AtariFrames, num_envs: int, options: dict[str, Any]) -> None:
        self.native = AtariVectorEnv(
            num_envs=num_envs,
            autoreset_mode=AutoresetMode.SAME_STEP,
            img_height=SCREEN[0],
            img_width=SCREEN[1],
            stack_num=1,
            grayscale=False,
            maxpool=False,
            frameskip=preset.frame_skip,
            noop_max=preset.noop_max,
            use_fire_reset=preset.fire_reset,
            reward_clipping=False,
            **options,
        )
        self.num_envs, self.preset = num_envs, preset
        self._table = atari_index_table() if preset.obs_type == "palette" else None
        self.metadata = {**self.native.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}
        self.clip_rewards, self.skip = preset.clip_rewards, preset.frame_skip
        self._returns = np.zeros(num_envs, np.float64)
        self._lengths = np.zeros(num_envs, np.int64)
        height, width = (
            len(range(*s.indices(n))) for s, n in zip((preset.rows, preset.columns), SCREEN, strict=True)
        )
        self._channels = 1 if self._table is not None else 3
        shape = (preset.num_stack * self._channels, height, width)
        self._stacks = np.zeros((num_envs, *shape), np.uint8)
        self.single_observation_space = spaces.Box(0, 255, shape, np.uint8)
        self.single_action_space = self.native.single_action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = self.native.action_space
        self._prepare(num_envs, native_spec(self.native, env_id, shape, preset, options))

    def _seen(self, screens: Array) -> Array:
        """[N, 1, 210, 160, 3] -> [N, C, H, W]"""
        cut = screens[:, 0, self.preset.rows, self.preset.columns]
        return cut.transpose(0, 3, 1, 2) if self._table is None else to_index(cut, self._table)[:, None]

    def reset(self, *, seed: Seeds = None, options: dict[str, Any] | None = None) -> tuple[Array, Infos]:
        seeds = spread_seeds(seed, self.num_envs)
        if seeds[0] is not None:
            self.action_space.seed(seeds[0])
        obs, _ = self.native.reset(seed=None if seeds[0] is None else np.array(seeds), options=options)
        self._returns[:], self._lengths[:] = 0.0, 0
        self._stacks[:] = np.tile(self._seen(obs), (1, self.preset.num_stack, 1, 1))
        return self._stacks, {}

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, Infos]:
        screens, rewards, terminated, truncated, native_infos = self.native.step(actions.astype(np.int64))
        self._returns += rewards
        self._lengths += self.skip
        frames, width = self._seen(screens), self._channels
        stacks = np.concatenate([self._stacks[:, width:], frames], 1)
        self._stacks = stacks
        infos: Infos = {}
        ended = terminated | truncated
        if ended.any():
            infos["final_obs"] = stacks.copy()
            infos["final_obs"][ended, -width:] = self._seen(native_infos["final_obs"][ended])
            infos["episode"] = self._episodes(ended)
            stacks[ended] = np.tile(frames[ended], (1, self.preset.num_stack, 1, 1))
        self.steps += 1
        rewards = np.sign(rewards) if self.clip_rewards else rewards
        return stacks, rewards.astype(np.float32), terminated, truncated, infos
