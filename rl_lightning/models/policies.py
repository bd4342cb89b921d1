"""Policies of flat observations that a later stage can load: the normaliser is inside, an action comes out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from rl_lightning.artifacts import Excerpt, Exported, find_class
from rl_lightning.errors import ConfigError
from rl_lightning.functional import action_distributions
from rl_lightning.kernels.choice import is_hooked
from rl_lightning.kernels.squashed_gaussian import squashed_gaussian
from rl_lightning.models.described import rewritable
from rl_lightning.models.normalizers import RunningMeanStd
from rl_lightning.models.written_networks import WrittenNetwork, network_args, read_network
from rl_lightning.nn.heads.actors import raw_log_std
from rl_lightning.nn.make_torso import make_feed_forward
from rl_lightning.nn.mlp import MLP, through_head
from rl_lightning.nn.torso import FeedForward
from rl_lightning.observations import ObsLayout
from rl_lightning.types import EnvSpec

LOG_STD_BOUNDS = (-5.0, 2.0)


def layout_of(spec: EnvSpec, who: str) -> int | ObsLayout:
    """Width of the observations, or their parts where pictures are among them; pictures alone are refused."""
    return ObsLayout.of(spec.obs_parts) if spec.is_bytes else flat_width(spec, who)


def flat_width(spec: EnvSpec, who: str) -> int:
    """Width of the observations; pictures are refused."""
    if len(spec.obs_shape) != 1:
        raise ConfigError(f"{who} needs flat observations; {spec.env_id} has {list(spec.obs_shape)}")
    return spec.obs_shape[0]


class ObsNormalizer(nn.Module):
    """Observations to zero mean and unit spread of a data set; the identity until it has seen one. Pictures beside
    vectors stay as they are.

    Args:
        obs: Width of an observation, or its parts.
        eps: Added to the spread, so that a constant feature stays small.
    """

    mean: Tensor
    std: Tensor
    fitted: Tensor

    def __init__(self, obs: int | ObsLayout, eps: float = 1e-3) -> None:
        super().__init__()
        self.eps = eps
        self.layout = obs if isinstance(obs, ObsLayout) and obs.has_pictures else None
        numbers = obs.numbers if isinstance(obs, ObsLayout) else obs
        self.register_buffer("mean", torch.zeros(numbers))
        self.register_buffer("std", torch.ones(numbers))
        self.register_buffer("fitted", torch.zeros((), dtype=torch.bool))

    def fit_once(self, data: Any) -> None:
        """Takes the statistics of the data's training rows, unless a checkpoint brought some."""
        if self.fitted:
            return
        if not hasattr(data, "train_rows"):
            raise ConfigError(
                f"normalize_obs needs a data set to fit, {type(data).__name__} has none. "
                "Add: --model.normalize_obs false"
            )
        self.fit(data.train_rows().obs)

    def fit(self, obs: Tensor) -> None:  # [N, O]
        obs = obs if self.layout is None else self.layout.vectors(obs)
        std, mean = torch.std_mean(obs.double(), 0, correction=0)
        self.mean.copy_(mean)
        self.std.copy_(std + self.eps)
        self.fitted.fill_(True)

    def forward(self, obs: Any) -> Any:  # rows, or each part by its name
        return self._scaled(obs) if self.layout is None else self.layout.on_vectors(self._scaled, obs)

    def _scaled(self, numbers: Tensor) -> Tensor:
        return (numbers - self.mean) / self.std


