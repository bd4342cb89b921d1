"""What may stand between an env and the agent, chosen by class name in `EnvConfig.transforms`."""

from __future__ import annotations

from typing import Any

import gymnasium

from rl_lightning.envs.wrappers import env_wrappers
from rl_lightning.errors import ConfigError

Env = gymnasium.Env[Any, Any]


class Transform:
    """Recipe of a wrapper."""

    def apply(self, env: Env, training: bool = True) -> Env:
        """Wrap `env`; `training` is false where episodes are only scored."""
        raise NotImplementedError

    def env_kwargs(self, env_id: str) -> dict[str, Any]:
        """Arguments that the base env of this id must be made with, unless the config says otherwise."""
        return {}


class Gray(Transform):
    """Colour frames become one grey channel."""

    def apply(self, env: Env, training: bool = True) -> Env:
        return env_wrappers.GrayFrames(env_wrappers.as_frames(env))


class Resize(Transform):
    """Frames resized by area averaging.

    Args:
        size: new height and width, or [height, width].
    """

    def __init__(self, size: int | tuple[int, int] = 84) -> None:
        self.size = (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))
        if min(self.size) < 1:
            raise ConfigError(f"Resize: size {self.size} must be positive")

    def apply(self, env: Env, training: bool = True) -> Env:
        return env_wrappers.ResizedFrames(env_wrappers.as_frames(env), self.size)


class Crop(Transform):
    """Rows and columns cut off each frame.

    Args:
        top: rows cut from above.
        bottom: rows cut from below.
        left: columns cut from the left.
        right: columns cut from the right.
    """

    def __init__(self, top: int = 0, bottom: int = 0, left: int = 0, right: int = 0) -> None:
        self.top, self.bottom, self.left, self.right = top, bottom, left, right
        self.margins = (top, bottom, left, right)
        if min(self.margins) < 0:
            raise ConfigError(f"Crop: margins {self.margins} must not be negative")

    def apply(self, env: Env, training: bool = True) -> Env:
        return env_wrappers.CroppedFrames(env_wrappers.as_frames(env), self.margins)


class Scale(Transform):
    """Pixels become floats in [0, 1] (four times the memory; networks scale uint8 themselves)."""

    def apply(self, env: Env, training: bool = True) -> Env:
        return env_wrappers.ScaledFrames(env_wrappers.as_frames(env))


class Stack(Transform):
    """The last observations stacked on the first axis, newest last, padded with the first one of the episode.

    Args:
        frames: how many.
    """

    def __init__(self, frames: int = 4) -> None:
        self.frames = frames
        if frames < 1:
            raise ConfigError(f"Stack: frames {frames} must be at least 1")

    def apply(self, env: Env, training: bool = True) -> Env:
        return env_wrappers.FrameStack(env_wrappers.as_frames(env), self.frames)


class ActionRepeat(Transform):
    """Each action played several times, rewards summed; ends early with the episode.

    Args:
        steps: times that each action is played.
        max_pool: hand out the pixel-wise maximum of the last two frames.
    """

    def __init__(self, steps: int = 4, max_pool: bool = False) -> None:
        self.steps, self.max_pool = steps, max_pool
        if steps < 1:
            raise ConfigError(f"ActionRepeat: steps {steps} must be at least 1")

    def apply(self, env: Env, training: bool = True) -> Env:
        return env_wrappers.RepeatedAction(env, self.steps, self.max_pool)


class ClipReward(Transform):
    """Rewards become their sign; the recorded return stays raw."""

    def apply(self, env: Env, training: bool = True) -> Env:
        return env_wrappers.SignReward(env)


class Indexed(Transform):
    """Grey levels become their places in a list, so that a pixel is a class.

    Args:
        levels: The levels that occur.
    """

    def __init__(self, levels: list[int] = [0, 128, 255]) -> None:  # noqa: B006
        if not levels or len(set(levels)) != len(levels) or not all(0 <= level <= 255 for level in levels):
            raise ConfigError(f"Indexed: levels {levels} must be different numbers from 0 to 255")
        self.levels = list(levels)

    def apply(self, env: Env, training: bool = True) -> Env:
        return env_wrappers.IndexedFrames(env_wrappers.as_frames(env), self.levels)


class TimeAware(Transform):
    """The share of the time limit that has passed is appended to a flat observation."""

    def apply(self, env: Env, training: bool = True) -> Env:
        return env_wrappers.TimeInObs(env)


class ImagePreset(Transform):
    """Frames of one size, grey if wanted, stacked: what most pixel agents read.

    Args:
        size: height and width.
        gray: one grey channel instead of colours.
        frames: frames stacked on the first axis.
    """

    def __init__(self, size: int = 64, gray: bool = False, frames: int = 1) -> None:
        self.size, self.gray, self.frames = size, gray, frames
        self.parts: list[Transform] = [Gray()] if gray else []
        self.parts.append(Resize(size))
        if frames > 1:
            self.parts.append(Stack(frames))

    def apply(self, env: Env, training: bool = True) -> Env:
        for part in self.parts:
            env = part.apply(env, training)
        return env


