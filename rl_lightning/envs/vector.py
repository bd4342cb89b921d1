"""Vector envs of one contract: SAME_STEP autoreset, plain arrays, errors that name the env.

The observation array that `reset` and `step` return is written again by the next step: copy what you keep.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from rl_lightning.envs.adapter import EnvAdapter
from rl_lightning.envs.snapshot.saved_values import from_saved, to_saved
from rl_lightning.errors import EnvError, ResumeError
from rl_lightning.observations import FLOAT, ObsLayout
from rl_lightning.types import EnvSpec

Array = NDArray[Any]
Infos = dict[str, Any]
Seeds = int | Sequence[int | None] | None


class Envs(VectorEnv[Any, Any, Any]):
    """What every vector env here offers beyond Gymnasium's: `env_spec`, and infos of at most three keys.

    `final_obs` [N, *O], rows valid where an env ended. `episode`: {return, length, tracked keys} [N], rows
    valid where length > 0 (a row that ended by the loss of one life only has length 0). `action_mask` [N, A].
    """

    env_spec: EnvSpec
    steps: int = 0  # vector steps since the envs were made

    def _prepare(self, num_envs: int, env_spec: EnvSpec) -> None:
        self.env_spec = env_spec
        self._is_float = env_spec.obs_dtype == "float32"
        self._ones = np.ones(num_envs * math.prod(env_spec.obs_shape), np.float32) if self._is_float else None
        self._number_bytes = FLOAT * ObsLayout.of(env_spec.obs_parts).numbers if env_spec.is_bytes else 0
        self._mask = (
            np.ones((num_envs, sum(env_spec.action_sizes)), np.bool_) if env_spec.action_mask else None
        )

    def snapshot(self) -> list[Any]:
        """The exact place of each env, in values that `torch.load(weights_only=True)` takes.

        None for an env that cannot be saved; `call("unsaved")` says why.
        """
        return [to_saved(state) for state in self.call("snapshot")]

    def restore(self, states: Sequence[Any], seed: int = 0) -> dict[int, tuple[Array, Infos]]:
        """Take each env back to its place. Those without a state begin a new episode, seeded `seed + i`, and
        are returned with their first observation and infos."""
        self._check_states(states)
        saved = []
        for i, state in enumerate(states):
            try:
                saved.append((from_saved(state), seed + i))
            except ValueError as error:
                raise ResumeError(f"{self.env_spec.env_id} (env {i}): the saved state has {error}") from error
        answers = self.call_each("restore", saved)
        return {i: answer for i, answer in enumerate(answers) if answer is not None}

    def cut_after(self, steps: int | None) -> None:
        """Truncates every episode that goes on for so many env steps, and marks its record `cut`; null: none."""
        self.call("cut_after", steps)

    def own_limit(self) -> int | None:
        """The time limit that the envs declare in any way."""
        declared = self.env_spec.max_episode_steps
        return declared if declared is not None else self.call("own_limit")[0]

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The result of one attribute or method of each env."""
        raise NotImplementedError

    def call_each(self, name: str, values: Sequence[Any]) -> tuple[Any, ...]:
        """Call one method with a value of its own for each env."""
        raise NotImplementedError

    def _check_states(self, states: Sequence[Any]) -> None:
        if len(states) != self.num_envs:
            raise ResumeError(
                f"{self.env_spec.env_id}: {len(states)} saved envs, but {self.num_envs} are wanted"
            )

    def _check(self, obs: Array, rewards: Sequence[float] | Array) -> None:
        """Refuse numbers that are not finite: one sum when all is well, a search only when it is not."""
        if not math.isfinite(sum(rewards)):
            self._find("reward", np.asarray(rewards))
        if self._ones is not None and not math.isfinite(obs.reshape(-1).dot(self._ones)):
            self._find("observation", obs)
        if self._number_bytes:
            self._check_numbers(obs)

    def _check_numbers(self, obs: Array) -> None:
        """The numbers at the head of rows of bytes."""
        numbers = obs[:, : self._number_bytes].view(np.float32)
        if not math.isfinite(numbers.sum()):
            self._find("observation", numbers)

    def _find(self, field: str, rows: Array) -> None:
        bad = ~np.isfinite(rows)
        if not bad.any():
            return  # finite numbers whose sum overflowed
        where = tuple(int(k) for k in np.argwhere(bad)[0])
        entry = "".join(f"[{k}]" for k in where[1:])
        raise EnvError(
            f"{self.env_spec.env_id} (env {where[0]}) returned {rows[where]} as {field}{entry} "
            f"at step {self.steps}"
        )

    def _infos(self, ended: list[tuple[int, Array, Infos]], obs: Array) -> Infos:
        """Infos of one step from (env, true last observation, last info) of each env that ended."""
        infos: Infos = {}
        if self._mask is not None:
            infos["action_mask"] = self._mask.copy()
        if not ended:
            return infos
        final = np.zeros_like(obs)
        for i, row, _ in ended:
            final[i] = row
        if self._is_float and not math.isfinite(final.sum()):
            self._find("observation", final)
        if self._number_bytes:
            self._check_numbers(final)
        infos["final_obs"] = final
        episodes = [(i, info["episode"]) for i, _, info in ended if "episode" in info]
        infos["episode"] = merge_episodes(episodes, len(obs))
        return infos