class PolicyNet(nn.Module, ABC):
    """Base of the policies: `greedy` and `sample` take raw observations, `forward` scaled ones.

    Args:
        obs_dim: Width of an observation, or its parts.
        action_dim: Width of a continuous action, or the number of discrete ones.
        hidden_dims: Width of each hidden layer.
        normalize_obs: Observations are scaled by statistics of a data set, kept with the weights.
        activation: Non-linearity after each hidden layer.
        layer_norm: Normalise each hidden layer's output before its activation.
        network: What turns an observation into features, or that written down; null: such layers.
        obs_parts: Names, kinds and shapes of an observation's parts; null: it is one array.
    """

    outputs = 1  # numbers that the network gives for each entry of an action
    draws = False  # whether its actions are drawn in evaluation too
    discrete = False

    def __init__(
        self,
        obs_dim: int | ObsLayout,
        action_dim: int,
        hidden_dims: list[int],
        normalize_obs: bool = False,
        activation: str = "relu",
        layer_norm: bool = False,
        network: WrittenNetwork = None,
        obs_parts: list[Any] | None = None,
    ) -> None:
        super().__init__()
        seen = ObsLayout.of(obs_parts) if obs_parts else obs_dim
        self.init_args: dict[str, Any] = {
            "obs_dim": seen.width if isinstance(seen, ObsLayout) else seen,
            "action_dim": action_dim,
            "hidden_dims": list(hidden_dims),
            "normalize_obs": normalize_obs,
            "activation": activation,
            "layer_norm": layer_norm,
        }
        if isinstance(seen, ObsLayout):
            self.init_args["obs_parts"] = [[name, kind, list(shape)] for name, kind, shape in seen.parts]
        self.norm: nn.Module = ObsNormalizer(seen) if normalize_obs else nn.Identity()
        own = read_network(network)
        layers = partial(
            MLP, hidden_dims=list(hidden_dims), activation=activation, layer_norm=layer_norm, init="default"
        )
        self.torso: FeedForward = make_feed_forward(
            own or layers, seen if isinstance(seen, ObsLayout) else (seen,)
        )
        self.init_args |= network_args(network=own)
        self.describable = own is None or rewritable(own)
        self.linear = nn.Linear(self.torso.out_dim, self.outputs * action_dim)
        self.own_parameters()

    def own_parameters(self) -> None:
        """Registers what a kind of policy has beside its network."""

    @abstractmethod
    def greedy(self, obs: Tensor, mask: Tensor | None = None) -> Tensor:
        """The action that the policy thinks best.  [..., O] -> [..., A]"""

    @abstractmethod
    def sample(self, obs: Tensor, generator: torch.Generator, mask: Tensor | None = None) -> Tensor:
        """An action drawn as the policy draws them.  [..., O] -> [..., A]"""

    def choose(self, obs: Tensor, generator: torch.Generator, greedy: bool) -> Tensor:
        """The action that is played for each observation.  [B, O] -> [B, A]"""
        return self.greedy(obs) if greedy else self.sample(obs, generator)

    def fit_norm(self, data: Any) -> None:
        """Fits the normaliser, if there is one, to the data's training rows; once."""
        if isinstance(self.norm, ObsNormalizer):
            self.norm.fit_once(data)

    def exported(self, prefix: str) -> Exported:
        """How a later stage makes this policy again, its weights lying under `prefix`."""
        return self.export_spec(prefix, self.init_args)

    @classmethod
    def export_spec(cls, prefix: str, init_args: dict[str, Any]) -> Exported:
        return Exported(f"{cls.__module__}.{cls.__qualname__}", init_args, prefix)


class DeterministicPolicy(PolicyNet):
    """One action in (-1, 1) per observation."""

    def forward(self, scaled: Tensor) -> Tensor:  # [..., O] -> [..., A]
        return torch.tanh(self.linear(self.torso(scaled)))

    def greedy(self, obs: Tensor, mask: Tensor | None = None) -> Tensor:
        return self(self.norm(obs))

    def sample(self, obs: Tensor, generator: torch.Generator, mask: Tensor | None = None) -> Tensor:
        return self.greedy(obs)


