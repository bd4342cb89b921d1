"""Flow Q-learning (Park et al. 2025): a flow clones the data; a policy of one step is held to it and led by critics."""

from __future__ import annotations

import copy
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim import Optimizer

from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.artifacts import Exported
from rl_lightning.functional.flows.flow_matching import euler_flow, straight_path
from rl_lightning.functional.value import inverse_scale, polyak_update, td_target
from rl_lightning.models.diffusion.flow_policies import ActionFlow, OneStepPolicy, gelu_layers
from rl_lightning.models.policies import ObsNormalizer, flat_width
from rl_lightning.nn.heads.critics import make_critics
from rl_lightning.nn.own_torso import check_network_or_sizes
from rl_lightning.nn.torso import Network
from rl_lightning.optim.optimizers import Adam, OptimizerFactory
from rl_lightning.ranges import Fraction, NonNegativeFloat, PositiveFloat, PositiveFraction, PositiveInt
from rl_lightning.types import Carry, EnvSpec, Transitions


class FQL(PolicyModule):
    """Draws actions as the data have them, in one step, and among those ways the ones that critics like.

    Args:
        spec: What the data are like; filled in from them.
        hidden_dims: Hidden sizes of the flow and of the policy; null: four layers of 512.
        critic_hidden_dims: Hidden sizes of each critic; null: as the policy.
        distill_coef: Weight of the squared distance between policy and flow (alpha); in units of value, unless
            `normalize_q_loss`.
        normalize_q_loss: Divide the critics' term by their mean size, so that `distill_coef` is free of the reward's.
        flow_steps: Steps of the flow from noise to an action.
        q_agg: What stands for the critics in the target: their mean or the lowest.
        tau: Fraction of the critics that the target copies take over at each update.
        gamma: Discount.
        normalize_obs: Scale observations by the data's mean and spread, which are part of the model.
        critic_layer_norm: Normalise the critics' hidden layers behind their activation.
        lr: Learning rate of flow and policy.
        critic_lr: Learning rate of the critics; null: as the policy.
        optimizer: The optimizer of all, without its learning rate.
        max_grad_norm: Gradients are scaled down to this norm; null never.
        network: What turns the policy's or the flow's input into features, instead of `hidden_dims`.
        critic_network: What turns an observation with an action into a critic's features, instead of
            `critic_hidden_dims`.
    """

    learns_from = (Transitions,)
    action_kinds = ("continuous",)
    deterministic_eval = False

    def __init__(
        self,
        spec: EnvSpec,
        hidden_dims: list[PositiveInt] | None = None,
        critic_hidden_dims: list[PositiveInt] | None = None,
        distill_coef: NonNegativeFloat = 10.0,
        normalize_q_loss: bool = False,
        flow_steps: PositiveInt = 10,
        q_agg: Literal["mean", "min"] = "mean",
        tau: PositiveFraction = 0.005,
        gamma: Fraction = 0.99,
        normalize_obs: bool = False,
        critic_layer_norm: bool = True,
        lr: NonNegativeFloat = 3e-4,
        critic_lr: NonNegativeFloat | None = None,
        optimizer: OptimizerFactory | None = None,
        max_grad_norm: PositiveFloat | None = None,
        network: Network | None = None,
        critic_network: Network | None = None,
    ) -> None:
        super().__init__(spec)
        check_network_or_sizes(network, hidden_dims, "network", "hidden_dims")
        check_network_or_sizes(critic_network, critic_hidden_dims, "critic_network", "critic_hidden_dims")
        self.distill_coef, self.normalize_q_loss = distill_coef, normalize_q_loss
        self.flow_steps, self.q_agg, self.tau, self.gamma = flow_steps, q_agg, tau, gamma
        self.lr, self.critic_lr, self.optimizer = lr, critic_lr or lr, optimizer or Adam
        self.max_grad_norm = max_grad_norm
        width, hidden_dims = flat_width(spec, "FQL"), hidden_dims or [512] * 4
        self.policy = OneStepPolicy(width, spec.action_dim, hidden_dims, normalize_obs, network)
        self.flow = ActionFlow(width, spec.action_dim, network or gelu_layers(hidden_dims))
        self.q = make_critics(
            2,
            width,
            spec.action_dim,
            critic_hidden_dims or hidden_dims,
            critic_network,
            layer_norm=critic_layer_norm,
            norm_last=True,
            activation="gelu",
        )
        self.q_target = copy.deepcopy(self.q).requires_grad_(False)

    def on_fit_start(self) -> None:
        if isinstance(self.policy.norm, ObsNormalizer):
            self.policy.norm.fit_once(self.data_source)

    def act(
        self, obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        draw = generator if generator is not None else torch.default_generator
        return self.policy.choose(obs, draw, greedy=False), carry

    def update(self, batch: Transitions) -> Metrics:
        batch = batch._replace(obs=self.policy.norm(batch.obs), next_obs=self.policy.norm(batch.next_obs))
        q = self.q(batch.obs, batch.action)  # [E, B]
        loss = (batch.weight * (q - self._target(batch)).square()).mean()
        self.step(self.raw_optimizers()[1], loss, self.max_grad_norm)
        metrics = {"train/critic_loss": loss.detach(), "train/q_values": q.detach().mean()}
        metrics |= self._actor_step(batch)
        polyak_update(list(self.q_target.parameters()), list(self.q.parameters()), self.tau)
        return metrics

    @torch.no_grad()
    def _target(self, batch: Transitions) -> Tensor:
        next_action = self.policy(batch.next_obs, torch.randn_like(batch.action)).clamp(-1.0, 1.0)
        q = self.q_target(batch.next_obs, next_action)
        next_value = q.mean(0) if self.q_agg == "mean" else q.amin(0)
        return td_target(batch.reward, next_value, batch.terminated, batch.discount)

    def _actor_step(self, batch: Transitions) -> Metrics:
        flow_loss = self._flow_loss(batch)
        noise = torch.randn_like(batch.action)
        action = self.policy(batch.obs, noise)
        distill_loss = F.mse_loss(action, self.flow_action(batch.obs, noise))
        q = self.q(batch.obs, action.clamp(-1.0, 1.0)).mean(0)
        q_loss = -q.mean() * (inverse_scale(q) if self.normalize_q_loss else 1.0)
        loss = flow_loss + self.distill_coef * distill_loss + q_loss
        self.step(self.raw_optimizers()[0], loss, self.max_grad_norm)
        return {
            "train/actor_loss": loss.detach(),
            "train/flow_loss": flow_loss.detach(),
            "train/distill_loss": distill_loss.detach(),
        }

    def _flow_loss(self, batch: Transitions) -> Tensor:
        t = torch.rand_like(batch.action[:, :1])
        x, velocity = straight_path(torch.randn_like(batch.action), batch.action, t)
        return F.mse_loss(self.flow(batch.obs, x, t), velocity)

    @torch.no_grad()
    def flow_action(self, scaled: Tensor, noise: Tensor) -> Tensor:
        """Where the flow carries noise.  [B, O], [B, A] -> [B, A]"""
        action = euler_flow(lambda x, t: self.flow(scaled, x, t), noise, self.flow_steps)
        return action.clamp(-1.0, 1.0)

    def exports(self) -> dict[str, Exported]:
        return {"policy": self.policy.exported("policy.")} if self.policy.describable else {}

    def configure_optimizers(self) -> list[Optimizer]:
        actor = [*self.policy.parameters(), *self.flow.parameters()]
        return [self.optimizer(actor, self.lr), self.optimizer(self.q.parameters(), self.critic_lr)]
