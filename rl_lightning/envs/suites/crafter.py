"""Crafter as Gymnasium envs: `CrafterReward-v1`, and `CrafterNoReward-v1`, which pays nothing."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from rl_lightning.errors import ConfigError

with warnings.catch_warnings():  # its reader of YAML sets filters for the whole process
    import crafter

IDS = {"CrafterReward-v1": True, "CrafterNoReward-v1": False}
LENGTH = 10_000


def known_ids() -> list[str]:
    return list(IDS)


def build(
    env_id: str, kwargs: dict[str, Any], max_episode_steps: int | None, render_mode: str | None
) -> gymnasium.Env[Any, Any]:
    try:
        return Crafter(IDS[env_id], max_episode_steps or LENGTH, render_mode, **kwargs)
    except TypeError as error:
        raise ConfigError(f"{env_id} cannot be made with {kwargs}: {error}") from error


class OrderedMembers:
    """A set that is walked in the order of arrival: the original's, ordered by address, makes each process its own."""

    def __init__(self) -> None:
        self.members: dict[Any, None] = {}

    def add(self, member: Any) -> None:
        self.members[member] = None

    def remove(self, member: Any) -> None:
        del self.members[member]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)


class Crafter(gymnasium.Env[Any, Any]):
    """One world after the other. Death terminates, the time limit truncates.

    Args:
        pays: whether achievements and health pay.
        time_limit: steps of an episode.
        render_mode: `rgb_array` or none.
        screen_size: height and width of a frame.
    """

    constants = ("game", "time_limit", "tracked")
    tracked = ("num_achievements",)
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  (Gymnasium's own pattern)

    def __init__(
        self,
        pays: bool = True,
        time_limit: int = LENGTH,
        render_mode: str | None = None,
        screen_size: int = 64,
    ) -> None:
        self.game = crafter.Env(size=(screen_size, screen_size), reward=pays, length=0, seed=0)
        self.time_limit, self.render_mode = time_limit, render_mode
        self.observation_space = spaces.Box(0, 255, (screen_size, screen_size, 3), np.uint8)
        self.action_space = spaces.Discrete(len(self.game.action_names))
        self.actions: list[int] = []  # of this episode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.game._seed, self.game._episode = seed, 0
        return self._begin(), {"num_achievements": 0}

    def _begin(self) -> Any:
        """A new world, whose objects keep the order that they came in."""
        world = self.game._world
        begin, self.actions = world.reset, []

        def ordered(seed: int | None = None) -> None:
            begin(seed)
            world._chunks = defaultdict(OrderedMembers)

        world.reset = ordered
        try:
            return self.game.reset()
        finally:
            del world.reset

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.actions.append(int(action))
        obs, reward, dead, info = self.game.step(int(action))
        unlocked = sum(count > 0 for count in info["achievements"].values())
        truncated = not dead and len(self.actions) >= self.time_limit
        return obs, float(reward), bool(dead), truncated, {"num_achievements": unlocked}

    def render(self) -> Any:
        return self.game.render((512, 512))

    def get_state(self) -> dict[str, Any]:
        """Which world it is, and what was done in it: objects point at each other in ways that no file can hold."""
        return {"seed": self.game._seed, "episode": self.game._episode, "actions": list(self.actions)}

    def set_state(self, state: dict[str, Any]) -> None:
        self.game._seed, self.game._episode = state["seed"], state["episode"] - 1
        self._begin()
        self.actions = list(state["actions"])
        self.game._obs = lambda: None  # nobody looks meanwhile
        try:
            for action in self.actions:
                self.game.step(action)
        finally:
            del self.game._obs
