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
from rl_lightning.artifacts import Exported, load_exported
from rl_lightning.errors import ConfigError
from rl_lightning.functional.reward_classes import CLASSES, class_balanced_weights, focal_loss, reward_label
from rl_lightning.models.frames import frame_metrics as checks
from rl_lightning.models.frames.frame_world import FrameWorld
from rl_lightning.nn.frames.reward_net import HEADS, RewardNet
from rl_lightning.optim.optimizers import Adafactor, OptimizerFactory
from rl_lightning.types import EnvSpec, FrameWindow


class RewardModel(ModelModule):
    """Classifies the sign of the reward; the world it looks through stays as it is.

    Args:
        spec: What the env is like; filled in from the data.
        world_from: Artifact of the stage that learned the world.
        reward_net: spatial (MBARC) or mean (SimPLe).
        reward_loss: ce, or cbf (class-balanced focal loss; counts are those of the data, not of the draws).
        lr: Largest relative step of Adafactor; the learning rate of any other optimizer.
        optimizer: The optimizer, without its learning rate.
        max_grad_norm: Gradients are scaled down to this norm.
        context_steps: Steps that the world's memory is filled with before a step, if it has one.
        eval_rows: Held-out steps that an evaluation looks at; all that pay are among them.
    """

    learns_from = (FrameWindow,)
    action_kinds = ("discrete",)
    class_weight: Tensor
    reward_net: RewardNet

    def __init__(
        self,
        spec: EnvSpec,
        world_from: str,
        reward_net: str = "spatial",
        reward_loss: str = "ce",
        lr: float = 0.01,
        optimizer: OptimizerFactory | None = None,
        max_grad_norm: float = 1.0,
        context_steps: int = 4,
        eval_rows: int = 2000,
    ) -> None:
        super().__init__(spec)
        if reward_net not in HEADS:
            raise ConfigError(f"model.reward_net is '{reward_net}'; choose {' or '.join(HEADS)}")
        if reward_loss not in ("ce", "cbf"):
            raise ConfigError(f"model.reward_loss is '{reward_loss}'; choose ce or cbf")
        self.artifact, self.kind, self.reward_loss = world_from, reward_net, reward_loss
        self.lr, self.optimizer, self.max_grad_norm = lr, optimizer or Adafactor, max_grad_norm
        self.wanted_past, self.eval_rows = context_steps, eval_rows
        self.register_buffer("class_weight", torch.ones(CLASSES))
        if Path(world_from).expanduser().exists():  # in a dry run there is no artifact yet, and so no shapes
            self.reward_net = self.world.make_head(reward_net)

    @cached_property
    def world(self) -> FrameWorld:
        """The world; no part of this module, so that its weights are neither trained nor saved again."""
        with torch.device("cpu"):
            world = load_exported(self.artifact, "world")
        assert isinstance(world, FrameWorld)
        return world.for_simulation()

    @property
    def context_steps(self) -> int:
        return self.wanted_past if self.world.recurrent_state_size else 0

    def setup(self, stage: str) -> None:
        self.world.check_compatible(self.spec, self.artifact)  # a missing artifact is reported here

    def on_fit_start(self) -> None:
        self.world.to(self.device)
        if self.reward_loss == "cbf":
            counts = self.data_source.reward_counts()
            self.class_weight.copy_(class_balanced_weights(counts))

    def update(self, window: FrameWindow) -> Metrics:
        """One step on clean frames; bits come from the LSTM, as in imagination."""
        world = self.world
        with torch.no_grad():
            state = world.warm_up_state(window.past_stack, window.past_action, window.past_valid)
            features = world.features(window.stack, window.action[:, 0], state)
        logits, label = self.reward_net(features.mid, features.fin), reward_label(window.reward[:, 0])
        if self.reward_loss == "cbf":
            loss = focal_loss(logits, label, self.class_weight)
        else:
            loss = F.cross_entropy(logits, label)
        (optimizer,) = self.raw_optimizers()
        self.step(optimizer, loss, self.max_grad_norm)
        right = (logits.detach().argmax(-1) == label).float().mean()
        reward_fraction = (label != 1).float().mean()
        return {
            "train/loss": loss.detach(),
            "train/reward_accuracy": right,
            "train/reward_fraction": reward_fraction,
        }

    def validate(self, data: Any) -> dict[str, float]:
        """Held-out steps; the score is the mean recall of the classes that occur."""
        windows = data.val_reward_steps(self.eval_rows, self.context_steps)
        windows = FrameWindow(*(field.to(self.device) for field in windows))
        reward_classes = checks.predicted_rewards(self.world.to(self.device), self.reward_net, windows)
        return checks.reward_scores(reward_classes, reward_label(windows.reward[:, 0]))

    def exports(self) -> dict[str, Exported]:
        net = HEADS[self.kind]
        arguments = self.world.head_arguments()
        arguments["mid_size"] = list(arguments["mid_size"])
        return {"reward": Exported(f"{net.__module__}.{net.__qualname__}", arguments, "reward_net.")}

    def configure_optimizers(self) -> Optimizer:
        return self.optimizer(self.reward_net.parameters(), self.lr)
