"""The wrappers behind transforms.py. Frames are uint8 [C, H, W] in all of them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rl_lightning.envs.adapter import chain
from rl_lightning.envs.spaces import ObsEncoder, is_image
from rl_lightning.errors import ConfigError, EnvError
from rl_lightning.extras import pip_command

Env = gymnasium.Env[Any, Any]
Array = NDArray[Any]
Reset = tuple[Any, dict[str, Any]]
Step = tuple[Any, Any, bool, bool, dict[str, Any]]


class ObsWrapper(gymnasium.ObservationWrapper[Any, Any, Any]):
    """An observation wrapper whose new space is given once."""

    def __init__(self, env: Env, space: spaces.Box) -> None:
        super().__init__(env)
        self.observation_space = space

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the observation that comes in."""
        shape = self.env.observation_space.shape
        assert shape is not None
        return shape


def is_channels_first(env: Env) -> bool:
    return any(getattr(layer, "channels_first", False) for layer in chain(env))


def as_frames(env: Env) -> Env:
    """Frames as [C, H, W]; anything but pixels passes as it is."""
    if is_channels_first(env) or not is_image(env.observation_space):
        return env
    return ChannelsFirst(env)


def image_shape(env: Env, who: str) -> tuple[int, int, int]:
    space = env.observation_space
    if not is_image(space) or space.shape is None or len(space.shape) != 3:
        raise ConfigError(f"{who} needs pixels (a uint8 Box of three axes); the env's observation is {space}")
    return space.shape


class ChannelsFirst(ObsWrapper):
    """[H, W, C] or [H, W] becomes [C, H, W]."""

    channels_first = True

    def __init__(self, env: Env) -> None:
        self.encode = ObsEncoder(env.observation_space)
        super().__init__(env, self.encode.encoded)

    def observation(self, observation: Array) -> Array:
        return self.encode(observation)


class GrayFrames(ObsWrapper):
    """Luminance (ITU-R 601) in one channel."""

    def __init__(self, env: Env) -> None:
        channels, height, width = image_shape(env, "Grayscale")
        if channels not in (1, 3):
            raise ConfigError(f"Gray needs 1 or 3 channels, the env has {channels}: put it before Stack")
        super().__init__(env, spaces.Box(0, 255, (1, height, width), np.uint8))

    def observation(self, observation: Array) -> Array:
        if observation.shape[0] == 1:
            return observation
        red, green, blue = observation.astype(np.uint16)
        return ((77 * red + 150 * green + 29 * blue) >> 8).astype(np.uint8)[None]


class ResizedFrames(ObsWrapper):
    """Area-averaged to a new size."""

    constants = ("size", "_cv2", "_mode")

    def __init__(self, env: Env, size: tuple[int, int]) -> None:
        channels, _, _ = image_shape(env, "Resize")
        super().__init__(env, spaces.Box(0, 255, (channels, *size), np.uint8))
        self.size = size
        try:
            import cv2
        except ImportError as error:
            raise ConfigError(f"Resize needs OpenCV: {pip_command('atari')}") from error
        self._cv2 = cv2
        # shrinking averages areas; growing repeats pixels, so that toy frames keep sharp edges
        shrinks = size[0] < self.shape[1] or size[1] < self.shape[2]
        self._mode = cv2.INTER_AREA if shrinks else cv2.INTER_NEAREST

    def observation(self, observation: Array) -> Array:
        height, width = self.size
        frames = [self._cv2.resize(plane, (width, height), interpolation=self._mode) for plane in observation]
        return np.stack(frames)


class CroppedFrames(ObsWrapper):
    """Without the given margins (top, bottom, left, right)."""

    constants = ("_rows", "_columns")

    def __init__(self, env: Env, margins: tuple[int, int, int, int]) -> None:
        channels, height, width = image_shape(env, "Crop")
        top, bottom, left, right = margins
        self._rows, self._columns = slice(top, height - bottom), slice(left, width - right)
        shape = (channels, height - top - bottom, width - left - right)
        if min(shape) < 1:
            raise ConfigError(f"Crop: margins {margins} leave nothing of a frame of {height} x {width}")
        super().__init__(env, spaces.Box(0, 255, shape, np.uint8))

    def observation(self, observation: Array) -> Array:
        return observation[:, self._rows, self._columns]


