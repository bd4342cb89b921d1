"""What the Q-learning rules of discrete actions share: one network of values, its target copy, and chance in acting."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rl_lightning import distributed
from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.algorithms.step import set_lr
from rl_lightning.functional.action_distributions import epsilon_greedy, mask_logits
from rl_lightning.functional.value import double_q_value, max_q_value, polyak_update, td_target
from rl_lightning.models.normalizers import RunningObsNorm, standardised
from rl_lightning.nn.heads.critics import DiscreteQNet
from rl_lightning.nn.make_torso import make_feed_forward, network_of_pictures
from rl_lightning.nn.mlp import MLP
from rl_lightning.nn.torso import Network, Torso
from rl_lightning.optim.optimizers import Adam, OptimizerFactory
from rl_lightning.optim.schedules import Constant, Linear, Schedule
from rl_lightning.ranges import Fraction, NonNegativeFloat, PositiveFloat, PositiveFraction, PositiveInt
from rl_lightning.types import Carry, EnvSpec, Transitions

ValuesOfActions = Callable[[Torso, int], DiscreteQNet]  # makes them from a torso and the number of actions


class DeepQLearning(PolicyModule):
    """Base of such rules; each says in `update` what the network learns.

    Its arguments are those that the rules hand on, see them for what each means;
    `make_q` is what stands on the torso.
    """

    learns_from = (Transitions,)
    action_kinds = ("discrete",)
    takes_pictures_beside_vectors = True
    since_copy: Tensor

    def __init__(
        self,
        spec: EnvSpec,
        network: Network | None,
        lr: NonNegativeFloat,
        lr_schedule: Schedule | None,
        optimizer: OptimizerFactory | None,
        gamma: Fraction,
        n_step: PositiveInt,
        double_q: bool,
        target_every: PositiveInt,
        tau: PositiveFraction,
        epsilon: Fraction,
        epsilon_schedule: Schedule | None,
        max_grad_norm: PositiveFloat | None,
        normalize_obs: bool,
        make_q: ValuesOfActions,
    ) -> None:
        super().__init__(spec)
        self.lr, self.lr_schedule, self.optimizer = lr, lr_schedule or Constant(), optimizer or Adam
        self.gamma, self.n_step, self.use_double = gamma, n_step, double_q
        self.target_every, self.tau = target_every, tau
        self.epsilon, self.epsilon_schedule = epsilon, epsilon_schedule or Linear(end=0.05, fraction=0.2)
        self.max_grad_norm = max_grad_norm
        self.network = (
            network or network_of_pictures(spec) or partial(MLP, hidden_dims=[256, 256], activation="relu")
        )
        self.norm = RunningObsNorm(spec.obs_layout) if normalize_obs else nn.Identity()
        self.q = make_q(make_feed_forward(self.network, spec.obs_layout), spec.action_sizes[0])
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

    def _scaled(self, batch: Transitions) -> Transitions:
        """The rows as the network sees them; running statistics move on with them."""
        return standardised(self.norm, batch, distributed.gather)

    @torch.no_grad()
    def _target(self, batch: Transitions) -> Tensor:
        """The reward, and the target network's value of the best next action.  -> [B]"""
        q_next = self.q_target(batch.next_obs)
        if self.use_double:
            next_value = double_q_value(self.q(batch.next_obs), q_next, batch.next_mask)
        else:
            next_value = max_q_value(q_next, batch.next_mask)
        return td_target(batch.reward, next_value, batch.terminated, batch.discount)

    def _learn(self, loss: Tensor) -> None:
        """One step of the network; the target copy follows when it is due."""
        optimizer = self.raw_optimizers()[0]  # a subclass may have more
        set_lr(optimizer, self.lr_schedule, self.progress)
        self.step(optimizer, loss, self.max_grad_norm)
        self._copy()

    def _copy(self) -> None:
        self.since_copy += 1
        if self.since_copy.item() >= self.target_every:
            polyak_update(list(self.q_target.parameters()), list(self.q.parameters()), self.tau)
            self.since_copy.zero_()

    def configure_optimizers(self) -> Optimizer:
        return self.optimizer(self.q.parameters(), self.lr)
