"""Makes every env of this package: the only place that builds vector envs, always SAME_STEP."""

from __future__ import annotations

import importlib
import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode

from rl_lightning.envs.adapter import EnvAdapter, chain
from rl_lightning.envs.palette import Colors
from rl_lightning.envs.quick_discrete import quicken
from rl_lightning.envs.registry import build_base
from rl_lightning.envs.vector import Envs, SerialEnvs
from rl_lightning.envs.workers import AsyncEnvs
from rl_lightning.envs.wrappers.env_noise import EnvNoise
from rl_lightning.envs.wrappers.env_wrappers import FrameStackWrapper, RepeatedAction, wrapped_limit
from rl_lightning.envs.wrappers.stacked_pictures import StackedPictures
from rl_lightning.envs.wrappers.transforms import AtariFrames, AtariPreprocessing, Transform
from rl_lightning.errors import ConfigError
from rl_lightning.io.trust import ALLOWED_IMPORTS
from rl_lightning.redaction import secret_texts
from rl_lightning.types import EnvSpec

__all__ = ["EnvConfig", "Envs", "make_env", "make_envs", "probe_spec"]

VECTORIZATIONS = ("sync", "async", "native")


@dataclass
class EnvConfig:
    """Which env, and what stands between it and the agent.

    Args:
        id: of Gymnasium, ALE, MiniGrid or Gymnasium-Robotics, `dmc/domain-task`, or `rl/...` for our toys.
        kwargs: arguments of the env itself.
        max_episode_steps: time limit in env steps instead of the id's own.
        action_repeat: times that each action is played.
        transforms: Wrappers, applied in this order (see transforms.py).
        noise: sensor and actuator noise.
        rescale_actions: actions in [-1, 1] are mapped onto the env's finite bounds.
        clip_rewards: the learner sees the sign of the reward; records stay raw.
        info_keywords: info keys recorded per episode (mean; whether ever true for a success or a fall).
        worker_timeout: seconds before a silent worker of an async vector env counts as hung.
        worker_start_method: how async workers start (fork, forkserver, spawn); the system's default if none.
    """

    id: str = "CartPole-v1"
    kwargs: dict[str, Any] = field(default_factory=dict)
    max_episode_steps: int | None = None
    action_repeat: int = 1
    transforms: list[Transform] = field(default_factory=list)
    noise: EnvNoise | None = None
    rescale_actions: bool = True
    clip_rewards: bool = False
    info_keywords: list[str] = field(default_factory=lambda: ["x_velocity", "success", "is_success", "fell"])
    worker_timeout: float = 300.0
    worker_start_method: str | None = None

    def base(self, kwargs: dict[str, Any], render_mode: str | None) -> gymnasium.Env[Any, Any]:
        """The env itself with its time limit, before anything of ours is wrapped around it."""
        return build_base(self.id, kwargs, self.max_episode_steps, render_mode)

    @property
    def palette(self) -> Colors | None:
        """RGB of each index that a pixel of its observations may be; None where pixels are levels."""
        known = [colors for transform in self.transforms if (colors := transform.palette()) is not None]
        return known[-1] if known else None

    def check_workers(self) -> None:
        """Refuses what cannot be made in a worker process; an id always can."""


def make_env(
    config: EnvConfig, render_mode: str | None = None, index: int = 0, training: bool = True
) -> EnvAdapter:
    """One fully wrapped env. `training=False` leaves out what only training wants (ends at a lost life)."""
    kwargs: dict[str, Any] = {}
    for transform in config.transforms:
        kwargs |= transform.env_kwargs(config.id)
    env = config.base(kwargs | config.kwargs, render_mode)
    quicken(env)
    if config.action_repeat < 1:
        raise ConfigError(f"action_repeat {config.action_repeat} must be at least 1")
    if config.action_repeat > 1:
        env = RepeatedAction(env, config.action_repeat)
    limit = None
    if isinstance(env, gymnasium.wrappers.TimeLimit) and not config.transforms:
        limit = wrapped_limit(env)  # the record counts steps anyway: one layer less
        env = env.env
    for transform in config.transforms:
        env = transform.apply(env, training)
    if config.noise is not None:
        env = config.noise.apply(env)
    secrets = dict(secret_texts(config.kwargs))
    own = [key for key in getattr(env.unwrapped, "tracked", ()) if key not in config.info_keywords]
    return EnvAdapter(
        env,
        config.id,
        index,
        [*config.info_keywords, *own],
        config.rescale_actions,
        config.clip_rewards,
        limit,
        secrets,
    )


