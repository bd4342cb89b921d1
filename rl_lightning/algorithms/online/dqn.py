"""Deep Q-learning (Mnih et al. 2015), with double (van Hasselt 2016), dueling (Wang 2016) and n-step targets."""

from __future__ import annotations

import copy
from functools import partial

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rl_lightning import distributed
from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.algorithms.step import set_lr
from rl_lightning.artifacts import Exported
from rl_lightning.functional.action_distributions import epsilon_greedy, mask_logits
from rl_lightning.functional.value import double_q_value, huber, max_q_value, polyak_update, td_target
from rl_lightning.models.network_policies import GreedyQPolicy, describable
from rl_lightning.models.normalizers import RunningObsNorm, standardised
from rl_lightning.models.policies import NormedPolicy
from rl_lightning.nn.heads.critics import DiscreteQNet
from rl_lightning.nn.make_torso import make_feed_forward, network_of_pictures
from rl_lightning.nn.mlp import MLP
from rl_lightning.nn.torso import Network
from rl_lightning.optim.optimizers import Adam, OptimizerFactory
from rl_lightning.optim.schedules import Constant, Linear, Schedule
from rl_lightning.ranges import Fraction, NonNegativeFloat, PositiveFloat, PositiveFraction, PositiveInt
from rl_lightning.types import Carry, EnvSpec, Transitions


class DQN(PolicyModule):
    """Q-learning with a target copy of the network for its targets.

    Args:
        spec: What the env is like; filled in from the data.
        network: What turns an observation into features.
        lr: Learning rate.
        lr_schedule: How the learning rate changes over the run.
        optimizer: The optimizer, without its learning rate.
        gamma: Discount.
        n_step: Rewards summed before bootstrapping.
        double_q: The online network chooses the next action, the target values it.
        dueling: Value and advantages as two streams.
        target_every: Updates between copies to the target network.
        tau: Fraction taken over at each copy; 1 copies outright.
        epsilon: Fraction of random actions at the start.
        epsilon_schedule: How that fraction changes over the run.
        huber_delta: Error from which the loss grows linearly; null squares all errors.
        max_grad_norm: Gradients are scaled down to this norm; null never.
        normalize_obs: Standardise observations by running statistics, which are part of the model.
    """

    learns_from = (Transitions,)
    action_kinds = ("discrete",)
    takes_pictures_beside_vectors = True
    since_copy: Tensor

    def __init__(
        self,
        spec: EnvSpec,
        network: Network | None = None,
        lr: NonNegativeFloat = 1e-4,
        lr_schedule: Schedule | None = None,
        optimizer: OptimizerFactory | None = None,
        gamma: Fraction = 0.99,
        n_step: PositiveInt = 1,
        double_q: bool = True,
        dueling: bool = False,
        target_every: PositiveInt = 1000,
        tau: PositiveFraction = 1.0,
        epsilon: Fraction = 1.0,
        epsilon_schedule: Schedule | None = None,
        huber_delta: PositiveFloat | None = 1.0,
        max_grad_norm: PositiveFloat | None = 10.0,
        normalize_obs: bool = False,
    ) -> None:
        super().__init__(spec)
        self.lr, self.lr_schedule, self.optimizer = lr, lr_schedule or Constant(), optimizer or Adam
        self.gamma, self.n_step, self.use_double = gamma, n_step, double_q
        self.target_every, self.tau = target_every, tau
        self.epsilon, self.epsilon_schedule = epsilon, epsilon_schedule or Linear(end=0.05, fraction=0.2)
        self.huber_delta, self.max_grad_norm = huber_delta, max_grad_norm
        self.network = (
            network or network_of_pictures(spec) or partial(MLP, hidden_dims=[256, 256], activation="relu")
        )
        self.norm = RunningObsNorm(spec.obs_layout) if normalize_obs else nn.Identity()
        self.q = DiscreteQNet(make_feed_forward(self.network, spec.obs_layout), spec.action_sizes[0], dueling)
        self.q_target = copy.deepcopy(self.q).requires_grad_(False)
        self.register_buffer("since_copy", torch.zeros((), dtype=torch.int64))

    def act(
        self, obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        q = self.q(self.norm(obs))
        if generator is None:
            return mask_logits(q, mask).argmax(-1), carry
        return epsilon_greedy(
            q, self.epsilon_schedule.value(self.epsilon, self.progress), generator, mask
        ), carry

    def update(self, batch: Transitions) -> Metrics:
        batch = standardised(self.norm, batch, distributed.gather)
        with torch.no_grad():
            q_next = self.q_target(batch.next_obs)
            if self.use_double:
                next_value = double_q_value(self.q(batch.next_obs), q_next, batch.next_mask)
            else:
                next_value = max_q_value(q_next, batch.next_mask)
            target = td_target(batch.reward, next_value, batch.terminated, batch.discount)
        value = self.q(batch.obs).gather(-1, batch.action[:, None])[:, 0]
        error = value - target
        loss = (batch.weight * self._penalty(error)).mean()
        optimizer = self.raw_optimizers()[0]  # a subclass may have more
        set_lr(optimizer, self.lr_schedule, self.progress)
        self.step(optimizer, loss, self.max_grad_norm)
        self._copy()
        return {"train/loss": loss, "train/q_values": value.mean(), "priority": error.detach().abs()}

    def _penalty(self, error: Tensor) -> Tensor:
        return error.square() if self.huber_delta is None else huber(error, self.huber_delta)

    def _copy(self) -> None:
        self.since_copy += 1
        if self.since_copy.item() >= self.target_every:
            polyak_update(list(self.q_target.parameters()), list(self.q.parameters()), self.tau)
            self.since_copy.zero_()

    def exports(self) -> dict[str, Exported]:
        if not describable(self.network, self.q.torso, self.spec):
            return {}
        policy = GreedyQPolicy.export_spec(self.spec, self.network, self.q.dueling, "q.")
        return {"policy": NormedPolicy.around(policy) if isinstance(self.norm, RunningObsNorm) else policy}

    def configure_optimizers(self) -> Optimizer:
        return self.optimizer(self.q.parameters(), self.lr)