class AtariPreset(Transform):
    """The usual Atari path: no-op starts, max-and-skip, fire, life loss, grey, resize, sign rewards, stack.

    Args:
        noop_max: at most this many no-ops after a reset; 0 for none.
        skip: frames per action; the last two are max-pooled.
        life_loss: a lost life ends the episode, in training only.
        fire_reset: press FIRE after a reset where the game waits for it.
        size: height and width.
        gray: one grey channel instead of colours.
        clip_rewards: sign of the reward; the recorded return stays raw.
        frames: frames stacked on the first axis.
        sticky: probability that the emulator repeats the last action; 0.25 in the sticky protocol.
        full_action_space: all 18 actions instead of those that the game knows.
    """

    def __init__(
        self,
        noop_max: int = 30,
        skip: int = 4,
        life_loss: bool = True,
        fire_reset: bool = True,
        size: int = 84,
        gray: bool = True,
        clip_rewards: bool = True,
        frames: int = 4,
        sticky: float = 0.0,
        full_action_space: bool = False,
    ) -> None:
        self.noop_max, self.skip, self.life_loss, self.fire_reset = noop_max, skip, life_loss, fire_reset
        self.size, self.gray, self.clip_rewards, self.frames = size, gray, clip_rewards, frames
        self.sticky, self.full_action_space = sticky, full_action_space

    def env_kwargs(self, env_id: str) -> dict[str, Any]:
        if env_id.startswith("rl/"):  # a toy on the Atari path has no emulator
            return {}
        # said in full: the ids of ALE bring sticky actions of their own
        kwargs: dict[str, Any] = {
            "frameskip": 1,
            "repeat_action_probability": self.sticky,
            "full_action_space": self.full_action_space,
        }
        if self.gray:
            kwargs["obs_type"] = "grayscale"  # the emulator's own grey: cheaper than ours
        return kwargs

    def apply(self, env: Env, training: bool = True) -> Env:
        if self.noop_max:
            env = env_wrappers.NoopReset(env, self.noop_max)
        env = env_wrappers.RepeatedAction(env, self.skip, max_pool=True)
        if self.life_loss and training and env_wrappers.has_lives(env):
            env = env_wrappers.LifeLoss(env)
        if self.fire_reset and env_wrappers.needs_fire(env):
            env = env_wrappers.FireReset(env)
        env = ImagePreset(self.size, self.gray, self.frames).apply(env)
        return env_wrappers.SignReward(env) if self.clip_rewards else env


class AtariFrames(Transform):
    """Atari as worlds of frames see it: every colour exact, no blending, no end at a lost life.

    No-op starts, skip (the last frame, not a maximum), fire, every `stride`-th pixel as a colour's index or RGB, sign
    rewards, stack. The emulator repeats no actions by chance unless `sticky` says so.

    Args:
        pixels: palette (one index of 128 colours per pixel) or rgb.
        stride: every so many-th row and column; 2 is 105 x 80.
        top: first row of the screen that is seen.
        bottom: row of the screen from which nothing is seen; null: none.
        noop_max: at most this many no-ops after a reset; 0 for none.
        skip: frames per action.
        fire_reset: press FIRE after a reset where the game waits for it.
        clip_rewards: sign of the reward; the recorded return stays raw.
        frames: frames stacked on the first axis.
        sticky: probability that the emulator repeats the last action.
        max_frames: frames of the emulator after which an episode is cut.
    """

    def __init__(
        self,
        pixels: str = "palette",
        stride: int = 2,
        top: int = 0,
        bottom: int | None = None,
        noop_max: int = 8,
        skip: int = 4,
        fire_reset: bool = True,
        clip_rewards: bool = True,
        frames: int = 4,
        sticky: float = 0.0,
        max_frames: int = 72_000,
    ) -> None:
        if pixels not in ("palette", "rgb"):
            raise ConfigError(f"AtariFrames: pixels is '{pixels}'; choose palette or rgb")
        if stride < 1 or top < 0 or (bottom is not None and bottom <= top):
            raise ConfigError(f"AtariFrames: stride {stride} and rows {top} to {bottom} leave no picture")
        self.pixels, self.noop_max, self.skip = pixels, noop_max, skip
        self.stride, self.top, self.bottom = stride, top, bottom
        self.rows, self.columns = slice(top, bottom, stride), slice(None, None, stride)
        self.fire_reset, self.clip_rewards, self.frames = fire_reset, clip_rewards, frames
        self.sticky, self.max_frames = sticky, max_frames

    def env_kwargs(self, env_id: str) -> dict[str, Any]:
        if not env_id.startswith("ALE/"):
            return {}
        return {
            "frameskip": 1,
            "obs_type": "ram" if self.pixels == "palette" else "rgb",  # the screen is read at its source
            "repeat_action_probability": self.sticky,
            "max_num_frames_per_episode": self.max_frames,
        }

    def apply(self, env: Env, training: bool = True) -> Env:
        if self.noop_max:
            env = env_wrappers.NoopReset(env, self.noop_max)
        env = env_wrappers.RepeatedAction(env, self.skip)
        if self.fire_reset and env_wrappers.needs_fire(env):
            env = env_wrappers.FireReset(env)
        if self.pixels == "palette":
            env = env_wrappers.PaletteFrames(env, self.rows, self.columns)
        else:
            env = env_wrappers.SlicedFrames(env_wrappers.as_frames(env), self.rows, self.columns)
        env = env_wrappers.SignReward(env) if self.clip_rewards else env
        return env_wrappers.FrameStack(env, self.frames)
