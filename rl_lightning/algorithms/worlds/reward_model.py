"""A reward head on the frozen features of a learned world, taught by steps chosen against the rarity of rewards."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim import Optimizer

from rl_lightning.algorithms.model_module import ModelModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.artifacts import Provided, load_provided
from rl_lightning.errors import ConfigError
from rl_lightning.functional.reward_classes import CLASSES, class_balanced_weights, focal_loss, reward_label
from rl_lightning.models.frames import frame_metrics as checks
from rl_lightning.models.frames.frame_world import FrameWorld
from rl_lightning.nn.frames.reward_net import HEADS, RewardNet
from rl_lightning.optim.optimizers import Adafactor, OptimizerRecipe
from rl_lightning.types import EnvSpec, FrameWindow


class RewardHead(ModelModule):
    """Classifies the sign of the reward; the world it looks through stays as it is.

    Args:
        spec: What the env is like; filled in from the data.
        world: Product of the stage that learned the world.
        head: spatial (MBARC) or mean (SimPLe).
        reward_loss: ce, or cbf (class-balanced focal loss; counts are those of the data, not of the draws).
        lr: Largest relative step of Adafactor; the learning rate of any other optimizer.
        optimizer: The optimizer, without its rate.
        max_grad_norm: Gradients are scaled down to this norm.
        past: Steps that the world's memory is filled with before a step, if it has one.
        checked: Held-out steps that an evaluation looks at; all that pay are among them.
    """

    learns_from = (FrameWindow,)
    action_kinds = ("discrete",)
    class_weight: Tensor
    head: RewardNet

    def __init__(
        self,
        spec: EnvSpec,
        world: str,
        head: str = "spatial",
        reward_loss: str = "ce",
        lr: float = 0.01,
        optimizer: OptimizerRecipe | None = None,
        max_grad_norm: float = 1.0,
        past: int = 4,
        checked: int = 2000,
    ) -> None:
        super().__init__(spec)
        if head not in HEADS:
            raise ConfigError(f"model.head is '{head}'; choose {' or '.join(HEADS)}")
        if reward_loss not in ("ce", "cbf"):
            raise ConfigError(f"model.reward_loss is '{reward_loss}'; choose ce or cbf")
        self.product, self.kind, self.reward_loss = world, head, reward_loss
        self.lr, self.optimizer, self.max_grad_norm = lr, optimizer or Adafactor(), max_grad_norm
        self.wanted_past, self.checked = past, checked
        self.register_buffer("class_weight", torch.ones(CLASSES))
        if Path(world).expanduser().exists():  # in a dry run there is no product yet, and so no shapes
            self.head = self.world.make_head(head)

    @cached_property
    def world(self) -> FrameWorld:
        """The world; no part of this module, so that its weights are neither trained nor saved again."""
        with torch.device("cpu"):
            found = load_provided(self.product, "world")
        assert isinstance(found, FrameWorld)
        return found.for_imagining()

    @property
    def past(self) -> int:
        return self.wanted_past if self.world.state_size else 0

    def setup(self, stage: str) -> None:
        self.world.fits(self.spec, self.product)  # a missing product is reported here

    def on_fit_start(self) -> None:
        self.world.to(self.device)
        if self.reward_loss == "cbf":
            counts = self.data_source.reward_counts()
            self.class_weight.copy_(class_balanced_weights(counts))

    def update(self, window: FrameWindow) -> Metrics:
        """One step on clean frames; bits come from the LSTM, as in imagination."""
        world = self.world
        with torch.no_grad():
            state = world.recall(window.past_stack, window.past_action, window.past_valid)
            found = world.features(window.stack, window.action[:, 0], state)
        logits, label = self.head(found.mid, found.fin), reward_label(window.reward[:, 0])
        if self.reward_loss == "cbf":
            loss = focal_loss(logits, label, self.class_weight)
        else:
            loss = F.cross_entropy(logits, label)
        (optimizer,) = self.raw_optimizers()
        self.step(optimizer, loss, self.max_grad_norm)
        right = (logits.detach().argmax(-1) == label).float().mean()
        paid = (label != 1).float().mean()
        return {"train/loss": loss.detach(), "train/accuracy": right, "train/paid_share": paid}

    def assess(self, data: Any) -> dict[str, float]:
        """Held-out steps; the score is the mean recall of the classes that occur."""
        windows = data.holdout_rewards(self.checked, self.past)
        windows = FrameWindow(*(field.to(self.device) for field in windows))
        told = checks.told_rewards(self.world.to(self.device), self.head, windows)
        return checks.reward_scores(told, reward_label(windows.reward[:, 0]))

    def provides(self) -> dict[str, Provided]:
        net = HEADS[self.kind]
        arguments = self.world.head_arguments()
        arguments["mid_size"] = list(arguments["mid_size"])
        return {"reward": Provided(f"{net.__module__}.{net.__qualname__}", arguments, "head.")}

    def configure_optimizers(self) -> Optimizer:
        return self.optimizer.build(self.head.parameters(), self.lr)
