"""The random policy: the lower bar that every learned one must clear."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.artifacts import Exported
from rl_lightning.behaviors.random_actor import random_actor
from rl_lightning.errors import ConfigError
from rl_lightning.models.policies import UniformPolicy
from rl_lightning.ranges import PositiveInt
from rl_lightning.types import Carry, EnvSpec


class RandomPolicy(PolicyModule):
    """Chooses uniformly among the legal actions and learns nothing.

    Args:
        spec: What the env is like; filled in from the data.
        max_action_repeat: Each discrete action is held for 1 to so many steps, drawn anew each time. Where rewards
            lie far away, as in Freeway, actions drawn at every step never get there.
    """

    deterministic_eval = False

    def __init__(self, spec: EnvSpec, max_action_repeat: PositiveInt = 1) -> None:
        super().__init__(spec)
        if max_action_repeat > 1 and spec.action_kind != "discrete":
            raise ConfigError(
                f"model.max_action_repeat is {max_action_repeat}; above 1 it needs discrete actions"
            )
        self.max_action_repeat = max_action_repeat
        self._draw = random_actor(spec)

    def initial_carry(self, count: int) -> Carry:
        """The action held by each env, and for how many steps still."""
        return () if self.max_action_repeat == 1 else (torch.zeros(count, dtype=torch.int64),) * 2

    def act(
        self, obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        sample, _ = self._draw(obs, (), generator, mask)
        if self.max_action_repeat == 1:
            return sample, carry
        action, left = carry
        anew = left <= 0
        if mask is not None:
            anew = anew | ~mask.gather(1, action[:, None])[:, 0]
        length = torch.randint(1, self.max_action_repeat + 1, left.shape, generator=generator)
        action, left = torch.where(anew, sample, action), torch.where(anew, length, left)
        return action, (action, left - 1)

    def update(self, batch: Any) -> Metrics:
        return {}

    def exports(self) -> dict[str, Exported]:
        """The policy where it hangs on nothing that was before, for stages that value one."""
        if (
            len(self.spec.obs_shape) != 1
            or self.max_action_repeat > 1
            or self.spec.action_kind == "multi_discrete"
        ):
            return {}
        discrete = self.spec.action_kind == "discrete"
        return {
            "policy": UniformPolicy(self.spec.obs_shape[0], self.spec.action_dim, discrete).exported("none.")
        }

    def configure_optimizers(self) -> None:
        return None
