"""What may stand between an env and the agent, chosen by class name in `EnvConfig.transforms`."""

from __future__ import annotations

from typing import Any

import gymnasium

from rl_lightning.envs.palette import Colors, palette
from rl_lightning.envs.registry import suite_of
from rl_lightning.envs.spaces import is_image, obs_parts
from rl_lightning.envs.wrappers import env_wrappers
from rl_lightning.envs.wrappers.stacked_pictures import StackedPictures
from rl_lightning.errors import ConfigError

Env = gymnasium.Env[Any, Any]


class Transform:
    """What wraps an env once there is one."""

    def apply(self, env: Env, training: bool = True) -> Env:
        """Wrap `env`; `training` is false where episodes are only scored."""
        raise NotImplementedError

    def env_kwargs(self, env_id: str) -> dict[str, Any]:
        """Arguments that the base env of this id must be made with, unless the config says otherwise."""
        return {}

    def palette(self) -> Colors | None:
        """RGB of each index that a pixel is behind this; None where it does not make indices of pixels."""
        return None


class Grayscale(Transform):
    """Colour frames become one grey channel."""

    def apply(self, env: Env, training: bool = True) -> Env:
        return env_wrappers.GrayFrames(env_wrappers.as_frames(env))


class Resize(Transform):
    """Frames resized by area averaging.

    Args:
        shape: new height and width, or [height, width].
    """

    def __init__(self, shape: int | tuple[int, int] = 84) -> None:
        self.shape = (shape, shape) if isinstance(shape, int) else (int(shape[0]), int(shape[1]))
        if min(self.shape) < 1:
            raise ConfigError(f"Resize: size {self.shape} must be positive")

    def apply(self, env: Env, training: bool = True) -> Env:
        return env_wrappers.ResizedFrames(env_wrappers.as_frames(env), self.shape)


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


class ScalePixels(Transform):
    """Pixels become floats in [0, 1] (four times the memory; networks scale uint8 themselves)."""

    def apply(self, env: Env, training: bool = True) -> Env:
        return env_wrappers.ScaledFrames(env_wrappers.as_frames(env))


class FrameStack(Transform):
    """The last observations stacked on the first axis, newest last, padded with the first one of the episode.

    Of a Dict or Tuple with pictures, each picture is stacked; the vectors beside them are the newest ones.

    Args:
        num_stack: how many.
    """

    def __init__(self, num_stack: int = 4) -> None:
        self.num_stack = num_stack
        if num_stack < 1:
            raise ConfigError(f"Stack: frames {num_stack} must be at least 1")

    def apply(self, env: Env, training: bool = True) -> Env:
        if any(part.kind == "picture" for part in obs_parts(env.observation_space)):
            return StackedPictures(env, self.num_stack)
        return env_wrappers.FrameStackWrapper(env_wrappers.as_frames(env), self.num_stack)


class ActionRepeat(Transform):
    """Each action played several times, rewards summed; ends early with the episode.

    Args:
        action_repeat: times that each action is played.
        max_pool: hand out the pixel-wise maximum of the last two frames.
    """

    def __init__(self, action_repeat: int = 4, max_pool: bool = False) -> None:
        self.action_repeat, self.max_pool = action_repeat, max_pool
        if action_repeat < 1:
            raise ConfigError(f"ActionRepeat: steps {action_repeat} must be at least 1")

    def apply(self, env: Env, training: bool = True) -> Env:
        return env_wrappers.RepeatedAction(env, self.action_repeat, self.max_pool)


class ClipReward(Transform):
    """Rewards become their sign; the recorded return stays raw."""

    def apply(self, env: Env, training: bool = True) -> Env:
        return env_wrappers.SignReward(env)


class GrayLevelIndex(Transform):
    """Grey levels become their places in a list, so that a pixel is a class.

    Args:
        gray_levels: The levels that occur.
    """

    def __init__(self, gray_levels: list[int] = [0, 128, 255]) -> None:  # noqa: B006
        if (
            not gray_levels
            or len(set(gray_levels)) != len(gray_levels)
            or not all(0 <= level <= 255 for level in gray_levels)
        ):
            raise ConfigError(
                f"GrayLevelIndex: gray_levels {gray_levels} must be different numbers from 0 to 255"
            )
        self.gray_levels = list(gray_levels)

    def apply(self, env: Env, training: bool = True) -> Env:
        return env_wrappers.IndexedFrames(env_wrappers.as_frames(env), self.gray_levels)

    def palette(self) -> Colors:
        return palette(self.gray_levels)


