"""Moving an actor through a vector of envs: arrays of what happened, and the episodes that ended."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from rl_lightning import stop_request
from rl_lightning.errors import ConfigError
from rl_lightning.types import Carry, EnvSpec, EpisodeStats, Steps


class ActFn(Protocol):
    """How an agent chooses: greedily if `explore` is None, else drawing from the generator."""

    def __call__(
        self, obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]: ...


def action_array(spec: EnvSpec, steps: int, num_envs: int) -> np.ndarray:
    dtype = np.float32 if spec.action_kind == "continuous" else np.int64
    return np.empty((steps, num_envs, *spec.action_shape), dtype)


class Collector:
    """Keeps the place of N envs between calls: observation, recurrent state, legal actions.

    Args:
        envs: Vector env of envs/make.py.
        seed: Seeds env i with seed + i at the first reset.
        reward_carry: Part of the actor's carry that adds up rewards; null: none does.
    """

    def __init__(self, envs: Any, seed: int, reward_carry: int | None = None) -> None:
        self.envs, self.reward_carry = envs, reward_carry
        self.spec: EnvSpec = envs.env_spec
        self.num_envs: int = envs.num_envs
        self.carry: Carry = ()
        self.episodes: list[EpisodeStats] = []  # ended since the last drain()
        obs, infos = envs.reset(seed=seed)
        self.obs: np.ndarray = obs.copy()
        self.is_first = np.ones(self.num_envs, bool)
        self.mask: np.ndarray | None = infos["action_mask"].copy() if self.spec.action_mask else None

    def collect(self, act: ActFn, steps: int, generator: torch.Generator | None) -> Steps:
        """`steps` steps of every env. The recurrent state of an env is zeroed where an episode begins."""
        n, spec, step_envs = self.num_envs, self.spec, self.envs.step
        obs = np.empty((steps, n, *spec.obs_shape), spec.obs_dtype)
        action = action_array(spec, steps, n)
        reward = np.empty((steps, n), np.float32)
        terminated, truncated, is_first = (np.empty((steps, n), bool) for _ in range(3))
        mask = None if self.mask is None else np.empty((steps, n, spec.action_dim), bool)
        ends: list[tuple[int, int, np.ndarray]] = []
        current, carry = self.obs, self.carry
        first: np.ndarray | None = self.is_first  # None where no episode begins
        # All views in one call; unbinding costs more than making the only one.
        obs_rows = torch.from_numpy(obs).unbind() if steps > 1 else (torch.from_numpy(obs[0]),)
        legal = None if mask is None else torch.from_numpy(mask).unbind()
        with torch.no_grad():
            for t in range(steps):
                stop_request.raise_if_stopped()
                obs[t] = current
                if mask is not None:
                    mask[t] = self.mask
                if carry and first is not None:
                    carry = reset_carry_rows(carry, first)
                chosen, carry = act(obs_rows[t], carry, generator, None if legal is None else legal[t])
                chosen_array = to_array(chosen)
                if t == 0 and chosen_array.shape != action.shape[1:]:  # it might be spread over the envs
                    raise ConfigError(
                        f"act gave {list(chosen_array.shape)} for {n} observations of {spec.env_id or 'the env'}; its "
                        f"{spec.action_kind.replace('_', '-')} actions are {list(action.shape[1:])}"
                    )
                action[t] = chosen_array
                current, reward[t], terminated[t], truncated[t], infos = step_envs(action[t])
                carry, first = add_reward(carry, self.reward_carry, reward[t]), None
                if self.mask is not None:
                    self.mask = infos["action_mask"]
                if "final_obs" in infos:
                    first = terminated[t] | truncated[t]
                    self._finish(t, first, infos, ends)
        is_first[0] = self.is_first
        np.logical_or(terminated[:-1], truncated[:-1], out=is_first[1:])
        self.obs, self.carry, self.is_first = current.copy(), carry, terminated[-1] | truncated[-1]
        if self.mask is not None:
            self.mask = self.mask.copy()
        return Steps(obs, action, reward, terminated, truncated, is_first, self.obs, ends, mask, self.mask)

    def _finish(
        self, t: int, done: np.ndarray, infos: dict[str, Any], ends: list[tuple[int, int, np.ndarray]]
    ) -> None:
        for n in np.flatnonzero(done):
            ends.append((t, int(n), infos["final_obs"][n].copy()))
            if infos["episode"]["length"][
                n
            ]:  # 0: a life was lost, which ends what is learned from, but not the game
                self.episodes.append(episode_stats(infos["episode"], int(n)))

    def state_dict(self) -> dict[str, Any]:
        """The place of every env; an env that cannot be saved has None for a snapshot."""
        return {
            "obs": torch.from_numpy(self.obs.copy()),
            "is_first": torch.from_numpy(self.is_first.copy()),
            "mask": None if self.mask is None else torch.from_numpy(self.mask.copy()),
            "carry": tuple(c.detach().cpu().clone() for c in self.carry),
            "episodes": [tuple(episode) for episode in self.episodes],
            "envs": self.envs.snapshot(),
        }

    def load_state_dict(
        self, state: dict[str, Any], device: torch.device | str = "cpu", seed: int = 0
    ) -> list[int]:
        """Takes every env back to its place; returns those that had to start a new episode instead."""
        self.obs, self.is_first = state["obs"].numpy().copy(), state["is_first"].numpy().copy()
        self.mask = None if state["mask"] is None else state["mask"].numpy().copy()
        self.carry = tuple(c.to(device) for c in state["carry"])
        self.episodes = [EpisodeStats(*episode) for episode in state["episodes"]]
        restarted: list[int] = []
        for n, (obs, infos) in self.envs.restore(state["envs"], seed).items():
            restarted.append(n)
            self.obs[n], self.is_first[n] = obs, True
            if self.mask is not None:
                self.mask[n] = infos["action_mask"]
        return restarted

    def drain(self) -> list[EpisodeStats]:
        episodes, self.episodes = self.episodes, []
        return episodes


def to_array(action: Tensor) -> np.ndarray:
    """What an env takes: on the CPU, and in full precision where the network was in half."""
    if action.dtype in (torch.bfloat16, torch.float16):
        action = action.float()
    return action.numpy() if action.device.type == "cpu" else action.cpu().numpy()


def reset_carry_rows(carry: Carry, rows: np.ndarray) -> Carry:
    """The carry with the given rows set to zero, as at the start of an episode."""
    keep = torch.from_numpy(~rows)
    return tuple(c * keep.to(c.device, c.dtype).reshape(-1, *[1] * (c.dim() - 1)) for c in carry)


def add_reward(carry: Carry, part: int | None, reward: np.ndarray) -> Carry:
    """The carry with the rewards just earned added to one of its parts [N, 1], if there is one for them."""
    if part is None:
        return carry
    earned = torch.from_numpy(np.asarray(reward, np.float32)).to(carry[part]).unsqueeze(-1)
    return (*carry[:part], carry[part] + earned, *carry[part + 1 :])


def episode_stats(record: dict[str, np.ndarray], n: int, seed: int | None = None) -> EpisodeStats:
    extra = {key: float(value[n]) for key, value in record.items() if key not in ("return", "length", "cut")}
    cut = "cut" in record and float(record["cut"][n]) == 1.0  # NaN for episodes that ended by themselves
    return EpisodeStats(float(record["return"][n]), int(record["length"][n]), seed, extra, cut)