class IndexedFrames(ObsWrapper):
    """Grey levels become their places in a list: what worlds with few colours are learned from."""

    constants = ("_place", "_levels")

    def __init__(self, env: Env, gray_levels: list[int]) -> None:
        super().__init__(env, spaces.Box(0, 255, image_shape(env, "GrayLevelIndex"), np.uint8))
        self._levels = list(gray_levels)
        self._place = np.full(256, 255, np.uint8)
        self._place[gray_levels] = np.arange(len(gray_levels))

    def observation(self, observation: Array) -> Array:
        frame = self._place[observation]
        if frame.max() >= len(self._levels):
            unknown = int(observation[frame >= len(self._levels)][0])
            raise EnvError(
                f"GrayLevelIndex: a pixel is {unknown}, which is none of the levels {self._levels}"
            )
        return frame


class PaletteFrames(ObsWrapper):
    """The emulator's own picture as indices of its 128 colours: pixels left out, none blended, none lost."""

    channels_first = True
    constants = ("_rows", "_columns")

    def __init__(self, env: Env, rows: slice, columns: slice) -> None:
        if not has_lives(env):
            raise ConfigError("AtariFrames reads Atari's screen: it needs an ALE/... id")
        self._rows, self._columns = rows, columns
        height, width = env.unwrapped.ale.getScreenDims()  # type: ignore[attr-defined]
        shape = (1, len(range(*rows.indices(height))), len(range(*columns.indices(width))))
        super().__init__(env, spaces.Box(0, 255, shape, np.uint8))

    def observation(self, observation: Array) -> Array:
        screen = self.env.unwrapped.ale.getScreen()  # type: ignore[attr-defined]
        return (screen[self._rows, self._columns] >> 1)[None]


class SlicedFrames(ObsWrapper):
    """Every so many-th row and column of a frame, nothing blended."""

    constants = ("_rows", "_columns")

    def __init__(self, env: Env, rows: slice, columns: slice) -> None:
        channels, height, width = image_shape(env, "AtariFrames")
        self._rows, self._columns = rows, columns
        shape = (channels, len(range(*rows.indices(height))), len(range(*columns.indices(width))))
        super().__init__(env, spaces.Box(0, 255, shape, np.uint8))

    def observation(self, observation: Array) -> Array:
        return observation[:, self._rows, self._columns]


class ScaledFrames(ObsWrapper):
    """uint8 to float32 in [0, 1]."""

    def __init__(self, env: Env) -> None:
        super().__init__(env, spaces.Box(0.0, 1.0, image_shape(env, "ScalePixels"), np.float32))

    def observation(self, observation: Array) -> Array:
        return observation.astype(np.float32) / np.float32(255.0)