class TimeAware(Transform):
    """The fraction of the time limit that has passed is appended to a flat observation."""

    def apply(self, env: Env, training: bool = True) -> Env:
        return env_wrappers.TimeInObs(env)


class ImagePreprocessing(Transform):
    """Frames of one size, grey if wanted, stacked: what most pixel agents read.

    Args:
        screen_size: height and width.
        grayscale: one grey channel instead of colours.
        num_stack: frames stacked on the first axis.
    """

    def __init__(self, screen_size: int = 64, grayscale: bool = False, num_stack: int = 1) -> None:
        self.screen_size, self.grayscale, self.num_stack = screen_size, grayscale, num_stack
        self.parts: list[Transform] = [Grayscale()] if grayscale else []
        self.parts.append(Resize(screen_size))
        if num_stack > 1:
            self.parts.append(FrameStack(num_stack))

    def apply(self, env: Env, training: bool = True) -> Env:
        for part in self.parts:
            env = part.apply(env, training)
        return env


class Pixels(Transform):
    """Square colour pictures of any env: its own, or a picture of it where it shows numbers.

    Args:
        screen_size: height and width.
    """

    def __init__(self, screen_size: int = 64) -> None:
        self.screen_size = screen_size

    def env_kwargs(self, env_id: str) -> dict[str, Any]:
        if env_id.startswith("dmc/"):
            return {"pixels": True, "screen_size": self.screen_size}
        known = gymnasium.registry.get(env_id)
        draws = known is not None and str(known.entry_point).startswith("gymnasium.envs.")
        return {"render_mode": "rgb_array"} if draws and suite_of(env_id) is None else {}

    def apply(self, env: Env, training: bool = True) -> Env:
        if not is_image(env.observation_space):
            if env.render_mode != "rgb_array":
                raise ConfigError(f"Pixels: {env} shows no frames and draws none")
            env = gymnasium.wrappers.AddRenderObservation(env, render_only=True)
        return Resize(self.screen_size).apply(env)


class AtariPreprocessing(Transform):
    """The usual Atari path: no-op starts, max-and-skip, fire, life loss, grey, resize, sign rewards, stack.

    Args:
        noop_max: at most this many no-ops after a reset; 0 for none.
        frame_skip: frames per action; the last two are max-pooled.
        terminal_on_life_loss: a lost life ends the episode, in training only.
        fire_reset: press FIRE after a reset where the game waits for it.
        screen_size: height and width.
        grayscale: one grey channel instead of colours.
        clip_rewards: sign of the reward; the recorded return stays raw.
        num_stack: frames stacked on the first axis.
        repeat_action_probability: probability that the emulator repeats the last action; 0.25 in the sticky protocol.
        full_action_space: all 18 actions instead of those that the game knows.
    """

    def __init__(
        self,
        noop_max: int = 30,
        frame_skip: int = 4,
        terminal_on_life_loss: bool = True,
        fire_reset: bool = True,
        screen_size: int = 84,
        grayscale: bool = True,
        clip_rewards: bool = True,
        num_stack: int = 4,
        repeat_action_probability: float = 0.0,
        full_action_space: bool = False,
    ) -> None:
        self.noop_max, self.frame_skip, self.terminal_on_life_loss, self.fire_reset = (
            noop_max,
            frame_skip,
            terminal_on_life_loss,
            fire_reset,
        )
        self.screen_size, self.grayscale, self.clip_rewards, self.num_stack = (
            screen_size,
            grayscale,
            clip_rewards,
            num_stack,
        )
        self.repeat_action_probability, self.full_action_space = repeat_action_probability, full_action_space

    def env_kwargs(self, env_id: str) -> dict[str, Any]:
        if env_id.startswith("rl/"):  # a toy on the Atari path has no emulator
            return {}
        # said in full: the ids of ALE bring sticky actions of their own
        kwargs: dict[str, Any] = {
            "frameskip": 1,
            "repeat_action_probability": self.repeat_action_probability,
            "full_action_space": self.full_action_space,
        }
        if self.grayscale:
            kwargs["obs_type"] = "grayscale"  # the emulator's own grey: cheaper than ours
        return kwargs

    def apply(self, env: Env, training: bool = True) -> Env:
        if self.noop_max:
            env = env_wrappers.NoopReset(env, self.noop_max)
        env = env_wrappers.RepeatedAction(env, self.frame_skip, max_pool=True)
        if self.terminal_on_life_loss and training and env_wrappers.has_lives(env):
            env = env_wrappers.LifeLoss(env)
        if self.fire_reset and env_wrappers.needs_fire(env):
            env = env_wrappers.FireReset(env)
        env = ImagePreprocessing(self.screen_size, self.grayscale, self.num_stack).apply(env)
        return env_wrappers.SignReward(env) if self.clip_rewards else env


