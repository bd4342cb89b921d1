"""The outermost wrapper of every single env: encodes spaces, records episodes, names errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rl_lightning.envs.snapshot.codec import MismatchError, UnsaveableError
from rl_lightning.envs.snapshot.env_snapshot import load_layers, save_layers
from rl_lightning.envs.spaces import ActionEncoder, ObsEncoder
from rl_lightning.envs.suites.gl import gl_error
from rl_lightning.errors import EnvError, ResumeError, RLError

Step = tuple[NDArray[Any], float, bool, bool, dict[str, Any]]


def chain(env: gymnasium.Env[Any, Any]) -> list[gymnasium.Env[Any, Any]]:
    """The env's layers, outermost first."""
    layers = [env]
    while isinstance(env, gymnasium.Wrapper):
        env = env.env
        layers.append(env)
    return layers


class EnvAdapter(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Encoded observations and actions outside, the env's own inside; raw episode statistics at the end.

    Layers below may report in `info`: `raw_reward` (before clipping), `env_steps` (inner steps of a repeated
    action), `life_lost` (the end is one of a life only: the game and its record go on), `action_mask`.

    Args:
        env: the wrapped env.
        env_id: name used in errors.
        index: position among parallel envs, used in errors.
        track: info keys averaged over an episode (a success or a fall: true if ever true).
        rescale_actions: map [-1, 1] onto finite action bounds.
        clip_rewards: hand out the sign of the reward; the record keeps the raw one.
        time_limit: truncate after this many env steps.
        secrets: texts among the env's arguments that no snapshot may hold, by name.
    """

    constants = (
        "env_id",
        "index",
        "info_keywords",
        "clip_rewards",
        "time_limit",
        "cut_at",
        "secrets",
        "_shape",
    )

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        env_id: str,
        index: int = 0,
        track: Sequence[str] = (),
        rescale_actions: bool = True,
        clip_rewards: bool = False,
        time_limit: int | None = None,
        secrets: dict[str, str] | None = None,
    ) -> None:
        super().__init__(env)
        channels_first = any(getattr(layer, "channels_first", False) for layer in chain(env))
        self.encode = ObsEncoder(env.observation_space, channels_first)
        self.codec = ActionEncoder(env.action_space, rescale_actions)
        self.observation_space = self.encode.encoded
        self._shape = self.encode.encoded.shape
        self.action_space = self.codec.encoded
        self.env_id, self.index = env_id, index
        self.track = tuple(track)
        self.clip_rewards = clip_rewards
        self.time_limit, self.secrets = time_limit, secrets or {}
        self.cut_at: int | None = None  # an evaluation's own limit, see `cut_after`
        self.masked = False  # known after the first reset
        self.unsaved = ""  # why the last snapshot was none
        self._mask_source = getattr(env.unwrapped, "action_masks", None)
        self.total_steps = 0  # calls of step since this env was made
        self.goes_on = False  # only a life ended: the next reset continues the game
        self._clear()

    def _clear(self) -> None:
        self.episode_return = 0.0
        self.length = 0
        self.sums: dict[str, float] = {}
        self.calls = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self.action_space.seed(seed)
        try:
            obs, info = self.env.reset(seed=seed, options=options)
        except RLError:
            raise
        except Exception as error:
            raise self._failed("reset", error) from error
        info = self._info(info, "reset")
        if seed is not None or not self.goes_on:
            self._clear()
        self.goes_on = False
        if not self.codec.continuous:
            self.masked = "action_mask" in info or self._mask_source is not None
        try:
            row = self._row(obs)
        except (TypeError, ValueError, AttributeError) as error:
            raise self._returned("reset", "an observation", obs) from error
        return row, ({"action_mask": self._mask(info)} if self.masked else {})

    def step(self, action: Any) -> Step:
        """Play one encoded action."""
        return self.play(self.codec.decode(action))

    def play(self, action: Any) -> Step:
        """Play one action of the env's own space."""
        try:
            obs, reward, terminated, truncated, info = self.env.step(action)
        except RLError:
            raise
        except Exception as error:
            raise self._failed(f"step {self.total_steps}", error) from error
        self.total_steps += 1
        self.calls += 1
        try:
            return self._noted(obs, reward, terminated, truncated, info)
        except (TypeError, ValueError, AttributeError) as error:
            raise self._explained(obs, info, error) from error

    def _noted(self, obs: Any, reward: Any, terminated: Any, truncated: Any, info: Any) -> Step:
        """What a step gives, once it is in the record."""
        if type(info) is not dict:
            info = self._info(info, f"step {self.total_steps - 1}")
        reward = float(reward) if type(reward) is float else self._scalar(reward)
        if info:
            self.episode_return += info.get("raw_reward", reward)
            self.length += info.get("env_steps", 1)
            for key in self.track:
                if key in info:
                    self._note(key, float(info[key]))
        else:
            self.episode_return += reward
            self.length += 1
        if self.clip_rewards:
            reward = float(np.sign(reward))
        if self.time_limit is not None and self.length >= self.time_limit:
            truncated = True
        cut = self.cut_at is not None and self.length >= self.cut_at and not (terminated or truncated)
        out: dict[str, Any] = {"action_mask": self._mask(info)} if self.masked else {}
        if terminated or truncated or cut:
            self.goes_on = bool(info.get("life_lost", False))
            if not self.goes_on:
                out["episode"] = self._episode() | ({"cut": 1.0} if cut else {})
        return self._row(obs), reward, bool(terminated), bool(truncated or cut), out

    def cut_after(self, steps: int | None) -> None:
        """Episodes that go on for so many env steps are truncated, and their record says `cut`; null: none are."""
        self.cut_at = steps

    def own_limit(self) -> int | None:
        """A limit that the env keeps for itself, as MiniGrid's and ALE's do; None where nothing is declared."""
        base = self.env.unwrapped
        named = (vars(base).get(name) for name in ("max_steps", "_max_steps", "_max_episode_steps"))
        frames = (base.spec.kwargs if base.spec else {}).get("max_num_frames_per_episode")
        return next((int(limit) for limit in (*named, frames) if isinstance(limit, int) and limit > 0), None)

    def _row(self, obs: Any) -> NDArray[Any]:
        row = self.encode(obs)
        if type(row) is not np.ndarray:
            row = self._array(row)
        if row.shape != self._shape:
            raise EnvError(
                f"{self.env_id} (env {self.index}) returned an observation of shape {row.shape} at step "
                f"{self.total_steps}, its space says {self._shape}"
            )
        return row

    def _array(self, obs: Any) -> NDArray[Any]:
        """An observation that its space takes as it is, written as a list or in another library's array."""
        row = np.asarray(obs)
        if row.dtype.kind not in "biuf":
            raise TypeError(f"an observation of {row.dtype}")
        return row.astype(self.observation_space.dtype)

    def _scalar(self, reward: Any) -> float:
        """A reward that is one number, however it is wrapped."""
        value = np.asarray(reward)
        if value.size != 1 or value.dtype.kind not in "biuf":
            raise self._returned(f"step {self.total_steps - 1}", "a reward", reward)
        return float(value.reshape(()))

    def _info(self, info: Any, where: str) -> dict[str, Any]:
        """None is no info, as some envs have it."""
        if info is None:
            return {}
        if not isinstance(info, Mapping):
            raise self._returned(where, "an info", info)
        return dict(info)

    def _explained(self, obs: Any, info: Any, error: Exception) -> EnvError:
        """Which part of an answer could not be used."""
        where = f"step {self.total_steps - 1}"
        for key in self.track:
            if isinstance(info, Mapping) and key in info and not np.isreal(info[key]).all():
                return self._returned(where, f"info['{key}']", info[key])
        try:
            self._row(obs)
        except (TypeError, ValueError, AttributeError):
            return self._returned(where, "an observation", obs)
        return self._failed(where, error)

    def _returned(self, where: str, what: str, value: Any) -> EnvError:
        shape = f" of shape {value.shape}" if isinstance(value, np.ndarray) else ""
        shown = "" if shape else f": {value!r:.60}"
        return EnvError(
            f"{self.env_id} (env {self.index}) returned {what} that cannot be used at {where}: a "
            f"{type(value).__name__}{shape}{shown}"
        )

    def snapshot(self) -> dict[str, Any] | None:
        """The place of this env in plain values; None (and `unsaved` says why) if it cannot be told."""
        self.unsaved = ""
        try:
            return save_layers(chain(self), self.secrets)
        except UnsaveableError as error:
            self.unsaved = f"{self.env_id}: {error}"
            return None
        except RLError:
            raise
        except Exception as error:  # of a user's own get_state
            raise self._failed("snapshot", error) from error

    def restore(self, saved: tuple[dict[str, Any] | None, int]) -> tuple[Any, dict[str, Any]] | None:
        """Go to the place of a (snapshot, seed); without a snapshot begin a new episode, and return that."""
        state, seed = saved
        first = self.reset(seed=seed)
        if state is None:
            return first
        try:
            load_layers(chain(self), state, self.secrets)
        except MismatchError as error:
            raise ResumeError(
                f"{self.env_id} (env {self.index}): the saved state does not fit: {error}"
            ) from error
        return None

    def render(self) -> Any:
        try:
            return self.env.render()
        except RLError:
            raise
        except Exception as error:
            if "mujoco" in type(self.unwrapped).__module__:
                raise gl_error(self.env_id, error) from error
            raise self._failed("render", error) from error

    def _note(self, key: str, value: float) -> None:
        total = self.sums.get(key, 0.0)
        self.sums[key] = max(total, value) if _is_event(key) else total + value

    def _episode(self) -> dict[str, float]:
        means = {key: total if _is_event(key) else total / self.calls for key, total in self.sums.items()}
        return {"return": self.episode_return, "length": self.length, **means}

    def _mask(self, info: dict[str, Any]) -> NDArray[np.bool_]:
        mask = info["action_mask"] if "action_mask" in info else self._mask_source()  # type: ignore[misc]
        parts = mask if isinstance(mask, tuple | list) else [mask]
        flat = np.concatenate([np.asarray(part).reshape(-1) for part in parts]).astype(np.bool_)
        if flat.size != sum(self.codec.sizes):
            raise EnvError(
                f"{self.env_id} (env {self.index}): action mask of {flat.size} for {self.codec.sizes} actions"
            )
        return flat

    def _failed(self, where: str, error: Exception) -> EnvError:
        return EnvError(
            f"{self.env_id} (env {self.index}) raised at {where}: {type(error).__name__}: {error}"
        )


def _is_event(key: str) -> bool:
    """What happens once in an episode and counts whenever it did."""
    return "success" in key or key == "fell"