def merge_episodes(episodes: list[tuple[int, dict[str, float]]], num_envs: int) -> dict[str, Array]:
    """Columns of finished episodes; rows without one have length 0."""
    merged: dict[str, Array] = {
        "return": np.zeros(num_envs, np.float64),
        "length": np.zeros(num_envs, np.int64),
    }
    for i, episode in episodes:
        for key, value in episode.items():
            if key not in merged:
                merged[key] = np.full(num_envs, np.nan, np.float64)
            merged[key][i] = value
    return merged


def spread_seeds(seed: Seeds, num_envs: int) -> list[int | None]:
    """One seed per env: `seed + i` for an integer."""
    if seed is None:
        return [None] * num_envs
    if isinstance(seed, int | np.integer):
        return [int(seed) + i for i in range(num_envs)]
    assert len(seed) == num_envs, (len(seed), num_envs)
    return list(seed)


class SerialEnvs(Envs):
    """Envs stepped one after the other in this process, straight into one observation array.

    Args:
        makers: one function per env.
        describe: makes the spec from the first env.
    """

    def __init__(
        self, makers: Sequence[Callable[[], EnvAdapter]], describe: Callable[[EnvAdapter], EnvSpec]
    ) -> None:
        self.envs = [make() for make in makers]
        self.num_envs = len(self.envs)
        first = self.envs[0]
        self.metadata = {**first.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}
        self.render_mode = first.render_mode
        self.single_observation_space = first.observation_space
        self.single_action_space = first.action_space
        self.observation_space = batch_space(first.observation_space, self.num_envs)
        self.action_space = batch_space(first.action_space, self.num_envs)
        self._prepare(self.num_envs, describe(first))
        self._decode = first.codec.decode_batch
        self._obs = np.zeros((self.num_envs, *self.env_spec.obs_shape), self.env_spec.obs_dtype)

    def reset(self, *, seed: Seeds = None, options: dict[str, Any] | None = None) -> tuple[Array, Infos]:
        seeds = spread_seeds(seed, self.num_envs)
        if seeds[0] is not None:
            self.action_space.seed(seeds[0])
        for i, (env, value) in enumerate(zip(self.envs, seeds, strict=True)):
            self._obs[i], info = env.reset(seed=value, options=options)
            if self._mask is not None:
                self._mask[i] = info["action_mask"]
        self._check(self._obs, ())
        return self._obs, self._infos([], self._obs)

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, Infos]:
        obs, mask = self._obs, self._mask
        rewards, terminations, truncations = [], [], []
        ended: list[tuple[int, Array, Infos]] = []
        for i, action in enumerate(self._decode(actions)):
            env = self.envs[i]
            row, reward, terminated, truncated, info = env.play(action)
            rewards.append(reward)
            terminations.append(terminated)
            truncations.append(truncated)
            if terminated or truncated:
                ended.append((i, row.copy(), info))
                row, info = env.reset()
            obs[i] = row
            if mask is not None:
                mask[i] = info["action_mask"]
        self._check(obs, rewards)
        infos = self._infos(ended, obs) if ended or mask is not None else {}
        self.steps += 1
        return (
            obs,
            np.array(rewards, np.float32),
            np.array(terminations, np.bool_),
            np.array(truncations, np.bool_),
            infos,
        )

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        members = [env.get_wrapper_attr(name) for env in self.envs]
        return tuple(item(*args, **kwargs) if callable(item) else item for item in members)

    def call_each(self, name: str, values: Sequence[Any]) -> tuple[Any, ...]:
        pairs = zip(self.envs, values, strict=True)
        return tuple(env.get_wrapper_attr(name)(value) for env, value in pairs)

    def render(self) -> tuple[Any, ...]:
        return tuple(env.render() for env in self.envs)

    def close_extras(self, **kwargs: Any) -> None:
        for env in self.envs:
            env.close()