class AtariFrames(Transform):
    """Atari as worlds of frames see it: every colour exact, no blending, no end at a lost life.

    No-op starts, skip (the last frame, not a maximum), fire, every `pixel_stride`-th pixel as a colour's index or
    RGB, sign rewards, stack. The emulator repeats no actions by chance unless `repeat_action_probability` says so.

    Args:
        obs_type: palette (one index of 128 colours per pixel) or rgb.
        pixel_stride: every so many-th row and column; 2 is 105 x 80.
        row_start: first row of the screen that is seen.
        row_end: row of the screen from which nothing is seen; null: none.
        noop_max: at most this many no-ops after a reset; 0 for none.
        frame_skip: frames per action.
        fire_reset: press FIRE after a reset where the game waits for it.
        clip_rewards: sign of the reward; the recorded return stays raw.
        num_stack: frames stacked on the first axis.
        repeat_action_probability: probability that the emulator repeats the last action.
        max_frames: frames of the emulator after which an episode is cut.
    """

    def __init__(
        self,
        obs_type: str = "palette",
        pixel_stride: int = 2,
        row_start: int = 0,
        row_end: int | None = None,
        noop_max: int = 8,
        frame_skip: int = 4,
        fire_reset: bool = True,
        clip_rewards: bool = True,
        num_stack: int = 4,
        repeat_action_probability: float = 0.0,
        max_frames: int = 72_000,
    ) -> None:
        if obs_type not in ("palette", "rgb"):
            raise ConfigError(f"AtariFrames: obs_type is '{obs_type}'; choose palette or rgb")
        if pixel_stride < 1 or row_start < 0 or (row_end is not None and row_end <= row_start):
            raise ConfigError(
                f"AtariFrames: stride {pixel_stride} and rows {row_start} to {row_end} leave no picture"
            )
        self.obs_type, self.noop_max, self.frame_skip = obs_type, noop_max, frame_skip
        self.pixel_stride, self.row_start, self.row_end = pixel_stride, row_start, row_end
        self.rows, self.columns = slice(row_start, row_end, pixel_stride), slice(None, None, pixel_stride)
        self.fire_reset, self.clip_rewards, self.num_stack = fire_reset, clip_rewards, num_stack
        self.repeat_action_probability, self.max_frames = repeat_action_probability, max_frames

    def env_kwargs(self, env_id: str) -> dict[str, Any]:
        if not env_id.startswith("ALE/"):
            return {}
        return {
            "frameskip": 1,
            "obs_type": "ram" if self.obs_type == "palette" else "rgb",  # the screen is read at its source
            "repeat_action_probability": self.repeat_action_probability,
            "max_num_frames_per_episode": self.max_frames,
        }

    def apply(self, env: Env, training: bool = True) -> Env:
        if self.noop_max:
            env = env_wrappers.NoopReset(env, self.noop_max)
        env = env_wrappers.RepeatedAction(env, self.frame_skip)
        if self.fire_reset and env_wrappers.needs_fire(env):
            env = env_wrappers.FireReset(env)
        if self.obs_type == "palette":
            env = env_wrappers.PaletteFrames(env, self.rows, self.columns)
        else:
            env = env_wrappers.SlicedFrames(env_wrappers.as_frames(env), self.rows, self.columns)
        env = env_wrappers.SignReward(env) if self.clip_rewards else env
        return env_wrappers.FrameStackWrapper(env, self.num_stack)

    def palette(self) -> Colors | None:
        return palette() if self.obs_type == "palette" else None
