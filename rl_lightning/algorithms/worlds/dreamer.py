"""Dreamer v1, v2 and v3 (Hafner et al. 2020, 2021, 2023): an actor and a critic that learn in a latent world model.

The versions differ in what they are made of, and that is their YAML: configs/dreamer_v1, dreamer_v2 and dreamer_v3.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.errors import ConfigError
from rl_lightning.functional.imagined_returns import ArrivalReturns, ImaginedReturns, Targets
from rl_lightning.functional.returns import arrival_lambda_return
from rl_lightning.functional.value import polyak_
from rl_lightning.models.rssm.heads import ScalarRecipe, TwoHotHead
from rl_lightning.models.rssm.latent_actors import ActorHead, env_actions, within
from rl_lightning.models.rssm.return_norm import PercentileScale
from rl_lightning.models.rssm.rssm import LatentState, Observed
from rl_lightning.models.rssm.world_model import ImaginedFuture, LatentWorld, Window
from rl_lightning.optim.optimizers import Adam, OptimizerRecipe
from rl_lightning.types import Carry, EnvSpec, Sequences


class Lesson(NamedTuple):
    """What one imagination teaches."""

    actor_loss: Tensor
    critic_loss: Tensor
    targets: Targets
    metrics: Metrics


class Dreamer(PolicyModule):
    """Learns a world model from replayed windows, and a policy from trajectories imagined in it.

    Args:
        spec: What the env is like; filled in from the data.
        world: The world model and its losses.
        actor: The policy on latent features.
        critic: The head that values latent features.
        returns: What imagined rewards and values teach.
        actor_gradient: reinforce (v3; v2 on discrete actions), dynamics (through the world; v1), or mix of both (v2).
        mix: Share of reinforce in the mix.
        horizon: ImaginedFuture steps.
        gamma: Discount.
        entropy_weight: Of the policy's entropy.
        return_scale: Returns are divided by a scale that follows them (v3); null: they are not.
        slow_rate: Share of the critic that the slow one takes over each time.
        slow_every: Updates between those times (v2 copies all every 100, v3 takes 2 % every time).
        slow_bootstrap: Returns are bootstrapped with the slow critic (v2), else with the critic itself.
        slow_weight: Weight with which the critic is also held to the slow one's values (v3).
        replay_value_weight: Weight of the critic's loss on replayed rewards, which also moves the world model (v3 now).
        lr: Learning rate of the world model.
        actor_lr: Learning rate of the actor; null: as the world model's.
        critic_lr: Learning rate of the critic; null: as the actor's.
        optimizer: The optimizer of all three, without its rate.
        max_grad_norm: Gradients of the world model are scaled down to this norm; null never.
        controller_grad_norm: The same for actor and critic.
        explore_noise: When collecting: width of noise on continuous actions, or chance of a random discrete one (v1).
    """

    learns_from = (Sequences,)
    updates: Tensor

    def __init__(
        self,
        spec: EnvSpec,
        world: LatentWorld | None = None,
        actor: ActorHead | None = None,
        critic: ScalarRecipe | None = None,
        returns: ImaginedReturns | None = None,
        actor_gradient: Literal["reinforce", "dynamics", "mix"] = "reinforce",
        mix: float = 0.1,
        horizon: int = 15,
        gamma: float = 0.997,
        entropy_weight: float = 3e-4,
        return_scale: PercentileScale | None = None,
        slow_rate: float = 0.02,
        slow_every: int = 1,
        slow_bootstrap: bool = False,
        slow_weight: float = 1.0,
        replay_value_weight: float = 0.0,
        lr: float = 4e-5,
        actor_lr: float | None = None,
        critic_lr: float | None = None,
        optimizer: OptimizerRecipe | None = None,
        max_grad_norm: float | None = 1000.0,
        controller_grad_norm: float | None = 100.0,
        explore_noise: float = 0.0,
    ) -> None:
        super().__init__(spec)
        if horizon < 1 or slow_every < 1 or not 0.0 <= mix <= 1.0:
            raise ConfigError(
                f"model.horizon is {horizon} and slow_every {slow_every} (at least 1), mix {mix} (between 0 and 1)"
            )
        self.returns = returns or ArrivalReturns()
        if replay_value_weight and not isinstance(self.returns, ArrivalReturns):
            raise ConfigError(
                "model.replay_value_weight needs ArrivalReturns: its values exclude what arriving gave"
            )
        self.reinforce = {"reinforce": 1.0, "dynamics": 0.0, "mix": mix}[actor_gradient]
        self.horizon, self.gamma, self.entropy_weight = horizon, gamma, entropy_weight
        self.slow_rate, self.slow_every, self.slow_bootstrap = slow_rate, slow_every, slow_bootstrap
        self.slow_weight, self.replay_value_weight = slow_weight, replay_value_weight
        self.lr, self.actor_lr = lr, actor_lr or lr
        self.critic_lr = critic_lr or self.actor_lr
        self.optimizer, self.max_grad_norm = optimizer or Adam(), max_grad_norm
        self.controller_grad_norm, self.explore_noise = controller_grad_norm, explore_noise
        self.world = (world or LatentWorld()).build(spec, gamma)
        self.actor = (actor or ActorHead()).build(self.world.feature_dim, spec)
        self.critic = (critic or TwoHotHead()).build(self.world.feature_dim)
        self.critic_slow = copy.deepcopy(self.critic).requires_grad_(False)
        self.scale = None if return_scale is None else return_scale.build()
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    def initial_carry(self, count: int) -> Carry:
        return self.world.rssm.initial(count, self.actor.net.top.weight)  # type: ignore[arg-type]

    def act(
        self, obs: Tensor, carry: Carry, explore: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        state = self.world.rssm.arrive(self.world.encoder(obs), carry, explore)
        action = self.actor.choose(state.feature, explore, mask)
        if explore is not None and self.explore_noise:
            action = self._disturb(action, explore, mask)
        return env_actions(self.spec, action), (state.deter, state.stoch, action)

    def _disturb(self, action: Tensor, explore: torch.Generator, mask: Tensor | None) -> Tensor:
        if self.spec.action_kind == "continuous":
            noise = torch.randn(action.shape, generator=explore, device=explore.device).to(action)
            return (action + self.explore_noise * noise).clamp(-1.0, 1.0)
        even = self.actor.distribution.noise(tuple(action.shape), action, explore)
        if mask is not None:
            even = even.masked_fill(~mask, torch.finfo(even.dtype).min)
        wild = self.actor.distribution.sample(torch.zeros_like(action), even)
        some = torch.rand(len(action), 1, generator=explore, device=explore.device).to(action)
        return torch.where(some < self.explore_noise, wild, action)

    def imagine(self, carry: Carry, horizon: int = 15, actions: Tensor | None = None) -> ImaginedFuture:
        """What the agent expects from the state that `act` gave it, following its policy or the given actions."""
        return self.world.imagine(carry, lambda s: self.actor.choose(s.feature, None), horizon, actions)

    def update(self, batch: Sequences) -> Metrics:
        """World model and controller together. All losses are computed before anything moves."""
        model_optimizer, actor_optimizer, critic_optimizer = self.raw_optimizers()
        window = self.world.window(batch)
        observed = self.world.observe(window)
        model_loss, metrics = self._model_loss(batch, window, observed)
        lesson = self._imagine(window, observed)
        critic_loss = lesson.critic_loss
        if self.replay_value_weight:
            start = lesson.targets.critic[0].unflatten(0, window.reward.shape)
            with frozen(self.critic):
                by_model = self._replay_value_loss(observed.state.feature, window, start)
            by_critic = self._replay_value_loss(observed.state.feature.detach(), window, start)
            model_loss = model_loss + self.replay_value_weight * by_model
            critic_loss = critic_loss + self.replay_value_weight * by_critic
            metrics["controller/replay_value_loss"] = by_critic
        self.step(actor_optimizer, lesson.actor_loss, self.controller_grad_norm)
        norm = self.step(model_optimizer, model_loss, self.max_grad_norm)
        self.step(critic_optimizer, critic_loss, self.controller_grad_norm)
        self._follow()
        if norm is not None:
            metrics["world_model/grad_norm"] = norm
        return metrics | lesson.metrics | self._states(batch, window, observed)

    def update_world_model(self, batch: Sequences) -> Metrics:
        window = self.world.window(batch)
        observed = self.world.observe(window)
        loss, metrics = self._model_loss(batch, window, observed)
        self.step(self.raw_optimizers()[0], loss, self.max_grad_norm)
        return metrics | self._states(batch, window, observed)

    def update_controller(self, batch: Sequences) -> Metrics:
        _, actor_optimizer, critic_optimizer = self.raw_optimizers()
        with torch.no_grad():
            window = self.world.window(batch)
            observed = self.world.observe(window)
        lesson = self._imagine(window, observed)
        self.step(actor_optimizer, lesson.actor_loss, self.controller_grad_norm)
        self.step(critic_optimizer, lesson.critic_loss, self.controller_grad_norm)
        self._follow()
        return lesson.metrics

    def _model_loss(self, batch: Sequences, window: Window, observed: Observed) -> tuple[Tensor, Metrics]:
        losses, divergence = self.world.losses(window, observed)
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
        return {} if batch.latent is None else {"latent": self.world.latents(window, observed)}

    def _imagine(self, window: Window, observed: Observed) -> Lesson:
        """Losses of actor and critic. Of the world and the critic nothing gets a gradient from the actor's."""
        start = LatentState(*(part.detach().flatten(0, 1) for part in observed.state))
        horizon = (
            self.phase.phase.horizon if self.phase is not None and self.phase.phase.horizon else self.horizon
        )
        distribution, width = self.actor.distribution, self.spec.action_dim
        noise = distribution.noise((horizon, len(start.deter), width), start.deter).unbind()
        drawn: list[Tensor] = []
        raw: list[Tensor] = []

        def choose(feature: Tensor, t: int) -> Tensor:
            raw.append(self.actor(feature.detach()))
            drawn.append(distribution.sample(raw[-1], noise[t]))
            return within(drawn[-1])

        with frozen(self.world, self.critic), torch.set_grad_enabled(self.reinforce < 1.0):
            feature = self.world.dream(start, choose, horizon).state.feature  # [H+1, N, F]
            reward = self.world.reward.value(feature)
            live = self.world.live(feature)
            value = (self.critic_slow if self.slow_bootstrap else self.critic).value(feature)
        begins = 1.0 - window.terminated.flatten()  # nothing comes after the end of an episode
        live = torch.cat((begins.unsqueeze(0), live[1:]))
        targets = self.returns(reward, value, live)
        weight = live.detach().cumprod(0)
        feature = feature.detach()
        count = len(targets.gain)
        params = self.actor(feature[:count]) if self.reinforce == 1.0 else torch.stack(raw[:count])
        if self.scale is not None:
            self.scale.follow(targets.critic)
        scale = 1.0 if self.scale is None else self.scale.scale()
        gain = targets.gain / scale
        advantage = (gain - value[:count] / scale).detach()
        objective = (1.0 - self.reinforce) * gain if self.reinforce < 1.0 else torch.zeros_like(gain)
        if self.reinforce > 0.0:
            action = torch.stack(drawn[:count]).detach()
            objective = objective + self.reinforce * distribution.log_prob(params, action) * advantage
        entropy = distribution.entropy(params)
        actor_loss = -(weight[:count] * (objective + self.entropy_weight * entropy)).mean()
        critic_loss = self._critic_loss(feature, targets, weight)
        metrics = {
            "controller/actor_loss": actor_loss.detach(),
            "controller/critic_loss": critic_loss.detach(),
            "controller/entropy": entropy.detach().mean(),
            "imagine/return": targets.critic.detach().mean(),
            "imagine/reward": reward.detach().mean(),
            "imagine/value": value.detach().mean(),
            "imagine/live": live.detach().mean(),
            "controller/advantage": advantage.abs().mean(),
        }
        if self.scale is not None:
            metrics["imagine/return_scale"] = scale  # type: ignore[assignment]
        return Lesson(actor_loss, critic_loss, targets._replace(critic=targets.critic.detach()), metrics)

    def _critic_loss(self, feature: Tensor, targets: Targets, weight: Tensor) -> Tensor:
        these = slice(targets.first, targets.first + len(targets.critic))
        loss = self._value_loss(feature[these], targets.critic.detach())
        return (weight[these] * loss).mean()

    def _value_loss(self, feature: Tensor, target: Tensor) -> Tensor:
        raw = self.critic(feature)
        loss = self.critic.loss(raw, target)
        if self.slow_weight:
            with torch.no_grad():
                slow = self.critic_slow.value(feature)
            loss = loss + self.slow_weight * self.critic.loss(raw, slow)
        return loss

    def _replay_value_loss(self, feature: Tensor, window: Window, start: Tensor) -> Tensor:
        """The critic on what was really received, bootstrapped with the returns imagined from each state [T, B]."""
        last = torch.maximum(window.terminated, window.truncated)
        live = self.gamma * (1.0 - window.terminated)
        target = arrival_lambda_return(window.reward, start, live, self.returns.lam * (1.0 - last))
        return ((1.0 - last[:-1]) * self._value_loss(feature[:-1], target)).mean()

    def _follow(self) -> None:
        self.updates += 1
        if self.slow_every == 1 or int(self.updates) % self.slow_every == 0:
            polyak_(list(self.critic_slow.parameters()), list(self.critic.parameters()), self.slow_rate)

    def configure_optimizers(self) -> list[Optimizer]:
        build = self.optimizer.build
        return [
            build(self.world.parameters(), self.lr),
            build(self.actor.parameters(), self.actor_lr),
            build(self.critic.parameters(), self.critic_lr),
        ]


@contextmanager
def frozen(*modules: nn.Module) -> Iterator[None]:
    """Inside, what is computed leads no gradient into these modules' weights, but through them."""
    moving = [p for module in modules for p in module.parameters() if p.requires_grad]
    for p in moving:
        p.requires_grad_(False)
    try:
        yield
    finally:
        for p in moving:
            p.requires_grad_(True)
