"""A world learned from frames: what the next one looks like, what it pays, and whether it is the last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rl_lightning.artifacts import Exported
from rl_lightning.envs.palette import ATARI_COLORS
from rl_lightning.errors import ConfigError
from rl_lightning.factories import make
from rl_lightning.functional.frame_losses import UNSEEN, standardize
from rl_lightning.io.artifact_place import Artifact
from rl_lightning.models.described import describe, rebuild
from rl_lightning.nn.frames.frame_parts import UpsampleConv
from rl_lightning.nn.frames.next_frame_net import Features, NextFrameNet
from rl_lightning.nn.frames.reward_net import FeatureMaps, RewardNet, RewardNetFactory
from rl_lightning.ranges import FractionBelowOne
from rl_lightning.types import EnvSpec

RGB_LEVELS = 256
BITS_USED = 0.8  # chance that training uses the latent, at the end of its schedule


class PredictedStep(NamedTuple):
    """What a world says comes next."""

    frame: Tensor  # [B, C, H, W] uint8
    reward: Tensor  # [B]
    terminated: Tensor  # [B] bool
    state: Tensor | None  # the world's own memory, to be handed back


class TerminationNet(nn.Module):
    """Whether the next frame is the last: some pixel says so."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.hidden, self.out = nn.Conv2d(width, width, 1), nn.Conv2d(width, 1, 1)

    def forward(self, fin: Tensor) -> Tensor:  # [B, W, H, W] -> logits [B]
        return self.out(self.hidden(fin).relu()).amax((1, 2, 3))


