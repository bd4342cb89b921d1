"""Quantile regression DQN (Dabney et al. 2018): the distribution of returns instead of its mean."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from rl_lightning.algorithms.deep_q_learning import DeepQLearning
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.artifacts import Exported
from rl_lightning.functional.action_distributions import mask_logits
from rl_lightning.functional.value import quantile_huber_loss, td_target
from rl_lightning.models.network_policies import GreedyQuantilePolicy, describable
from rl_lightning.models.normalizers import RunningObsNorm
from rl_lightning.models.policies import NormedPolicy
from rl_lightning.nn.heads.critics import QuantileQNet
from rl_lightning.nn.torso import Network
from rl_lightning.optim.optimizers import OptimizerFactory
from rl_lightning.optim.schedules import Schedule
from rl_lightning.ranges import Fraction, NonNegativeFloat, PositiveFloat, PositiveFraction, PositiveInt
from rl_lightning.types import EnvSpec, Transitions


class QRDQN(DeepQLearning):
    """Q-learning of the quantiles of each action's return; the best action is that of the highest mean.

    Args:
        spec: What the env is like; filled in from the data.
        network: What turns an observation into features.
        num_quantiles: Quantiles of each action's return.
        kappa: Error, in units of reward, from which the loss grows linearly; within it expectiles are learned.
        lr: Learning rate.
        lr_schedule: How the learning rate changes over the run.
        optimizer: The optimizer, without its learning rate.
        gamma: Discount.
        n_step: Rewards summed before bootstrapping.
        double_q: The online network chooses the next action, the target values it; the paper: the target does both.
        target_every: Updates between copies to the target network.
        tau: Fraction taken over at each copy; 1 copies outright.
        epsilon: Fraction of random actions at the start.
        epsilon_schedule: How that fraction changes over the run.
        max_grad_norm: Gradients are scaled down to this norm; null never.
        normalize_obs: Standardise observations by running statistics, which are part of the model.
    """

    q: QuantileQNet
    q_target: QuantileQNet

    def __init__(
        self,
        spec: EnvSpec,
        network: Network | None = None,
        num_quantiles: PositiveInt = 200,
        kappa: PositiveFloat = 1.0,
        lr: NonNegativeFloat = 5e-5,
        lr_schedule: Schedule | None = None,
        optimizer: OptimizerFactory | None = None,
        gamma: Fraction = 0.99,
        n_step: PositiveInt = 1,
        double_q: bool = False,
        target_every: PositiveInt = 1000,
        tau: PositiveFraction = 1.0,
        epsilon: Fraction = 1.0,
        epsilon_schedule: Schedule | None = None,
        max_grad_norm: PositiveFloat | None = None,
        normalize_obs: bool = False,
    ) -> None:
        super().__init__(
            spec,
            network,
            lr,
            lr_schedule,
            optimizer,
            gamma,
            n_step,
            double_q,
            target_every,
            tau,
            epsilon,
            epsilon_schedule,
            max_grad_norm,
            normalize_obs,
            make_q=partial(QuantileQNet, num_quantiles=num_quantiles),
        )
        self.kappa = kappa

    def update(self, batch: Transitions) -> Metrics:
        batch = self._scaled(batch)
        target = self._target_quantiles(batch)
        quantiles = _of_action(self.q.quantiles(batch.obs), batch.action)
        error = quantile_huber_loss(quantiles, target, self.kappa)
        loss = (batch.weight * error).mean()
        self._learn(loss)
        return {"train/loss": loss, "train/q_values": quantiles.mean(), "priority": error.detach()}

    @torch.no_grad()
    def _target_quantiles(self, batch: Transitions) -> Tensor:
        """Each of the best next action's quantiles, moved by the reward.  -> [B, N]"""
        following = self.q_target.quantiles(batch.next_obs)
        judge = self.q(batch.next_obs) if self.use_double else following.mean(-1)
        best = _of_action(following, mask_logits(judge, batch.next_mask).argmax(-1))
        columns = (batch.reward, batch.terminated, batch.discount)
        reward, terminated, discount = (column[:, None].expand_as(best) for column in columns)
        return td_target(reward, best, terminated, discount)

    def exports(self) -> dict[str, Exported]:
        if not describable(self.network, self.q.torso, self.spec):
            return {}
        policy = GreedyQuantilePolicy.export_spec(self.spec, self.network, self.q.num_quantiles, "q.")
        return {"policy": NormedPolicy.around(policy) if isinstance(self.norm, RunningObsNorm) else policy}


def _of_action(quantiles: Tensor, action: Tensor) -> Tensor:
    """Those of one action in each row.  [B, A, N], [B] -> [B, N]"""
    return quantiles[torch.arange(len(action), device=action.device), action]
