"""Recording a data set: every env plays whole episodes until its share is full; streams are laid end to end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rl_lightning.errors import ConfigError
from rl_lightning.rollout.collect import ActFn, Collector
from rl_lightning.types import Carry, EnvSpec, Steps

CHUNK = 500  # vector steps between two looks at how far it is
Progress = Callable[[int, int], None]  # rows so far, rows in all


class SimulatorStateRecorder:
    """Positions and velocities of MuJoCo envs before each step; empty for other envs.

    Args:
        envs: Vector env of this process.
    """

    def __init__(self, envs: Any) -> None:
        states = [getattr(env.unwrapped, "data", None) for env in getattr(envs, "envs", [])]
        self.states = states if states and all(hasattr(each, "qpos") for each in states) else []
        self.tape: dict[str, list[np.ndarray]] = {"qpos": [], "qvel": []} if self.states else {}

    def watch(self, act: ActFn) -> ActFn:
        """The same actor; each time it is asked, the envs stand where they were seen."""
        if not self.states:
            return act

        def watched(
            obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
        ) -> tuple[Tensor, Carry]:
            for key, rows in self.tape.items():
                rows.append(np.array([getattr(state, key) for state in self.states], np.float32))
            return act(obs, carry, generator, mask)

        return watched

    def arrays(self) -> dict[str, np.ndarray]:
        return {key: np.stack(rows) for key, rows in self.tape.items()}  # [T, N, nq]


def record_transitions(
    collector: Collector,
    act: ActFn,
    rows: int,
    generator: torch.Generator | None,
    progress: Progress | None = None,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Exactly `rows` rows in D4RL's names, and the simulator's states before each.

    Each env plays until an episode ends at or after its share, so that nothing is cut but the very last episode.
    """
    num, tape = collector.num_envs, SimulatorStateRecorder(collector.envs)
    watched = tape.watch(act)
    share = -(-rows // num)
    chunks: list[Steps] = []
    steps = 0
    stops = np.full(num, -1)  # steps that env n contributes, once known
    limit = 50 * share + 100_000  # an env whose episodes never end is cut at its share
    while (stops < 0).any() and steps < limit:
        wanted = max(1, min(CHUNK, share - steps)) if steps < share else CHUNK
        chunk = collector.collect(watched, wanted, generator)
        chunks.append(chunk)
        ended = chunk.terminated | chunk.truncated
        for n in np.flatnonzero(stops < 0):
            ends = np.flatnonzero(ended[:, n]) + 1 + steps
            late = ends[ends >= share]
            if len(late):
                stops[n] = late[0]
        steps += wanted
        if collector.spec.max_episode_steps is None and steps >= share:
            stops[stops < 0] = steps
        if progress is not None:
            progress(min(rows, steps * num), rows)
    stops[stops < 0] = share
    keep = np.arange(steps)[:, None] < stops[None]  # [T, N]
    played = _arrays(chunks)
    last = (stops - 1, np.arange(num))  # where an env's rows stop, another env's begin
    played["timeouts"][last] |= ~played["terminals"][last]
    arrays = {key: by_env(array, keep)[:rows] for key, array in played.items()}
    infos = {key: by_env(array, keep)[:rows] for key, array in tape.arrays().items()}
    if collector.spec.is_pixels:  # a picture is a row like any other; the env tells its shape
        for key in ("observations", "next_observations"):
            arrays[key] = arrays[key].reshape(len(arrays[key]), -1)
    if collector.spec.action_kind == "continuous":
        np.clip(arrays["actions"], -1.0, 1.0, out=arrays["actions"])  # as the env played it
    return arrays, infos


def by_env(array: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """[T, N, ...] -> rows, env after env, each in order of time, where `keep` [T, N] says so."""
    return np.swapaxes(array, 0, 1)[keep.T]


def _arrays(chunks: Iterable[Steps]) -> dict[str, np.ndarray]:
    parts: dict[str, list[np.ndarray]] = {}
    for chunk in chunks:
        following = np.concatenate([chunk.obs[1:], chunk.last_obs[None]])
        for t, n, last in chunk.ends:
            following[t, n] = last
        named = {
            "observations": chunk.obs,
            "actions": chunk.action,
            "rewards": chunk.reward,
            "next_observations": following,
            "terminals": chunk.terminated,
            "timeouts": chunk.truncated,
        }
        for key, array in named.items():
            parts.setdefault(key, []).append(array)
    return {key: np.concatenate(chunk_arrays) for key, chunk_arrays in parts.items()}


def with_noise_scale(act: ActFn, scale: float, spec: EnvSpec) -> ActFn:
    """The same actor with its noise scaled: greedy + scale * (sampled - greedy)."""
    if spec.action_kind != "continuous":
        raise ConfigError(f"'narrow' needs continuous actions; {spec.env_id} has discrete ones")

    def act_quietly(
        obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        greedy, following = act(obs, carry, None, mask)
        if generator is None:
            return greedy, following
        sampled, _ = act(obs, carry, generator, mask)
        return greedy + scale * (sampled - greedy), following

    return act_quietly


def interpolate_policies(first: ActFn, second: ActFn, calls: int, pick_generator: torch.Generator) -> ActFn:
    """Begins as `first` and ends as `second`: over `calls` steps ever more actions are the second's."""
    calls_so_far = 0

    def mixed(
        obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        nonlocal calls_so_far
        share, calls_so_far = min(1.0, calls_so_far / max(1, calls)), calls_so_far + 1
        one, _ = first(obs, carry, generator, mask)
        two, following = second(obs, carry, generator, mask)
        pick = torch.rand(len(obs), generator=pick_generator) < share
        return torch.where(pick.reshape(-1, *[1] * (one.dim() - 1)), two, one), following

    return mixed