class FrameWorld(nn.Module):
    """A next-frame network with its inputs and its heads. All sizes are arguments; see `NextFramePredictor`.

    `latent_anneal` is how far training has come on the latent's schedule: below a half, imagination goes without bits.
    `seen` are the colours of a palette that a pixel can be predicted to have: a game shows a dozen of Atari's 128, and
    telling all of them apart took a third of the time on Pong's frames.

    Args:
        env_id: The game.
        frame_shape: Channels, height and width of one frame.
        num_stack: Frames in a stack.
        actions: Number of actions.
        colors: Classes of a pixel, as indices of colours; 0: RGB, 256 levels each.
        embed_dim: Width of a colour's embedding.
        reward_net: What makes the reward head, written down; null: none.
        predict_termination: Predict the end of an episode, too.
        recurrent_state_size: Channels of the world's own memory; 0: none.
        sizes: Arguments of the network.
    """

    latent_anneal: Tensor
    seen: Tensor | None

    def __init__(
        self, env_id: str, frame_shape: tuple[int, int, int], num_stack: int, actions: int, colors: int,
        embed_dim: int, reward_net: dict[str, Any] | None, predict_termination: bool, recurrent_state_size: int,
        sizes: dict[str, Any],
    ) -> None:  # fmt: skip
        super().__init__()
        channels, height, width = frame_shape
        self.env_id, self.num_stack, self.actions, self.colors = env_id, num_stack, actions, colors
        self.frame_shape = (channels, height, width)
        self.arguments: dict[str, Any] = {
            "env_id": env_id,
            "frame_shape": list(frame_shape),
            "num_stack": num_stack,
            "actions": actions,
            "colors": colors,
            "embed_dim": embed_dim,
            "reward_net": reward_net,
            "predict_termination": predict_termination,
            "recurrent_state_size": recurrent_state_size,
            "sizes": dict(sizes),
        }
        per_frame = channels * embed_dim if colors else channels
        self.embed_dim = nn.Embedding(colors, embed_dim) if colors else None
        self.recurrent_state_size = recurrent_state_size
        self.net = NextFrameNet(
            num_stack * per_frame + recurrent_state_size, per_frame, (height, width), actions,
            **{**sizes, "latent_filters": tuple(sizes["latent_filters"])},
        )  # fmt: skip
        wide = int(sizes["base_channels"])
        self.logits = nn.Conv2d(wide, channels * (colors or RGB_LEVELS), 1)
        self.reward: RewardNet | None = None
        if reward_net is not None:
            factory: RewardNetFactory = rebuild(reward_net, "the reward head", RewardNetFactory)
            self.reward = make(factory, RewardNet, "reward_net", self.feature_maps)
        self.end = TerminationNet(wide) if predict_termination else None
        self.remember = (
            nn.Conv2d(recurrent_state_size + wide, 2 * recurrent_state_size, 3, 1, 1)
            if recurrent_state_size
            else None
        )
        self.register_buffer("latent_anneal", torch.zeros(()))
        self.register_buffer("seen", torch.ones(colors, dtype=torch.bool) if colors else None)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        if self.seen is not None:  # weights of before it was noted which colours were seen
            state_dict.setdefault(prefix + "seen", self.seen)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def for_simulation(self, dtype: str = "float32") -> FrameWorld:
        """Frozen, with weights as convolutions read them fastest, in `dtype`, float32 or bfloat16. In training they
        stay as they are, because Adafactor goes over the last two axes of each."""
        self.to(memory_format=torch.channels_last).requires_grad_(False)  # type: ignore[call-overload]
        for part in self.modules():
            if dtype == "bfloat16" and isinstance(part, nn.Conv2d | nn.ConvTranspose2d):
                part.to(torch.bfloat16)
            if isinstance(part, UpsampleConv):
                part.prepare()
        return self

    @property
    def feature_maps(self) -> FeatureMaps:
        """What a reward head sees of this network."""
        net, sizes = self.net, self.arguments["sizes"]
        shapes = (net.mid_channels, sizes["base_channels"], net.mid_size)
        return FeatureMaps(*shapes, sizes["compress_steps"], sizes["norm"])

    def planes(self, stack: Tensor) -> Tensor:
        """Frames as the network reads them.  [B, F*C, H, W] uint8 -> [B, P, H, W]"""
        if self.embed_dim is None:
            return standardize(stack.float().div_(255.0)).contiguous(memory_format=torch.channels_last)
        rows = self.embed_dim(stack.permute(0, 2, 3, 1).int()).flatten(3)  # channels last as it is
        return rows.permute(0, 3, 1, 2)

    def features(
        self, stack: Tensor, action: Tensor, state: Tensor | None = None, target: Tensor | None = None,
        certain: float | None = None, generator: torch.Generator | None = None,
    ) -> Features:  # fmt: skip
        """One pass. With a `target` frame this is training, and `certain` drives the latent's schedules."""
        planes = self.planes(stack)
        if self.recurrent_state_size:
            previous = self.first_state(len(stack)) if state is None else state
            planes = torch.cat([planes, previous.to(planes.dtype)], 1)
        if target is None:
            use = float(self.net.bottleneck_bits > 0 and float(self.latent_anneal) >= 0.5)
            return self.net(planes, action, None, 1.0, use, generator)
        sure = float(self.latent_anneal) if certain is None else certain
        return self.net(planes, action, self.planes(target), sure, BITS_USED * sure, None)

    def first_state(self, count: int) -> Tensor:
        _, height, width = self.frame_shape
        return self.latent_anneal.new_zeros(count, self.recurrent_state_size, height, width)

    def next_state(self, state: Tensor | None, features: Features) -> Tensor | None:
        """The memory after a step: old and new, mixed by a gate. No gradient goes back through time."""
        if self.remember is None:
            return None
        old = self.first_state(len(features.fin)) if state is None else state
        gate, new = self.remember(torch.cat([old.to(features.fin.dtype), features.fin], 1)).chunk(2, 1)
        return torch.lerp(old, new.tanh().to(old.dtype), gate.sigmoid().to(old.dtype))

    def frame_logits(self, features: Features) -> Tensor:
        """Of the colours that were seen, in their order.  -> [B, K, C, H, W]"""
        channels, height, width = self.frame_shape
        weight, bias = self.logits.weight, self.logits.bias
        assert bias is not None
        if self.seen is not None:  # rows of one colour lie together: [colors * C, W, 1, 1]
            weight = weight.unflatten(0, (-1, channels))[self.seen].flatten(0, 1)
            bias = bias.view(-1, channels)[self.seen].flatten()
        logits = F.conv2d(features.fin, weight, bias)
        return logits.view(len(logits), -1, channels, height, width) if channels > 1 else logits[:, :, None]

    def classes(self, frame: Tensor) -> Tensor:
        """Which of the seen colours each pixel has; `UNSEEN` where it has none of them."""
        if self.seen is None:
            return frame.long()
        return torch.where(self.seen, self.seen.cumsum(0) - 1, UNSEEN)[frame.long()]

    def to_frame(self, logits: Tensor) -> Tensor:
        """The frame of the likeliest colour of each pixel.  [B, K, C, H, W] -> [B, C, H, W] uint8"""
        best = logits.argmax(1)
        return (best if self.seen is None else self.seen.nonzero()[:, 0][best]).to(torch.uint8)

    def mode(self, features: Features) -> Tensor:
        """The same, from features."""
        return self.to_frame(self.frame_logits(features))

    def push(self, stack: Tensor, frame: Tensor) -> Tensor:
        """The stack one frame later."""
        return torch.cat([stack[:, self.frame_shape[0] :], frame], 1)

    @torch.no_grad()
    def predict_step(
        self, stack: Tensor, action: Tensor, state: Tensor | None, head: RewardNet | None,
        generator: torch.Generator | None,
    ) -> PredictedStep:  # fmt: skip
        """One imagined step; `head` tells the reward where the world has no head of its own."""
        features = self.features(stack, action, state, generator=generator)
        head = head or self.reward
        if head is None:
            raise ConfigError("this world tells no reward: give the artifact of a reward stage")
        reward = head(features.mid, features.fin).argmax(-1).to(torch.float32) - 1.0
        over = torch.zeros_like(reward, dtype=torch.bool)
        if self.end is not None:
            over = self.end(features.fin) > 0
        return PredictedStep(self.mode(features), reward, over, self.next_state(state, features))

    @torch.no_grad()
    def state_value(self, stack: Tensor, state: Tensor | None = None) -> Tensor:
        """The learned value of stacks; the action does not matter to it.  -> [B]"""
        action = torch.zeros(len(stack), dtype=torch.int64, device=stack.device)
        return self.features(stack, action, state).value

    @torch.no_grad()
    def warm_up_state(self, stacks: Tensor, actions: Tensor, valid: Tensor) -> Tensor | None:
        """The memory after walking through what went before; rows before an episode's start leave it empty.

        [B, K, F*C, H, W], [B, K], [B, K] bool, oldest first
        """
        if not self.recurrent_state_size:
            return None
        state = self.first_state(len(stacks))
        for k in range(stacks.shape[1]):
            new = self.next_state(state, self.features(stacks[:, k], actions[:, k], state))
            assert new is not None
            state = torch.where(valid[:, k, None, None, None], new, state)
        return state

    def check_compatible(self, spec: EnvSpec, where: Artifact) -> None:
        """Refuses an env of another game, other frames or other actions."""
        shape, frames = frame_shape(spec), spec.num_stack
        if self.env_id != spec.env_id:
            raise ConfigError(f"{where} is a world of {self.env_id}; this run plays {spec.env_id}")
        if (self.frame_shape, self.num_stack, self.actions) != (shape, frames, spec.action_dim):
            raise ConfigError(
                f"{where} knows stacks of {self.num_stack} frames {list(self.frame_shape)} and {self.actions} actions; "
                f"this run has {frames} of {list(shape)} and {spec.action_dim}"
            )

    def exported(self, prefix: str) -> Exported:
        return Exported(f"{FrameWorld.__module__}.FrameWorld", self.arguments, prefix)


