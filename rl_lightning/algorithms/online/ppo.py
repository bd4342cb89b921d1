"""Proximal policy optimization (Schulman et al. 2017) for discrete, multi-discrete and continuous actions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rl_lightning import distributed, stop_request
from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.algorithms.step import set_lr
from rl_lightning.artifacts import Exported
from rl_lightning.errors import ConfigError
from rl_lightning.functional.action_distributions import ppo_loss
from rl_lightning.functional.advantage_estimators import GAE, AdvantageEstimator
from rl_lightning.functional.value import clipped_value_loss, explained_variance
from rl_lightning.models.network_policies import HeadPolicy, describable
from rl_lightning.models.normalizers import RunningMeanStd, RunningObsNorm
from rl_lightning.nn.heads.actors import make_policy_head
from rl_lightning.nn.heads.critics import ValueHead
from rl_lightning.nn.make_torso import make_torso, network_of_pictures
from rl_lightning.nn.mlp import MLP
from rl_lightning.nn.torso import Network
from rl_lightning.optim.optimizers import Adam, OptimizerFactory
from rl_lightning.optim.schedules import Constant, Schedule
from rl_lightning.ranges import Fraction, NonNegativeFloat, PositiveFloat, PositiveInt
from rl_lightning.types import Carry, EnvSpec, Rollout

BOTH = ("policy", "value")


class Minibatch(NamedTuple):
    """Rows of a rollout: single steps [B, ...], or whole envs [T, B, ...] where the network remembers."""

    obs: Tensor
    action: Tensor
    is_first: Tensor
    carry: Carry
    mask: Tensor | None
    extra: tuple[Tensor, ...]


class RolloutMinibatches:
    """A rollout as rows that minibatches are cut from."""

    def __init__(self, rollout: Rollout, recurrent: bool, size: int) -> None:
        self.rollout, self.axis, self.size = rollout, int(recurrent), size
        self.count = rollout.obs.shape[1] if recurrent else rollout.obs.shape[0] * rollout.obs.shape[1]

    def _split(self, field: Tensor, order: Tensor) -> tuple[Tensor, ...]:
        rows = field if self.axis else field.flatten(0, 1)
        return rows.index_select(self.axis, order).split(self.size, self.axis)

    def shuffled(self, order: Tensor, *extra: Tensor) -> Iterator[Minibatch]:
        """The rollout in this order, cut into minibatches: one gather per field and pass, not per minibatch."""
        rollout = self.rollout
        fields = [self._split(f, order) for f in (rollout.obs, rollout.action, rollout.is_first, *extra)]
        carries = [c.index_select(0, order).split(self.size) for c in rollout.carry] if self.axis else []
        masks = None if rollout.mask is None else self._split(rollout.mask, order)
        for k, (obs, action, is_first, *others) in enumerate(zip(*fields, strict=True)):
            carry = tuple(part[k] for part in carries)
            yield Minibatch(obs, action, is_first, carry, None if masks is None else masks[k], tuple(others))


class PPO(PolicyModule):
    """Clipped policy gradient over a few passes through each fresh rollout.

    Args:
        spec: What the env is like; filled in from the data.
        network: What turns an observation into features; one that remembers (RNN) makes PPO recurrent.
        actor_network: The same for the policy alone.
        critic_network: The same for the value alone.
        share_network: One network for policy and value; usual for pixels.
        lr: Learning rate.
        lr_schedule: How the learning rate changes over the run.
        optimizer: The optimizer, without its learning rate.
        gamma: Discount.
        gae_lambda: Decay of later errors in generalised advantage estimation; 0 is one-step, 1 the whole return.
        advantage: How advantages and value targets are computed otherwise (LambdaReturn, NStepReturn, ...); null: GAE.
        n_epochs: Passes through a rollout.
        minibatch_size: Steps of one gradient step (whole envs are taken where the network remembers).
        clip_range: Ratios further than this from 1 stop pushing.
        clip_range_schedule: How that changes over the run.
        clip_range_vf: The same for the value's change; null leaves the value free.
        vf_coef: Weight of the value loss.
        ent_coef: Weight of the entropy bonus.
        max_grad_norm: Gradients are scaled down to this norm.
        target_kl: Stop passing through a rollout once the policy has moved this far; null never.
        normalize_obs: Standardise observations by running statistics, which are part of the model.
        normalize_advantages: Standardise advantages within each minibatch.
        log_std_init: Starting log standard deviation of continuous actions.
        deterministic_eval: Take the likeliest action in evaluation; false draws it, as in training.
        collect_temperature: Of discrete actions drawn while collecting: below 1 they are nearer to the likeliest,
            above 1 nearer to chance. Anything but 1 is for stages that only collect.
        eval_temperature: The same in evaluation, where actions are drawn there.
    """

    learns_from = (Rollout,)
    takes_pictures_beside_vectors = True

    def __init__(
        self,
        spec: EnvSpec,
        network: Network | None = None,
        share_network: bool = False,
        lr: NonNegativeFloat = 3e-4,
        lr_schedule: Schedule | None = None,
        optimizer: OptimizerFactory | None = None,
        gamma: Fraction = 0.99,
        gae_lambda: Fraction = 0.95,
        advantage: AdvantageEstimator | None = None,
        n_epochs: PositiveInt = 4,
        minibatch_size: PositiveInt = 256,
        clip_range: PositiveFloat = 0.2,
        clip_range_schedule: Schedule | None = None,
        clip_range_vf: PositiveFloat | None = None,
        vf_coef: float = 0.5,
        ent_coef: float = 0.0,
        max_grad_norm: PositiveFloat = 0.5,
        target_kl: PositiveFloat | None = None,
        normalize_obs: bool = False,
        normalize_advantages: bool = True,
        log_std_init: float = 0.0,
        deterministic_eval: bool = True,
        collect_temperature: PositiveFloat = 1.0,
        eval_temperature: PositiveFloat = 1.0,
        actor_network: Network | None = None,
        critic_network: Network | None = None,
    ) -> None:
        super().__init__(spec)
        if share_network and (actor_network is not None or critic_network is not None):
            raise ConfigError(
                "model.share_network makes one network of both; leave model.actor_network and critic_network out"
            )
        for key, value in (
            ("collect_temperature", collect_temperature),
            ("eval_temperature", eval_temperature),
        ):
            if value != 1.0 and spec.action_kind == "continuous":
                raise ConfigError(f"model.{key} is {value}; it is for discrete actions only")
        self.collect_temperature, self.eval_temperature = collect_temperature, eval_temperature
        self.lr, self.lr_schedule, self.optimizer = (
            lr,
            lr_schedule or Constant(),
            optimizer or partial(Adam, eps=1e-5),
        )
        if advantage is not None and gae_lambda != 0.95:
            raise ConfigError("model.gae_lambda is for GAE, which model.advantage replaces; give one of them")
        self.gamma, self.advantage = gamma, advantage or GAE(gae_lambda)
        self.n_epochs, self.minibatch_size = n_epochs, minibatch_size
        self.clip_range, self.clip_range_schedule, self.clip_range_vf = (
            clip_range,
            clip_range_schedule or Constant(),
            clip_range_vf,
        )
        self.vf_coef, self.ent_coef = vf_coef, ent_coef
        self.max_grad_norm, self.target_kl = max_grad_norm, target_kl
        self.normalize_advantages = normalize_advantages
        self.deterministic_eval = deterministic_eval
        network = network or network_of_pictures(spec) or MLP
        self.network = actor_network or network
        self.norm = RunningObsNorm(spec.obs_layout) if normalize_obs else nn.Identity()
        self.torso = make_torso(self.network, spec.obs_layout)
        self.value_torso = None if share_network else make_torso(critic_network or network, spec.obs_layout)
        self.policy = make_policy_head(spec, self.torso.out_dim, log_std_init)
        seen_by_value = self.torso if self.value_torso is None else self.value_torso
        self.value = ValueHead(seen_by_value.out_dim)
        self.recurrent = bool(self.torso.initial_carry(1) or seen_by_value.initial_carry(1))
        self.unscaled = isinstance(self.norm, nn.Identity)
        self._split = len(self.torso.initial_carry(1))  # how many of the carry's tensors are the policy's

    def initial_carry(self, count: int) -> Carry:
        carry = self.torso.initial_carry(count)
        if self.value_torso is not None:
            carry = (*carry, *self.value_torso.initial_carry(count))
        return tuple(c.to(self.device) for c in carry)

    def act(
        self, obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        obs = obs if self.unscaled else self.norm(obs)
        features, new = self.torso.step(obs, carry[: self._split])
        if self.recurrent and self.value_torso is not None:
            new = (*new, *self.value_torso.step(obs, carry[self._split :])[1])
        params = self.policy(features)
        if generator is None:
            return self.policy.mode(params, mask), new
        heat = self.collect_temperature if self.training else self.eval_temperature
        return self.policy.sample(params if heat == 1.0 else params / heat, generator, mask), new

    def evaluate_rows(self, obs: Tensor, carry: Carry, is_first: Tensor) -> tuple[Tensor, Tensor]:
        """Policy parameters and values of rows [B, ...], or of whole envs [T, B, ...] where the network remembers."""
        obs = obs if self.unscaled else self.norm(obs)
        if not self.recurrent:
            features = self.torso(obs)
            return self.policy(features), self.value(
                features if self.value_torso is None else self.value_torso(obs)
            )
        features, _ = self.torso.unroll(obs, carry[: self._split], is_first)
        value_features = features
        if self.value_torso is not None:
            value_features, _ = self.value_torso.unroll(obs, carry[self._split :], is_first)
        return self.policy(features), self.value(value_features)

    def update(self, rollout: Rollout) -> Metrics:
        """Policy and value together."""
        return self._passes(rollout, BOTH)

    def update_actor(self, rollout: Rollout) -> Metrics:
        """The policy alone; the value stays as it is, but for a network that both share."""
        return self._passes(rollout, ("policy",))

    def update_critic(self, rollout: Rollout) -> Metrics:
        """The value alone; the policy stays as it is, but for a network that both share."""
        return self._passes(rollout, ("value",))

    def _passes(self, rollout: Rollout, learned: tuple[str, ...]) -> Metrics:
        rows = RolloutMinibatches(rollout, self.recurrent, self._rows_per_minibatch(rollout))
        order = torch.randperm(rows.count, device=rollout.obs.device)
        old_log_prob, old_value = self._old_log_probs_and_values(rows, order)
        done = rollout.terminated | rollout.truncated
        next_value = self._next_value(rollout, old_value, done)
        advantage, target = self.advantage(
            rollout.reward, old_value, next_value, rollout.terminated.float(), done.float(), self.gamma
        )
        (optimizer,) = self.raw_optimizers()
        set_lr(optimizer, self.lr_schedule, self.progress)
        history: list[Metrics] = []
        stop = False
        for epoch in range(self.n_epochs):
            if epoch:
                order = torch.randperm(rows.count, device=rollout.obs.device)
            for part in rows.shuffled(order, old_log_prob, old_value, advantage, target):
                stop_request.raise_if_stopped()
                history.append(self._minibatch(part, optimizer, learned))
                if self.target_kl is not None and self._kl_exceeded(history[-1]["train/approx_kl"]):
                    stop = True
                    break
            if stop:
                break
        if isinstance(self.norm, RunningMeanStd):
            self.norm.update(
                rollout.obs, distributed.gather
            )  # last, so that a rollout is learned with the statistics it was played with
        metrics = {key: torch.stack([entry[key] for entry in history]).mean() for key in history[0]}
        metrics["train/explained_variance"] = explained_variance(old_value, target)
        metrics["train/gradient_steps"] = torch.tensor(float(len(history)))
        return metrics

    def _kl_exceeded(self, kl: Tensor) -> bool:
        """Whether the policy has left its target; all ranks decide by their mean, so that they stop together."""
        assert self.target_kl is not None
        distributed.average_([kl])
        return bool(kl > 1.5 * self.target_kl)

    def _rows_per_minibatch(self, rollout: Rollout) -> int:
        return max(1, self.minibatch_size // len(rollout.obs)) if self.recurrent else self.minibatch_size

    @torch.no_grad()
    def _old_log_probs_and_values(self, rows: RolloutMinibatches, order: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities and values under the policy that played, [T, N] each.

        Computed in the very minibatches of the first pass: a matrix product of another size rounds differently, and
        the first ratio would not be exactly 1.
        """
        log_probs, values = [], []
        for part in rows.shuffled(order):
            params, value = self.evaluate_rows(part.obs, part.carry, part.is_first)
            log_probs.append(self.policy.evaluate(params, part.action, part.mask)[0].float())
            values.append(value.float())
        back = order.argsort()  # from the shuffled order to the played one
        like = rows.rollout.reward
        log_prob, value = (torch.cat(f, rows.axis).index_select(rows.axis, back) for f in (log_probs, values))
        return log_prob.view_as(like), value.view_as(like)

    @torch.no_grad()
    def _next_value(self, rollout: Rollout, value: Tensor, done: Tensor) -> Tensor:
        """Value of the true next observation of every step: after a cut episode that is not the next row."""
        last = self._single_value(rollout.last_obs, rollout.last_carry)
        next_value = torch.cat([value[1:], last[None]])
        cut = done & ~rollout.terminated
        if len(rollout.final_obs):
            next_value[cut] = self._value_after_cut(rollout, cut)
        return next_value

    def _single_value(self, obs: Tensor, carry: Carry) -> Tensor:
        obs = self.norm(obs)
        if self.value_torso is None:
            return self.value(self.torso.step(obs, carry[: self._split])[0])
        return self.value(self.value_torso.step(obs, carry[self._split :])[0])

    def _value_after_cut(self, rollout: Rollout, cut: Tensor) -> Tensor:
        if not self.recurrent:
            return self._single_value(rollout.final_obs, ())
        # The state that met the last observation is not kept while playing: walk each env once more to find it.
        carry, carries = rollout.carry, []
        for t in range(len(rollout.obs)):
            keep = (~rollout.is_first[t]).float()
            carry = tuple(c * keep.view(-1, *[1] * (c.dim() - 1)) for c in carry)
            _, carry = self.act(
                rollout.obs[t], carry, None, None if rollout.mask is None else rollout.mask[t]
            )
            carries += [tuple(c[n] for c in carry) for n in cut[t].nonzero()[:, 0].tolist()]
        stacked = tuple(torch.stack(parts) for parts in zip(*carries, strict=True))
        return self._single_value(rollout.final_obs, stacked)

    def _minibatch(self, part: Minibatch, optimizer: Optimizer, learned: tuple[str, ...]) -> Metrics:
        old_log_prob, old_value, advantage, target = part.extra
        params, value = self.evaluate_rows(part.obs, part.carry, part.is_first)
        if self.normalize_advantages and advantage.numel() > 1:
            std, mean = torch.std_mean(advantage)
            advantage = (advantage - mean) / (std + 1e-8)
        clip = self.clip_range_schedule.value(self.clip_range, self.progress)
        log_prob, entropies = self.policy.evaluate(params, part.action, part.mask)
        policy_loss, kl, clipped = ppo_loss(log_prob, old_log_prob, advantage, clip)
        value_loss = clipped_value_loss(value, old_value, target, self.clip_range_vf)
        # without a weight the entropy is only watched: no gradient is computed through it
        entropy = (entropies if self.ent_coef else entropies.detach()).mean()
        if learned == ("value",):
            loss = self.vf_coef * value_loss
        else:
            loss = torch.add(policy_loss, value_loss, alpha=self.vf_coef) if learned == BOTH else policy_loss
            loss = torch.sub(loss, entropy, alpha=self.ent_coef) if self.ent_coef else loss
        norm = self.step(optimizer, loss, self.max_grad_norm)
        assert norm is not None
        return {
            "train/loss": loss.detach(),
            "train/policy_loss": policy_loss.detach(),
            "train/value_loss": value_loss.detach(),
            "train/entropy": entropy.detach(),
            "train/approx_kl": kl,
            "train/clip_fraction": clipped,
            "train/grad_norm": norm,
        }

    def exports(self) -> dict[str, Exported]:
        if not describable(self.network, self.torso, self.spec):
            return {}
        described = HeadPolicy.export_spec(
            self.spec,
            self.network,
            normalize_obs=isinstance(self.norm, RunningMeanStd),
            draws=not self.deterministic_eval,
            temperature=self.eval_temperature,
        )
        return {"policy": described}

    def configure_optimizers(self) -> Optimizer:
        return self.optimizer(self.parameters(), self.lr)