def describe(env: EnvAdapter) -> EnvSpec:
    """The spec of a made env; a discrete one is reset once, to see whether it masks actions."""
    codec, space = env.codec, env.observation_space
    if not codec.continuous:
        env.reset(seed=0)
    layers = chain(env)
    frames = repeat = 1
    for layer in layers:
        frames *= layer.num_stack if isinstance(layer, FrameStackWrapper | StackedPictures) else 1
        repeat *= layer.repeat if isinstance(layer, RepeatedAction) else 1
    return EnvSpec(
        env_id=env.env_id,
        obs_shape=tuple(int(n) for n in space.shape or ()),
        obs_dtype="uint8" if env.encode.image or env.encode.bytes else "float32",
        action_kind=codec.kind,
        action_shape=codec.shape,
        action_sizes=codec.sizes,
        action_low=tuple(float(low) for low in codec.low),
        action_high=tuple(float(high) for high in codec.high),
        num_stack=frames,
        action_mask=bool(env.masked),
        max_episode_steps=time_limit(layers),
        action_repeat=repeat,
        obs_parts=tuple(tuple(part) for part in env.encode.parts),  # type: ignore[misc]
    )


def time_limit(layers: Iterable[gymnasium.Env[Any, Any]]) -> int | None:
    """The tightest limit, in env steps, that any layer declares."""
    limits = [wrapped_limit(layer) for layer in layers if isinstance(layer, gymnasium.wrappers.TimeLimit)]
    limits += [layer.time_limit for layer in layers if "time_limit" in vars(layer)]  # type: ignore[attr-defined]
    return min((int(limit) for limit in limits if limit is not None), default=None)


def probe_spec(config: EnvConfig) -> EnvSpec:
    """The spec of a config: makes one env and closes it."""
    env = make_env(config)
    try:
        return describe(env)
    finally:
        env.close()


def check_vectorization(vectorization: str) -> None:
    if vectorization not in VECTORIZATIONS:
        raise ConfigError(f"vectorization '{vectorization}' is none of {', '.join(VECTORIZATIONS)}")


def make_envs(
    config: EnvConfig,
    num_envs: int,
    vectorization: str = "sync",
    render_mode: str | None = None,
    training: bool = True,
) -> Envs:
    """`num_envs` copies behind one vector env: in this process, in workers, or in ALE's own threads."""
    if num_envs < 1:
        raise ConfigError(f"num_envs {num_envs} must be at least 1")
    check_vectorization(vectorization)
    if vectorization == "native":
        envs = _native(config, num_envs, render_mode, training)
    elif vectorization == "async":
        config.check_workers()
        start = partial(
            _in_worker, config, render_mode, training, tuple(sorted(ALLOWED_IMPORTS)), os.getpid()
        )
        makers = [partial(start, index) for index in range(num_envs)]
        envs = AsyncEnvs(makers, probe_spec(config), config.worker_timeout, config.worker_start_method)
    else:
        one = partial(make_env, config, render_mode, training=training)
        envs = SerialEnvs([partial(one, index=index) for index in range(num_envs)], describe)
    assert envs.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP, envs.metadata
    return envs


def _in_worker(
    config: EnvConfig,
    render_mode: str | None,
    training: bool,
    allowed: tuple[str, ...],
    parent_pid: int,
    index: int,
) -> EnvAdapter:
    """Makes an env in its worker process (Gymnasium calls the first one in the parent, too)."""
    if os.getpid() != parent_pid:
        # Ctrl-C reaches the whole group: workers must outlive it, so that the parent can save their state.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a forked worker inherits the parent's handler
        ALLOWED_IMPORTS.update(allowed)
        for module in allowed:
            importlib.import_module(module)
    return make_env(config, render_mode, index, training)


def _native(config: EnvConfig, num_envs: int, render_mode: str | None, training: bool) -> Envs:
    if not config.id.startswith("ALE/"):
        raise ConfigError(f"vectorization 'native' is for ALE/... ids, not {config.id}; use sync or async")
    if render_mode is not None:
        raise ConfigError("vectorization 'native' cannot render; use sync")
    presets = [each for each in config.transforms if isinstance(each, AtariPreprocessing | AtariFrames)]
    if (
        len(presets) != 1
        or len(config.transforms) != 1
        or config.noise is not None
        or config.action_repeat != 1
    ):
        raise ConfigError(
            "vectorization 'native' takes exactly one transform, AtariPreprocessing or AtariFrames, "
            "and no noise or repeat"
        )
    from rl_lightning.envs.suites.atari import native_envs, native_frames

    if isinstance(presets[0], AtariFrames):
        return native_frames(config.id, config.kwargs, presets[0], num_envs, config.max_episode_steps)
    return native_envs(config.id, config.kwargs, presets[0], num_envs, training, config.max_episode_steps)
