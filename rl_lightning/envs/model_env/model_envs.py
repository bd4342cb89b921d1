"""Many episodes in one learned model at once, under the contract of every vector env here."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from rl_lightning.envs.model_env.learned_env import LearnedEnv
from rl_lightning.envs.vector import Array, Envs, Infos, Seeds, spread_seeds


class ModelEnvs(Envs):
    """Episodes of an evaluation, stepped together in one pass. What a step is to be trusted is part of the record of
    its episode: `ood_fraction`, with a density, and `disagreement`.

    Args:
        world: The learned env.
        num_envs: Episodes at once.
    """

    def __init__(self, world: LearnedEnv, num_envs: int) -> None:
        self.world, self.num_envs = world, num_envs
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": [], "render_fps": 10}
        self.render_mode = None
        self.single_observation_space = spaces.Box(-np.inf, np.inf, world.spec.obs_shape, np.float32)
        self.single_action_space = spaces.Box(-1.0, 1.0, world.spec.action_shape, np.float32)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._prepare(num_envs, world.spec)
        self.draw = torch.Generator()
        self.limit = world.horizon
        self._obs = torch.zeros(num_envs, *world.spec.obs_shape)
        self._sums = np.zeros((4, num_envs))  # return, length, steps below the threshold, disagreement

    def reset(self, *, seed: Seeds = None, options: dict[str, Any] | None = None) -> tuple[Array, Infos]:
        first = spread_seeds(seed, self.num_envs)[0]
        if first is not None:
            self.action_space.seed(first)
            self.draw.manual_seed(first)
        self._begin(np.ones(self.num_envs, bool))
        return self._seen(), {}

    def _begin(self, rows: Array) -> None:
        places = np.flatnonzero(rows)
        self._obs[torch.from_numpy(places)] = self.world.draw(len(places), self.draw)
        self._sums[:, places] = 0.0

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, Infos]:
        action = torch.from_numpy(np.clip(np.asarray(actions, np.float32), -1.0, 1.0))
        step = self.world.step(self._obs, action, self.draw)
        self._obs, self.steps = step.next_obs, self.steps + 1
        reward, terminated = step.reward.numpy().astype(np.float32), step.terminated.numpy()
        self._sums += np.stack([reward, np.ones_like(reward), step.below.numpy(), step.disagreement.numpy()])
        truncated = (self._sums[1] >= self.limit) & ~terminated
        ended, infos = terminated | truncated, Infos()
        if ended.any():
            total, length, below, apart = self._sums
            each = np.maximum(length, 1.0)
            infos["final_obs"] = self._seen()
            infos["episode"] = {
                "return": np.where(ended, total, 0.0),
                "length": np.where(ended, length, 0.0).astype(np.int64),
                "disagreement": apart / each,
            } | ({} if self.world.density is None else {"ood_fraction": below / each})
            self._begin(ended)
        return self._seen(), reward, terminated, truncated, infos

    def _seen(self) -> Array:
        seen: Array = self._obs.numpy().copy()
        return seen

    def cut_after(self, steps: int | None) -> None:
        """An evaluation's own limit, where it is the tighter one."""
        self.limit = self.world.horizon if steps is None else min(steps, self.world.horizon)
