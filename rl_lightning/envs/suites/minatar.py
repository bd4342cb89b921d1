"""MinAtar's five games as Gymnasium envs: `MinAtar/Breakout-v1`; v0 has all six actions, v1 those that do something."""

from __future__ import annotations

import copy
import logging
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from rl_lightning.errors import ConfigError
from rl_lightning.extras import pip_install

GAMES = {
    "Asterix": "asterix",
    "Breakout": "breakout",
    "Freeway": "freeway",
    "Seaquest": "seaquest",
    "SpaceInvaders": "space_invaders",
}
PACKAGE = "MinAtar>=1.0.15,<2"


def known_ids() -> list[str]:
    return [f"MinAtar/{game}-v{version}" for game in GAMES for version in (0, 1)]


def engine() -> Any:
    """The package without its window: matplotlib and seaborn, which it asks for, draw that alone."""
    previous = logging.root.manager.disable
    logging.disable(logging.WARNING)  # it says that it cannot draw
    try:
        from minatar.environment import Environment
    except ImportError as error:
        raise ConfigError(f"MinAtar is not installed; type: {pip_install('--no-deps', PACKAGE)}") from error
    finally:
        logging.disable(previous)
    return Environment


def build(
    env_id: str, kwargs: dict[str, Any], max_episode_steps: int | None, render_mode: str | None
) -> gymnasium.Env[Any, Any]:
    game, _, version = env_id.removeprefix("MinAtar/").rpartition("-v")
    try:
        env: gymnasium.Env[Any, Any] = MinAtar(GAMES[game], version == "1", render_mode, **kwargs)
    except TypeError as error:
        raise ConfigError(f"{env_id} cannot be made with {kwargs}: {error}") from error
    return env if max_episode_steps is None else gymnasium.wrappers.TimeLimit(env, max_episode_steps)


class MinAtar(gymnasium.Env[Any, Any]):
    """A game of 10 x 10 cells. An observation has one plane for each kind of thing, 255 where it is.

    Args:
        game: its name in the package.
        minimal_actions: actions that do nothing in this game are left out.
        render_mode: `rgb_array` or none.
        sticky_action_prob: chance that the last action is repeated.
        difficulty_ramping: games get faster.
    """

    constants = ("game", "legal", "colors")
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  (Gymnasium's own pattern)

    def __init__(
        self,
        game: str,
        minimal_actions: bool = True,
        render_mode: str | None = None,
        sticky_action_prob: float = 0.1,
        difficulty_ramping: bool = True,
    ) -> None:
        self.game = engine()(game, sticky_action_prob, difficulty_ramping)
        self.legal = self.game.minimal_action_set() if minimal_actions else list(range(6))
        self.render_mode = render_mode
        height, width, planes = self.game.state_shape()
        self.observation_space = spaces.Box(0, 255, (planes, height, width), np.uint8)
        self.action_space = spaces.Discrete(len(self.legal))
        self.colors = np.random.default_rng(0).integers(60, 256, (planes + 1, 3), dtype=np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.game.seed(seed)
            self.game.last_action = 0
        self.game.reset()
        return self._planes(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward, over = self.game.act(self.legal[int(action)])
        return self._planes(), float(reward), bool(over), False, {}

    def _planes(self) -> Any:
        return np.ascontiguousarray(self.game.state().transpose(2, 0, 1)).astype(np.uint8) * 255

    def render(self) -> Any:
        state = self.game.state()
        kind = np.max(state * (1 + np.arange(state.shape[2])), 2).astype(int)
        picture = np.where(kind[..., None] > 0, self.colors[kind], 0).astype(np.uint8)
        return picture.repeat(32, 0).repeat(32, 1)

    def get_state(self) -> dict[str, Any]:
        _, keys, position, has_gauss, cached = self.game.random.get_state()
        own = {name: value for name, value in vars(self.game.env).items() if name != "random"}
        return {
            "game": copy.deepcopy(own),
            "last_action": int(self.game.last_action),
            "random": {"keys": keys, "position": position, "has_gauss": has_gauss, "cached": cached},
        }

    def set_state(self, state: dict[str, Any]) -> None:
        vars(self.game.env).update(copy.deepcopy(state["game"]))
        self.game.last_action, random = state["last_action"], state["random"]
        numbers = (random["keys"], random["position"], random["has_gauss"], random["cached"])
        self.game.random.set_state(("MT19937", *numbers))
        self.game.env.random = self.game.random
