"""Dreamer v1, v2 and v3 (Hafner et al. 2020, 2021, 2023): an actor and a critic that learn in a latent world model.

The versions differ in what they are made of, and that is their YAML: configs/dreamer_v1, dreamer_v2 and dreamer_v3.
"""

from __future__ import annotations

import copy
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.optim import Optimizer

from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.algorithms.step import freeze_weights
from rl_lightning.errors import ConfigError
from rl_lightning.factories import make
from rl_lightning.functional.advantage_estimators import AdvantageEstimator
from rl_lightning.functional.imagined_returns import ArrivalReturns, ImaginedReturns, Targets, imagined
from rl_lightning.functional.returns import arrival_lambda_return
from rl_lightning.functional.value import polyak_update
from rl_lightning.models.imagined_windows import ImaginedWindows
from rl_lightning.models.rssm.heads import ScalarHead, ScalarHeadFactory, TwoHotHead
from rl_lightning.models.rssm.latent_actors import (
    ActorHead,
    ActorHeadFactory,
    clip_straight_through,
    env_actions,
)
from rl_lightning.models.rssm.open_loop import imagine_played
from rl_lightning.models.rssm.return_norm import PercentileNorm, ReturnNormFactory
from rl_lightning.models.rssm.rssm import LatentState, Observed
from rl_lightning.models.rssm.world_model import ImaginedTrajectory, LatentWorld, LatentWorldFactory, Window
from rl_lightning.optim.optimizers import Adam, OptimizerFactory
from rl_lightning.ranges import Fraction, NonNegativeFloat, PositiveFloat, PositiveFraction, PositiveInt
from rl_lightning.types import Carry, EnvSpec, Sequences


class ImaginationLosses(NamedTuple):
    """What one imagination teaches."""

    actor_loss: Tensor
    critic_loss: Tensor
    targets: Targets
    metrics: Metrics


