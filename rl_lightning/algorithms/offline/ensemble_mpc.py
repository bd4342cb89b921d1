"""Model-predictive control on a learned ensemble: nothing is trained, every action is planned."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.artifacts import load_exported
from rl_lightning.envs.termination import Termination, termination_for
from rl_lightning.errors import ConfigError
from rl_lightning.io.artifact_place import Artifact
from rl_lightning.planning.mpc import ensemble_score, generator_or_fixed
from rl_lightning.planning.planners import MPPI, Planner, shifted
from rl_lightning.ranges import Fraction, NonNegativeFloat
from rl_lightning.types import Carry, EnvSpec


class EnsembleMPC(PolicyModule):
    """Plans through the dynamics of an earlier stage; warm-started, each env by its own last plan.

    Args:
        spec: What the env is like; filled in from the data.
        dynamics: Artifact of a dynamics stage.
        policy_from: Artifact of a policy (e.g. BC's) that proposes plans; null: none.
        planner: The search; null: MPPI.
        gamma: Discount of imagined rewards.
        uncertainty_penalty: Taken off per unit of the elites' predicted spread; keeps plans near the data.
        termination: When an imagined episode ends; null: by the env.
    """

    action_kinds = ("continuous",)

    def __init__(
        self,
        spec: EnvSpec,
        dynamics: Artifact,
        policy_from: Artifact | None = None,
        planner: Planner | None = None,
        gamma: Fraction = 0.99,
        uncertainty_penalty: NonNegativeFloat = 0.0,
        termination: Termination | None = None,
    ) -> None:
        super().__init__(spec)
        self.source, self.proposer = dynamics, policy_from
        self.planner = planner or MPPI(num_pi_trajs=0 if policy_from is None else 24)
        if self.planner.num_pi_trajs and policy_from is None:
            raise ConfigError("model.planner.num_pi_trajs needs model.policy_from, or must be 0")
        self.gamma, self.uncertainty_penalty = gamma, uncertainty_penalty
        self.termination = termination or termination_for(spec.env_id)

    @cached_property
    def dynamics(self) -> Any:
        """The learned env; no part of this module, so that its weights are neither trained nor saved."""
        return load_exported(self.source, "dynamics")

    @cached_property
    def policy(self) -> Any:
        return None if self.proposer is None else load_exported(self.proposer, "policy")

    def borrowed(self) -> dict[str, nn.Module]:
        proposer = {} if self.policy is None else {"policy": self.policy}
        return {"dynamics": self.dynamics, **proposer}

    def setup(self, stage: str) -> None:
        known, wanted = self.dynamics, (self.spec.obs_shape[0], self.spec.action_dim)
        if (known.obs_dim, known.action_dim) != wanted:
            raise ConfigError(
                f"{self.source}: dynamics of {known.obs_dim} observations and {known.action_dim} actions; "
                f"{self.spec.env_id} has {wanted[0]} and {wanted[1]}"
            )

    def initial_carry(self, count: int) -> Carry:
        return (torch.zeros(count, self.planner.horizon, self.spec.action_dim, device=self.device),)

    @torch.no_grad()
    def act(
        self, obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        draw = generator_or_fixed(generator)
        dynamics = self.dynamics.to(obs.device)
        mean, count = shifted(carry[0]), self.planner.num_pi_trajs
        proposals = self._proposals(dynamics, obs, draw) if count else None
        score = ensemble_score(dynamics, obs, self.termination, self.gamma, draw, self.uncertainty_penalty)
        draws = self.planner.draw(mean, draw, count)
        plan = self.planner.search(score, mean, draws, generator is not None, proposals)
        return plan.action, (plan.mean,)

    def _proposals(self, dynamics: Any, obs: Tensor, draw: torch.Generator) -> Tensor:
        """What the policy would do along the model, each time a little differently.  [N, O] -> [N, P, H, A]"""
        policy, count = self.policy.to(obs.device), self.planner.num_pi_trajs
        here, taken = obs.repeat_interleave(count, 0), []
        for _ in range(self.planner.horizon):
            taken.append(policy.sample(here, draw).clamp(-1.0, 1.0))
            here = dynamics.step(here, taken[-1], draw).next_obs
        return torch.stack(taken, 1).unflatten(0, (len(obs), count))

    def update(self, batch: Any) -> Metrics:
        return {}

    def configure_optimizers(self) -> None:
        return None