def frame_shape(spec: EnvSpec) -> tuple[int, int, int]:
    """Of one frame of a stack."""
    if not spec.is_pixels or spec.action_kind != "discrete":
        raise ConfigError(f"{spec.env_id}: a world of frames needs pixels and discrete actions")
    channels, height, width = spec.obs_shape
    return channels // spec.num_stack, height, width


class NextFramePredictor(FrameWorld):
    """A world that is learned frame by frame. The defaults are those of MBARC, with its defects mended.

    Args:
        colors: Classes of a pixel where frames hold indices of colours (128 on Atari); 0: RGB, 256 levels each.
        embed_dim: Width of a colour's embedding.
        base_channels: Channels at full size.
        compress_steps: Halvings.
        filter_double_steps: How many of them double the channels.
        hidden_layers: Convolutions on the smallest map.
        dropout: Of the halvings and doublings, in training.
        residual_dropout: Of the smallest map, in training.
        norm: instance (over space in each channel, the original's) or layer (over channels at each position, for
            frames that are halved down to one pixel; rare pixels are learned far more slowly with it).
        timing_signal: Add sinusoids of where a pixel is to every map, as the original does. Without them what was
            learned of things that move holds in every place at once: small things are found sooner, but edges later.
        bottleneck_bits: Of the discrete latent; 0: a deterministic world.
        latent_filters: Channels of the two convolutions that read the bits.
        latent_state_size: Width of the LSTM that predicts the bits.
        bottleneck_noise: Chance that a bit is turned in training.
        reward_net: A head of the world's own, trained along with it (online): SpatialRewardNet (MBARC) or
            MeanRewardNet (SimPLe); null: none, where a reward stage trains one.
        predict_termination: Predict ends of episodes, too; the original never does.
        recurrent_state_size: Channels of a memory of its own beside the stack; 0: none.
    """

    def __init__(
        self,
        spec: EnvSpec,
        /,
        colors: int = ATARI_COLORS,
        embed_dim: int = 12,
        base_channels: int = 96,
        compress_steps: int = 5,
        filter_double_steps: int = 3,
        hidden_layers: int = 2,
        dropout: FractionBelowOne = 0.15,
        residual_dropout: float = 0.5,
        norm: str = "instance",
        bottleneck_bits: int = 128,
        latent_filters: tuple[int, int] = (128, 512),
        latent_state_size: int = 128,
        bottleneck_noise: float = 0.1,
        reward_net: RewardNetFactory | None = None,
        predict_termination: bool = False,
        recurrent_state_size: int = 0,
        timing_signal: bool = True,
    ) -> None:
        _check(
            width=base_channels,
            levels=compress_steps,
            middle=hidden_layers,
            embedding=embed_dim,
            latent_state_size=latent_state_size,
        )
        for key, count in (
            ("filter_double_steps", filter_double_steps),
            ("recurrent_state_size", recurrent_state_size),
        ):
            if count < 0:
                raise ConfigError(f"predictor.{key} is {count}; it must not be negative")
        for key, share in (
            ("dropout", dropout),
            ("residual_dropout", residual_dropout),
            ("bottleneck_noise", bottleneck_noise),
        ):
            if not 0.0 <= share < 1.0:
                raise ConfigError(f"predictor.{key} is {share}; it is at least 0, and below 1")
        if norm not in ("layer", "instance"):
            raise ConfigError(f"predictor.norm is '{norm}'; choose layer or instance")
        if bottleneck_bits < 0 or bottleneck_bits % 8:
            raise ConfigError(
                f"predictor.bottleneck_bits is {bottleneck_bits}; the latent has a multiple of 8, or 0"
            )
        if not 0 <= colors <= RGB_LEVELS:
            raise ConfigError(f"predictor.colors is {colors}; at most 256, or 0 for RGB")
        shape = frame_shape(spec)
        if not colors and shape[0] not in (1, 3):
            raise ConfigError(f"predictor.colors 0 reads grey or RGB frames; {spec.env_id} has {list(shape)}")
        super().__init__(
            spec.env_id, shape, spec.num_stack, spec.action_dim, colors, embed_dim,
            None if reward_net is None else describe(reward_net), predict_termination, recurrent_state_size,
            {
                "base_channels": base_channels,
                "compress_steps": compress_steps,
                "filter_double_steps": filter_double_steps,
                "hidden_layers": hidden_layers,
                "dropout": dropout,
                "residual_dropout": residual_dropout,
                "norm": norm,
                "bottleneck_bits": bottleneck_bits,
                "bottleneck_noise": bottleneck_noise,
                "latent_filters": [int(n) for n in latent_filters],
                "latent_state_size": latent_state_size,
                "timing_signal": timing_signal,
            },
        )  # fmt: skip


# Makes a world of an env's frames.
FrameWorldFactory = Callable[[EnvSpec], FrameWorld]


def _check(**sizes: int) -> None:
    for key, value in sizes.items():
        if value < 1:
            raise ConfigError(f"predictor.{key} is {value}; it must be at least 1")