class Dreamer(PolicyModule):
    """Learns a world model from replayed windows, and a policy from trajectories imagined in it.

    Args:
        spec: What the env is like; filled in from the data.
        world_model: The world model and its losses.
        actor: The policy on latent features.
        critic: The head that values latent features.
        returns: What imagined rewards and values teach; PPO's estimators (NStepReturn, LambdaReturn, ...) serve, too.
        actor_grad: reinforce (v3; v2 on discrete actions), dynamics (through the world; v1), or both, mixed (v2).
        actor_grad_mix: Fraction of reinforce in the mix.
        horizon: ImaginedTrajectory steps.
        gamma: Discount.
        ent_coef: Of the policy's entropy.
        return_norm: Returns are divided by a scale that follows them (v3); null: they are not.
        tau: Fraction of the critic that the target takes over each time.
        target_every: Updates between those times (v2 copies all every 100, v3 takes 2% every time).
        bootstrap_with_target: Returns are bootstrapped with the target critic (v2), else with the critic itself.
        target_reg_coef: Weight with which the critic is also held to the target's values (v3).
        replay_value_coef: Weight of the critic's loss on replayed rewards, which also moves the world model (v3 now).
        lr: Learning rate of the world model.
        actor_lr: Learning rate of the actor; null: as the world model's.
        critic_lr: Learning rate of the critic; null: as the actor's.
        optimizer: The optimizer of all three, without its learning rate.
        max_grad_norm: Gradients of the world model are scaled down to this norm; null never.
        actor_critic_max_grad_norm: The same for actor and critic.
        exploration_noise: When collecting: width of noise on continuous actions, or chance of a random discrete one
            (v1).
    """

    learns_from = (Sequences,)
    takes_pictures_beside_vectors = True
    updates: Tensor

    def __init__(
        self,
        spec: EnvSpec,
        world_model: LatentWorldFactory | None = None,
        actor: ActorHeadFactory | None = None,
        critic: ScalarHeadFactory | None = None,
        returns: ImaginedReturns | AdvantageEstimator | None = None,
        actor_grad: Literal["reinforce", "dynamics", "both"] = "reinforce",
        actor_grad_mix: Fraction = 0.1,
        horizon: PositiveInt = 15,
        gamma: Fraction = 0.997,
        ent_coef: float = 3e-4,
        return_norm: ReturnNormFactory | None = None,
        tau: PositiveFraction = 0.02,
        target_every: PositiveInt = 1,
        bootstrap_with_target: bool = False,
        target_reg_coef: float = 1.0,
        replay_value_coef: float = 0.0,
        lr: NonNegativeFloat = 4e-5,
        actor_lr: NonNegativeFloat | None = None,
        critic_lr: NonNegativeFloat | None = None,
        optimizer: OptimizerFactory | None = None,
        max_grad_norm: PositiveFloat | None = 1000.0,
        actor_critic_max_grad_norm: PositiveFloat | None = 100.0,
        exploration_noise: NonNegativeFloat = 0.0,
    ) -> None:
        super().__init__(spec)
        self.returns = imagined(returns or ArrivalReturns())
        if replay_value_coef and not isinstance(self.returns, ArrivalReturns):
            raise ConfigError(
                "model.replay_value_coef needs ArrivalReturns: its values exclude what arriving gave"
            )
        self.reinforce = {"reinforce": 1.0, "dynamics": 0.0, "both": actor_grad_mix}[actor_grad]
        self.horizon, self.gamma, self.ent_coef = horizon, gamma, ent_coef
        self.tau, self.target_every, self.bootstrap_with_target = tau, target_every, bootstrap_with_target
        self.target_reg_coef, self.replay_value_coef = target_reg_coef, replay_value_coef
        self.lr, self.actor_lr = lr, actor_lr or lr
        self.critic_lr = critic_lr or self.actor_lr
        self.optimizer, self.max_grad_norm = optimizer or Adam, max_grad_norm
        self.actor_critic_max_grad_norm, self.exploration_noise = (
            actor_critic_max_grad_norm,
            exploration_noise,
        )
        self.world_model = make(world_model or LatentWorld, LatentWorld, "world_model", spec, gamma)
        width = self.world_model.feature_dim
        self.actor = make(actor or ActorHead, ActorHead, "actor", width, spec)
        self.critic = make(critic or TwoHotHead, ScalarHead, "critic", width)
        self.critic_target = copy.deepcopy(self.critic).requires_grad_(False)
        self.scale = return_norm and make(return_norm, PercentileNorm, "return_norm")
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    def initial_carry(self, count: int) -> Carry:
        return self.world_model.rssm.initial(count, self.actor.net.top.weight)  # type: ignore[arg-type]

    def act(
        self, obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        state = self.world_model.rssm.obs_step(self.world_model.encoder(obs), carry, generator)
        action = self.actor.choose(state.feature, generator, mask)
        if generator is not None and self.exploration_noise:
            action = self._add_exploration_noise(action, generator, mask)
        return env_actions(self.spec, action), (state.deter, state.stoch, action)

    def _add_exploration_noise(
        self, action: Tensor, generator: torch.Generator, mask: Tensor | None
    ) -> Tensor:
        if self.spec.action_kind == "continuous":
            noise = torch.randn(action.shape, generator=generator, device=generator.device).to(action)
            return (action + self.exploration_noise * noise).clamp(-1.0, 1.0)
        even = self.actor.distribution.noise(tuple(action.shape), action, generator)
        if mask is not None:
            even = even.masked_fill(~mask, torch.finfo(even.dtype).min)
        wild = self.actor.distribution.sample(torch.zeros_like(action), even)
        some = torch.rand(len(action), 1, generator=generator, device=generator.device).to(action)
        return torch.where(some < self.exploration_noise, wild, action)

    def imagine(self, carry: Carry, horizon: int = 15, actions: Tensor | None = None) -> ImaginedTrajectory:
        """What the agent expects from the state that `act` gave it, following its policy or the given actions."""
        return self.world_model.imagine(carry, lambda s: self.actor.choose(s.feature, None), horizon, actions)

    def imagine_windows(self, data: Any, horizon: int) -> ImaginedWindows | None:
        return imagine_played(self, self.world_model, data, horizon)

    def update(self, batch: Sequences) -> Metrics:
        """World model and controller together. All losses are computed before anything moves."""
        model_optimizer, actor_optimizer, critic_optimizer = self.raw_optimizers()
        window = self.world_model.window(batch)
        observed = self.world_model.observe(window)
        model_loss, metrics = self._model_loss(batch, window, observed)
        lesson = self._imagine(window, observed)
        critic_loss = lesson.critic_loss
        if self.replay_value_coef:
            start = lesson.targets.critic[0].unflatten(0, window.reward.shape)
            with freeze_weights(self.critic):
                by_model = self._replay_value_loss(observed.state.feature, window, start)
            by_critic = self._replay_value_loss(observed.state.feature.detach(), window, start)
            model_loss = model_loss + self.replay_value_coef * by_model
            critic_loss = critic_loss + self.replay_value_coef * by_critic
            metrics["controller/replay_value_loss"] = by_critic
        self.step(actor_optimizer, lesson.actor_loss, self.actor_critic_max_grad_norm)
        norm = self.step(model_optimizer, model_loss, self.max_grad_norm)
        self.step(critic_optimizer, critic_loss, self.actor_critic_max_grad_norm)
        self._update_targets()
        if norm is not None:
            metrics["world_model/grad_norm"] = norm
        return metrics | lesson.metrics | self._states(batch, window, observed)

    def update_world_model(self, batch: Sequences) -> Metrics:
        window = self.world_model.window(batch)
        observed = self.world_model.observe(window)
        loss, metrics = self._model_loss(batch, window, observed)
        self.step(self.raw_optimizers()[0], loss, self.max_grad_norm)
        return metrics | self._states(batch, window, observed)

    def update_controller(self, batch: Sequences) -> Metrics:
        _, actor_optimizer, critic_optimizer = self.raw_optimizers()
        with torch.no_grad():
            window = self.world_model.window(batch)
            observed = self.world_model.observe(window)
        lesson = self._imagine(window, observed)
        self.step(actor_optimizer, lesson.actor_loss, self.actor_critic_max_grad_norm)
        self.step(critic_optimizer, lesson.critic_loss, self.actor_critic_max_grad_norm)
        self._update_targets()
        return lesson.metrics

    def _model_loss(self, batch: Sequences, window: Window, observed: Observed) -> tuple[Tensor, Metrics]:
        losses, divergence = self.world_model.losses(window, observed)
        weight = (
            1.0 if batch.weight is None else batch.weight
        )  # of windows that were drawn too often or too rarely
        # [L, B] each, but for divergences whose free nats are granted to the whole batch
        means = {name: (weight * loss).mean() if loss.dim() else loss for name, loss in losses.items()}
        metrics = {f"world_model/{name}_loss": value.detach() for name, value in means.items()}
        metrics["world_model/kl"] = divergence.detach()
        wrong = sum(loss.detach() for name, loss in losses.items() if name in ("decoder", "reward"))
        return torch.stack(list(means.values())).sum(), metrics | {"priority": wrong.mean(0)}  # type: ignore[union-attr]

    def _states(self, batch: Sequences, window: Window, observed: Observed) -> Metrics:
        return {} if batch.latent is None else {"latent": self.world_model.carry_after_rows(window, observed)}

    def _imagine(self, window: Window, observed: Observed) -> ImaginationLosses:
        """Losses of actor and critic. Of the world and the critic nothing gets a gradient from the actor's."""
        start = LatentState(*(part.detach().flatten(0, 1) for part in observed.state))
        horizon = (None if self.phase is None else self.phase.horizon) or self.horizon
        distribution, width = self.actor.distribution, self.spec.action_dim
        noise = distribution.noise((horizon, len(start.deter), width), start.deter).unbind()
        samples: list[Tensor] = []
        raw: list[Tensor] = []

        def choose(feature: Tensor, t: int) -> Tensor:
            raw.append(self.actor(feature.detach()))
            samples.append(distribution.sample(raw[-1], noise[t]))
            return clip_straight_through(samples[-1])

        with freeze_weights(self.world_model, self.critic), torch.set_grad_enabled(self.reinforce < 1.0):
            feature = self.world_model.imagine_latents(start, choose, horizon).state.feature  # [H+1, N, F]
            reward = self.world_model.reward_head.value(feature)
            live = self.world_model.continuation(feature)
            value = (self.critic_target if self.bootstrap_with_target else self.critic).value(feature)
        begins = 1.0 - window.terminated.flatten()  # nothing comes after the end of an episode
        live = torch.cat((begins.unsqueeze(0), live[1:]))
        targets = self.returns(reward, value, live)
        weight = live.detach().cumprod(0)
        feature = feature.detach()
        count = len(targets.actor_target)
        params = self.actor(feature[:count]) if self.reinforce == 1.0 else torch.stack(raw[:count])
        if self.scale is not None:
            self.scale.update(targets.critic)
        scale = 1.0 if self.scale is None else self.scale.scale()
        gain = targets.actor_target / scale
        advantage = (gain - value[:count] / scale).detach()
        objective = (1.0 - self.reinforce) * gain if self.reinforce < 1.0 else torch.zeros_like(gain)
        if self.reinforce > 0.0:
            action = torch.stack(samples[:count]).detach()
            objective = objective + self.reinforce * distribution.log_prob(params, action) * advantage
        entropy = distribution.entropy(params)
        actor_loss = -(weight[:count] * (objective + self.ent_coef * entropy)).mean()
        critic_loss = self._critic_loss(feature, targets, weight)
        metrics = {
            "controller/actor_loss": actor_loss.detach(),
            "controller/critic_loss": critic_loss.detach(),
            "controller/entropy": entropy.detach().mean(),
            "imagine/return": targets.critic.detach().mean(),
            "imagine/reward": reward.detach().mean(),
            "imagine/value": value.detach().mean(),
            "imagine/continue": live.detach().mean(),
            "controller/advantage_mag": advantage.abs().mean(),
        }
        if self.scale is not None:
            metrics["imagine/return_scale"] = scale  # type: ignore[assignment]
        return ImaginationLosses(
            actor_loss, critic_loss, targets._replace(critic=targets.critic.detach()), metrics
        )

    def _critic_loss(self, feature: Tensor, targets: Targets, weight: Tensor) -> Tensor:
        these = slice(targets.first, targets.first + len(targets.critic))
        loss = self._value_loss(feature[these], targets.critic.detach())
        return (weight[these] * loss).mean()

    def _value_loss(self, feature: Tensor, target: Tensor) -> Tensor:
        raw = self.critic(feature)
        loss = self.critic.loss(raw, target)
        if self.target_reg_coef:
            with torch.no_grad():
                target_value = self.critic_target.value(feature)
            loss = loss + self.target_reg_coef * self.critic.loss(raw, target_value)
        return loss

    def _replay_value_loss(self, feature: Tensor, window: Window, start: Tensor) -> Tensor:
        """The critic on what was really received, bootstrapped with the returns imagined from each state [T, B]."""
        last = torch.maximum(window.terminated, window.truncated)
        live = self.gamma * (1.0 - window.terminated)
        target = arrival_lambda_return(window.reward, start, live, self.returns.lam * (1.0 - last))
        return ((1.0 - last[:-1]) * self._value_loss(feature[:-1], target)).mean()

    def _update_targets(self) -> None:
        self.updates += 1
        if self.target_every == 1 or int(self.updates) % self.target_every == 0:
            polyak_update(list(self.critic_target.parameters()), list(self.critic.parameters()), self.tau)

    def configure_optimizers(self) -> list[Optimizer]:
        return [
            self.optimizer(self.world_model.parameters(), self.lr),
            self.optimizer(self.actor.parameters(), self.actor_lr),
            self.optimizer(self.critic.parameters(), self.critic_lr),
        ]