class FrameStackWrapper(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The last k observations along the first axis, newest last."""

    constants = ("num_stack", "width")

    def __init__(self, env: Env, num_stack: int) -> None:
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, spaces.Box):
            raise ConfigError(f"Stack needs a Box observation, the env has {type(space).__name__}")
        self.num_stack = num_stack
        self.width = space.shape[0]
        low, high = np.concatenate([space.low] * num_stack), np.concatenate([space.high] * num_stack)
        self.observation_space = spaces.Box(low, high, dtype=space.dtype.type)
        self.stack = np.zeros(self.observation_space.shape, space.dtype)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        obs, info = self.env.reset(seed=seed, options=options)
        for k in range(self.num_stack):
            self.stack[k * self.width : (k + 1) * self.width] = obs
        return self.stack.copy(), info

    def step(self, action: Any) -> Step:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.stack[: -self.width] = self.stack[self.width :]
        self.stack[-self.width :] = obs
        return self.stack.copy(), reward, terminated, truncated, info


class RepeatedAction(gymnasium.Wrapper[Any, Any, Any, Any]):
    """One action played `action_repeat` times."""

    constants = ("repeat", "max_pool", "_lazy")

    def __init__(self, env: Env, action_repeat: int, max_pool: bool = False) -> None:
        super().__init__(env)
        self.repeat, self.max_pool = action_repeat, max_pool
        # an env that can draw on demand draws the last frame only, if nothing in between reads the others
        direct = all(isinstance(layer, gymnasium.wrappers.TimeLimit) for layer in chain(env)[:-1])
        self._lazy: Any = (
            env.unwrapped if direct and not max_pool and hasattr(env.unwrapped, "lazy") else None
        )

    def step(self, action: Any) -> Step:
        if self._lazy is None:
            return self._repeat(action)
        self._lazy.lazy = True
        try:
            _, reward, terminated, truncated, info = self._repeat(action)
        finally:
            self._lazy.lazy = False
        return self._lazy.fresh_obs(), reward, terminated, truncated, info

    def _repeat(self, action: Any) -> Step:
        total, raw, inner = 0.0, 0.0, 0
        obs = previous = None
        for _ in range(self.repeat):
            previous = obs
            obs, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            raw += float(info.get("raw_reward", reward))
            inner += info.get("env_steps", 1)
            if terminated or truncated:
                break
        if self.max_pool and previous is not None:
            obs = np.maximum(previous, obs)  # type: ignore[arg-type]
        return obs, total, terminated, truncated, {**info, "raw_reward": raw, "env_steps": inner}


class SignReward(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The sign of the reward; the raw one goes to info."""

    def step(self, action: Any) -> Step:
        obs, reward, terminated, truncated, info = self.env.step(action)
        value = float(reward)
        raw = info.get("raw_reward", value)
        return obs, float(np.sign(value)), terminated, truncated, {**info, "raw_reward": raw}


class TimeInObs(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Appends t / limit to a flat observation."""

    constants = ("limit",)

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        limits = [layer for layer in chain(env) if isinstance(layer, gymnasium.wrappers.TimeLimit)]
        space = env.observation_space
        if not limits or not isinstance(space, spaces.Box) or len(space.shape) != 1:
            raise ConfigError("TimeAware needs a flat Box observation and a time limit (max_episode_steps)")
        self.limit = wrapped_limit(limits[0])
        self.elapsed = 0
        low, high = np.append(space.low, 0.0), np.append(space.high, 1.0)
        self.observation_space = spaces.Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)

    def _append(self, obs: Array) -> Array:
        return np.append(obs, self.elapsed / self.limit).astype(np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        obs, info = self.env.reset(seed=seed, options=options)
        self.elapsed = 0
        return self._append(obs), info

    def step(self, action: Any) -> Step:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.elapsed += info.get("env_steps", 1)
        return self._append(obs), reward, terminated, truncated, info


def wrapped_limit(layer: gymnasium.wrappers.TimeLimit[Any, Any]) -> int:
    """Its `spec` would tell too, where the env below has one."""
    return layer._max_episode_steps


def has_lives(env: Env) -> bool:
    return hasattr(env.unwrapped, "ale")


def needs_fire(env: Env) -> bool:
    meanings = getattr(env.unwrapped, "get_action_meanings", None)
    return meanings is not None and len(meanings()) > 2 and meanings()[1] == "FIRE"


class NoopReset(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Up to `noop_max` no-ops after a reset."""

    constants = ("noop_max",)

    def __init__(self, env: Env, noop_max: int) -> None:
        super().__init__(env)
        self.noop_max = noop_max

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        obs, info = self.env.reset(seed=seed, options=options)
        for _ in range(int(self.env.unwrapped.np_random.integers(1, self.noop_max + 1))):
            obs, _, terminated, truncated, info = self.env.step(0)
            if terminated or truncated:
                obs, info = self.env.reset(options=options)
        return obs, info


class FireReset(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Presses FIRE after a reset."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        self.env.reset(seed=seed, options=options)
        obs, _, terminated, truncated, info = self.env.step(1)
        return self.env.reset(options=options) if terminated or truncated else (obs, info)


class LifeLoss(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The loss of a life ends the episode for the learner; the game goes on at the next reset."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.lives = 0
        self.over = True  # the game itself has ended

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        if self.over or seed is not None:
            obs, info = self.env.reset(seed=seed, options=options)
        else:
            obs, _, terminated, truncated, info = self.env.step(0)
            if terminated or truncated:
                obs, info = self.env.reset(options=options)
        self.over = False
        self.lives = self.env.unwrapped.ale.lives()  # type: ignore[attr-defined]
        return obs, info

    def step(self, action: Any) -> Step:
        obs, reward, terminated, truncated, info = self.env.step(action)
        lives = self.env.unwrapped.ale.lives()  # type: ignore[attr-defined]
        self.over = terminated or truncated
        if 0 < lives < self.lives and not self.over:
            terminated, info = True, {**info, "life_lost": True}
        self.lives = lives
        return obs, reward, terminated, truncated, info