class SquashedGaussianPolicy(PolicyNet):
    """A Gaussian squashed by tanh, mean and log-std from the observation; its weights are those of SAC's actor."""

    outputs = 2

    def forward(self, scaled: Tensor) -> tuple[Tensor, Tensor]:  # [..., O] -> mean, log_std before tanh
        mean, raw = self.linear(self.torso(scaled)).chunk(2, -1)
        return mean, action_distributions.bounded_log_std(raw, LOG_STD_BOUNDS)

    def start_at(self, log_std: float) -> None:
        """Makes the first policy about so wide, whatever it sees."""
        with torch.no_grad():
            self.linear.bias[self.linear.out_features // 2 :] += raw_log_std(log_std, LOG_STD_BOUNDS)

    def log_prob(self, scaled: Tensor, action: Tensor) -> Tensor:  # [..., O], [..., A] -> [...]
        mean, log_std = self(scaled)
        return action_distributions.squashed_log_prob(mean, log_std, action)

    def sample_with_log_prob(self, scaled: Tensor, count: int | None = None) -> tuple[Tensor, Tensor]:
        """An action for each row and its log-probability, differentiable, from torch's own generator; or `count` of
        them.  [B, O] -> [B, A], [B]; or [B, N, A], [B, N]"""
        out = through_head(self.torso, self.linear, scaled)
        if count is not None:
            out = out.unsqueeze(-2).expand(*out.shape[:-1], count, -1)
        noise = torch.randn((*out.shape[:-1], out.shape[-1] // 2), device=out.device, dtype=out.dtype)
        if is_hooked((self,)):
            mean, raw = out.chunk(2, -1)
            log_std = action_distributions.bounded_log_std(raw, LOG_STD_BOUNDS)
            return action_distributions.squashed_sample(mean, log_std, noise)
        return squashed_gaussian(out, noise, LOG_STD_BOUNDS)

    def greedy(self, obs: Tensor, mask: Tensor | None = None) -> Tensor:
        return torch.tanh(self(self.norm(obs))[0])

    def sample(self, obs: Tensor, generator: torch.Generator, mask: Tensor | None = None) -> Tensor:
        mean, log_std = self(self.norm(obs))
        noise = action_distributions.standard_noise(mean.shape, generator, mean)
        return torch.tanh(action_distributions.gaussian_sample(mean, log_std, noise))


class NormedPolicy(Excerpt):
    """A policy behind the running norm of observations that it was trained behind.

    Args:
        obs_dim: Width of an observation.
        action_dim: Width of a continuous action, or the number of discrete ones.
        name: What the algorithm calls the policy's network, so that both have the same names of weights.
        class_path: Class of the policy.
        init_args: What makes it.
    """

    def __init__(
        self, obs_dim: int, action_dim: int, name: str, class_path: str, init_args: dict[str, Any]
    ) -> None:
        super().__init__()
        self.init_args = {"obs_dim": obs_dim, "action_dim": action_dim}
        self.norm = RunningMeanStd((obs_dim,))
        self.name = name
        policy = find_class(class_path, "a policy")(**init_args)
        self.discrete, self.draws = bool(policy.discrete), bool(policy.draws)
        self.add_module(name, policy)

    def choose(self, obs: Tensor, generator: torch.Generator, greedy: bool) -> Tensor:
        return self.get_submodule(self.name).choose(self.norm(obs), generator, greedy)  # type: ignore[operator]

    @classmethod
    def around(cls, policy: Exported) -> Exported:
        """What exports a policy, with the algorithm's norm before it."""
        sizes = {key: policy.init_args[key] for key in ("obs_dim", "action_dim")}
        inner = {"class_path": policy.class_path, "init_args": policy.init_args}
        name = policy.prefix.removesuffix(".")
        return Exported(f"{cls.__module__}.{cls.__qualname__}", {**sizes, "name": name, **inner}, "")


class TanhGaussianPolicy(PolicyNet):
    """A Gaussian around a mean in (-1, 1), with one log-std for all observations."""

    def own_parameters(self) -> None:
        self.log_std = nn.Parameter(torch.zeros(self.linear.out_features))

    def forward(self, scaled: Tensor) -> tuple[Tensor, Tensor]:  # [..., O] -> mean [..., A], log_std [A]
        return torch.tanh(self.linear(self.torso(scaled))), self.log_std.clamp(*LOG_STD_BOUNDS)

    def log_prob(self, scaled: Tensor, action: Tensor) -> Tensor:  # [..., O], [..., A] -> [...]
        mean, log_std = self(scaled)
        return action_distributions.gaussian_log_prob(mean, log_std, action)

    def greedy(self, obs: Tensor, mask: Tensor | None = None) -> Tensor:
        return self(self.norm(obs))[0]

    def sample(self, obs: Tensor, generator: torch.Generator, mask: Tensor | None = None) -> Tensor:
        mean, log_std = self(self.norm(obs))
        noise = action_distributions.standard_noise(mean.shape, generator, mean)
        return action_distributions.gaussian_sample(mean, log_std, noise).clamp(-1.0, 1.0)


class CategoricalPolicy(PolicyNet):
    """One of A discrete actions."""

    discrete = True

    def forward(self, scaled: Tensor) -> Tensor:  # [..., O] -> logits [..., A]
        return self.linear(self.torso(scaled))

    def greedy(self, obs: Tensor, mask: Tensor | None = None) -> Tensor:
        return action_distributions.mask_logits(self(self.norm(obs)), mask).argmax(-1)

    def sample(self, obs: Tensor, generator: torch.Generator, mask: Tensor | None = None) -> Tensor:
        return action_distributions.categorical_sample(self(self.norm(obs)), generator, mask)


class UniformPolicy(nn.Module):
    """Every action alike, whatever is seen: the lower bar.

    Args:
        obs_dim: Width of an observation.
        action_dim: Width of a continuous action, or the number of discrete ones.
        discrete: Whether actions are discrete.
    """

    draws = True

    def __init__(self, obs_dim: int, action_dim: int, discrete: bool = False) -> None:
        super().__init__()
        self.init_args = {"obs_dim": obs_dim, "action_dim": action_dim, "discrete": discrete}
        self.action_dim, self.discrete = action_dim, discrete

    def choose(self, obs: Tensor, generator: torch.Generator, greedy: bool) -> Tensor:
        rows, at = list(obs.shape[:-1]), generator.device
        if self.discrete:
            return torch.randint(self.action_dim, rows, generator=generator, device=at).to(obs.device)
        uniform = torch.rand([*rows, self.action_dim], generator=generator, device=at)
        return uniform.to(obs.device) * 2.0 - 1.0

    def exported(self, prefix: str) -> Exported:
        return Exported(f"{type(self).__module__}.{type(self).__qualname__}", self.init_args, prefix)
