"""Deep Q-learning (Mnih et al. 2015), with double (van Hasselt 2016), dueling (Wang 2016) and n-step targets."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from rl_lightning.algorithms.deep_q_learning import DeepQLearning
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.artifacts import Exported
from rl_lightning.functional.value import huber
from rl_lightning.models.network_policies import GreedyQPolicy, describable
from rl_lightning.models.normalizers import RunningObsNorm
from rl_lightning.models.policies import NormedPolicy
from rl_lightning.nn.heads.critics import DiscreteQNet
from rl_lightning.nn.torso import Network
from rl_lightning.optim.optimizers import OptimizerFactory
from rl_lightning.optim.schedules import Schedule
from rl_lightning.ranges import Fraction, NonNegativeFloat, PositiveFloat, PositiveFraction, PositiveInt
from rl_lightning.types import EnvSpec, Transitions


class DQN(DeepQLearning):
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
            make_q=partial(DiscreteQNet, dueling=dueling),
        )
        self.huber_delta = huber_delta

    def update(self, batch: Transitions) -> Metrics:
        batch = self._scaled(batch)
        target = self._target(batch)
        value = self.q(batch.obs).gather(-1, batch.action[:, None])[:, 0]
        error = value - target
        loss = (batch.weight * self._penalty(error)).mean()
        self._learn(loss)
        return {"train/loss": loss, "train/q_values": value.mean(), "priority": error.detach().abs()}

    def _penalty(self, error: Tensor) -> Tensor:
        return error.square() if self.huber_delta is None else huber(error, self.huber_delta)

    def exports(self) -> dict[str, Exported]:
        if not describable(self.network, self.q.torso, self.spec):
            return {}
        policy = GreedyQPolicy.export_spec(self.spec, self.network, self.q.dueling, "q.")
        return {"policy": NormedPolicy.around(policy) if isinstance(self.norm, RunningObsNorm) else policy}
