"""Conservative Q-learning for discrete actions (Kumar et al. 2020): DQN whose values stay low off the data."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from rl_lightning.algorithms.deep_q_learning import DeepQLearning
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.artifacts import Exported
from rl_lightning.functional.action_distributions import mask_logits
from rl_lightning.functional.critics.conservative import discrete_gap
from rl_lightning.functional.value import huber
from rl_lightning.models.network_policies import GreedyQPolicy, describable
from rl_lightning.models.normalizers import RunningObsNorm
from rl_lightning.models.policies import NormedPolicy
from rl_lightning.nn.heads.critics import DiscreteQNet
from rl_lightning.nn.torso import Network
from rl_lightning.optim.optimizers import OptimizerFactory
from rl_lightning.optim.schedules import Constant, Schedule
from rl_lightning.ranges import Fraction, NonNegativeFloat, PositiveFloat, PositiveFraction, PositiveInt
from rl_lightning.types import Carry, EnvSpec, Transitions


class DiscreteCQL(DeepQLearning):
    """Double Q-learning on recorded rows, with all actions pushed down and the data's pushed up.

    Args:
        spec: What the data are like; filled in from them.
        network: What turns an observation into features.
        cql_alpha: Weight of the conservative term beside the error's loss; 0 is DQN.
        dueling: Value and advantages as two streams.
        lr: Learning rate.
        lr_schedule: How the learning rate changes over the run.
        optimizer: The optimizer, without its learning rate.
        gamma: Discount.
        double_q: The online network chooses the next action, the target values it.
        target_every: Updates between copies to the target network.
        tau: Fraction taken over at each copy; 1 copies outright.
        huber_delta: Error from which the loss grows linearly; null: half the square of all errors.
        max_grad_norm: Gradients are scaled down to this norm; null never.
        normalize_obs: Standardise observations by running statistics, which are part of the model.
    """

    def __init__(
        self,
        spec: EnvSpec,
        network: Network | None = None,
        cql_alpha: NonNegativeFloat = 1.0,
        dueling: bool = False,
        lr: NonNegativeFloat = 6.25e-5,
        lr_schedule: Schedule | None = None,
        optimizer: OptimizerFactory | None = None,
        gamma: Fraction = 0.99,
        double_q: bool = True,
        target_every: PositiveInt = 2000,
        tau: PositiveFraction = 1.0,
        huber_delta: PositiveFloat | None = 1.0,
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
            1,
            double_q,
            target_every,
            tau,
            0.0,
            Constant(),
            max_grad_norm,
            normalize_obs,
            make_q=partial(DiscreteQNet, dueling=dueling),
        )
        self.cql_alpha, self.huber_delta = cql_alpha, huber_delta

    def act(
        self, obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        return mask_logits(self.q(self.norm(obs)), mask).argmax(-1), carry

    def update(self, batch: Transitions) -> Metrics:
        batch = self._scaled(batch)
        target = self._target(batch)
        q = self.q(batch.obs)  # [B, A]
        value = q.gather(-1, batch.action[:, None])[:, 0]
        error = value - target
        td = 0.5 * error.square() if self.huber_delta is None else huber(error, self.huber_delta)
        gap = discrete_gap(q, batch.action, batch.mask)
        loss = (batch.weight * (td + self.cql_alpha * gap)).mean()
        self._learn(loss)
        return {"train/loss": loss, "train/conservative_gap": gap.mean(), "train/q_values": value.mean()}

    def exports(self) -> dict[str, Exported]:
        if not describable(self.network, self.q.torso, self.spec):
            return {}
        policy = GreedyQPolicy.export_spec(self.spec, self.network, self.q.dueling, "q.")
        return {"policy": NormedPolicy.around(policy) if isinstance(self.norm, RunningObsNorm) else policy}
