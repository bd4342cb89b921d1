"""Acting by planning: at every step a planner searches through a model, starting from what it found a step ago."""

from __future__ import annotations

import torch
from torch import Tensor

from rl_lightning.envs.termination import Termination
from rl_lightning.models.dynamics.ensemble_dynamics import EnsembleDynamics
from rl_lightning.models.latent_mpc.latent_world import LatentModel
from rl_lightning.planning.planners import FIXED_SEED, Plan, Planner, Score, shifted
from rl_lightning.seeding import derive


class SearchNoise(torch.Generator):
    """Random numbers for a search alone: plans are drawn anew at every step, and nothing is added to their actions."""


def search_noise(seed: int) -> SearchNoise:
    noise = SearchNoise()
    noise.manual_seed(derive(seed, "play"))
    return noise


def generator_or_fixed(generator: torch.Generator | None) -> torch.Generator:
    """Where a plan's random numbers come from; who does not explore has the same ones at every step."""
    return generator if generator is not None else torch.Generator().manual_seed(FIXED_SEED)


def explores(generator: torch.Generator | None) -> bool:
    return generator is not None and not isinstance(generator, SearchNoise)


@torch.no_grad()
def plan_latent(
    planner: Planner,
    model: LatentModel,
    obs: Tensor,
    last: Tensor,
    gamma: float,
    generator: torch.Generator | None,
    horizon: int | None = None,
    min_std: float | None = None,
) -> Plan:
    """A plan in latent space for N envs. `last` [N, H, A] is the mean of the step before, zeros at an episode's start.

    A generator explores, `SearchNoise` only searches anew, and None searches with the same numbers at every step. A
    `horizon` below the planner's own looks less far; the mean comes back at full length.
    """
    draw = generator_or_fixed(generator)
    latent = model.encode(obs)
    near = planner.horizon if horizon is None else horizon
    mean = shifted(last)[:, :near]
    proposals = None
    if planner.num_pi_trajs:
        proposals = model.policy_trajectories(latent, planner.num_pi_trajs, near, draw)
    draws = planner.draw(mean, draw, planner.num_pi_trajs)
    plan = planner.search(
        lambda actions: model.returns(latent, actions, gamma, draw),
        mean, draws, explores(generator), proposals, None, min_std,
    )  # fmt: skip
    far = last.shape[1] - near
    return plan._replace(mean=torch.cat([plan.mean, last.new_zeros(len(last), far, last.shape[2])], 1))


@torch.no_grad()
def ensemble_score(
    dynamics: EnsembleDynamics,
    obs: Tensor,
    termination: Termination,
    gamma: float,
    generator: torch.Generator,
    doubt: float = 0.0,
) -> Score:
    """Scores sequences by rewards imagined in an ensemble; each row goes through elites drawn at random.

    `doubt` is taken off per unit of the elites' predicted spread, which keeps plans near what the model knows.
    """

    def score(actions: Tensor) -> Tensor:
        envs, count, horizon, _ = actions.shape
        here = obs.unsqueeze(1).expand(envs, count, -1).flatten(0, 1)
        total, weight = here.new_zeros(len(here)), 1.0
        alive = torch.ones_like(total)
        for t in range(horizon):
            step = dynamics.step(here, actions[:, :, t].flatten(0, 1), generator, doubt > 0.0)
            reward = step.reward if step.spread is None else step.reward - doubt * step.spread
            total = total + weight * alive * reward
            alive = alive * (~termination(step.next_obs)).to(alive)
            weight *= gamma
            here = step.next_obs
        return total.view(envs, count)

    return score
