"""A reward head on the frozen features of a learned world, taught by steps chosen against the rarity of rewards."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from rl_lightning.algorithms.model_module import ModelModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.artifacts import Exported, load_exported
from rl_lightning.functional.reward_classes import CLASSES, CrossEntropy, RewardLoss, reward_label
from rl_lightning.io.artifact_place import Artifact
from rl_lightning.models.described import describe
from rl_lightning.models.frames import frame_metrics as checks
from rl_lightning.models.frames.frame_world import FrameWorld
from rl_lightning.models.frames.written_reward_net import WrittenRewardNet
from rl_lightning.nn.frames.reward_net import RewardNetFactory, SpatialRewardNet
from rl_lightning.optim.optimizers import Adafactor, OptimizerFactory
from rl_lightning.ranges import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from rl_lightning.types import EnvSpec, FrameWindow


class RewardModel(ModelModule):
    """Classifies the sign of the reward; the world it looks through stays as it is.

    Args:
        spec: What the env is like; filled in from the data.
        world_from: Artifact of the stage that learned the world.
        reward_net: The head: SpatialRewardNet (MBARC) or MeanRewardNet (SimPLe).
        reward_loss: What it is taught by, e.g. ClassBalancedFocal; null: CrossEntropy.
        lr: Largest relative step of Adafactor; the learning rate of any other optimizer.
        optimizer: The optimizer, without its learning rate.
        max_grad_norm: Gradients are scaled down to this norm.
        context_steps: Steps that the world's memory is filled with before a step, if it has one.
        eval_rows: Held-out steps that an evaluation looks at; all that pay are among them.
    """

    learns_from = (FrameWindow,)
    action_kinds = ("discrete",)
    class_weight: Tensor
    reward_net: WrittenRewardNet

    def __init__(
        self,
        spec: EnvSpec,
        world_from: Artifact,
        reward_net: RewardNetFactory = SpatialRewardNet,
        reward_loss: RewardLoss | None = None,
        lr: NonNegativeFloat = 0.01,
        optimizer: OptimizerFactory | None = None,
        max_grad_norm: PositiveFloat = 1.0,
        context_steps: NonNegativeInt = 4,
        eval_rows: PositiveInt = 2000,
    ) -> None:
        super().__init__(spec)
        self.artifact, self.factory = world_from, reward_net
        self.reward_loss = reward_loss or CrossEntropy()
        self.lr, self.optimizer, self.max_grad_norm = lr, optimizer or Adafactor, max_grad_norm
        self.wanted_past, self.eval_rows = context_steps, eval_rows
        self.register_buffer("class_weight", torch.ones(CLASSES))
        if Path(world_from).expanduser().exists():  # in a dry run there is no artifact yet, and so no shapes
            self.reward_net = WrittenRewardNet(**self._head_arguments())

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
        self.class_weight.copy_(self.reward_loss.class_weight(self.data_source.reward_counts()))

    def update(self, window: FrameWindow) -> Metrics:
        """One step on clean frames; bits come from the LSTM, as in imagination."""
        world = self.world
        with torch.no_grad():
            state = world.warm_up_state(window.past_stack, window.past_action, window.past_valid)
            features = world.features(window.stack, window.action[:, 0], state)
        logits, label = self.reward_net(features.mid, features.fin), reward_label(window.reward[:, 0])
        loss = self.reward_loss(logits, label, self.class_weight)
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
        path = f"{WrittenRewardNet.__module__}.{WrittenRewardNet.__qualname__}"
        return {"reward": Exported(path, self._head_arguments(), "reward_net.")}

    def _head_arguments(self) -> dict[str, Any]:
        maps = self.world.feature_maps._asdict()
        return {
            "head": describe(self.factory),
            "maps": {**maps, "mid_size": list(maps["mid_size"])},
        }

    def configure_optimizers(self) -> Optimizer:
        return self.optimizer(self.reward_net.parameters(), self.lr)
