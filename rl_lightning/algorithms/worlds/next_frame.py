"""Learning a world frame by frame, along its own predictions (SimPLe, Kaiser et al. 2020; MBARC)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim import Optimizer

from rl_lightning import distributed, stop_request
from rl_lightning.algorithms.model_module import ModelModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.algorithms.step import set_lr
from rl_lightning.artifacts import Exported
from rl_lightning.errors import ConfigError
from rl_lightning.factories import make
from rl_lightning.functional.frame_losses import (
    clipped_frame_loss,
    motion_weights,
    noisy_colors,
    noisy_frames,
    rare_colors,
    rare_pixel_weights,
    teacher_forcing_prob,
)
from rl_lightning.functional.reward_classes import CLASSES, CrossEntropy, RewardLoss, reward_label
from rl_lightning.models.frames import frame_metrics as checks
from rl_lightning.models.frames.frame_world import FrameWorld, FrameWorldFactory, NextFramePredictor
from rl_lightning.models.imagined_windows import ImaginedWindows
from rl_lightning.nn.frames.next_frame_net import Features
from rl_lightning.optim.optimizers import Adafactor, OptimizerFactory
from rl_lightning.optim.schedules import Constant, Schedule
from rl_lightning.ranges import (
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveFraction,
    PositiveInt,
)
from rl_lightning.types import EnvSpec, FrameWindow

RARE_REACH = 4  # pixels: about as far as small things move in a step


class NextFrame(ModelModule):
    """One update walks through windows of frames and makes one gradient step at each position.

    What the world sees next is the true frame or, more and more often, its own prediction: no gradient crosses time.

    Args:
        spec: What the env is like; filled in from the data.
        predictor: The world's network.
        lr: Largest relative step of Adafactor; the learning rate of any other optimizer.
        lr_schedule: How the learning rate changes over the run; null: it does not.
        optimizer: The optimizer, without its learning rate.
        max_grad_norm: Gradients are scaled down to this norm.
        gamma: Discount of the value that the world learns beside its frames.
        scheduled_sampling_decay_steps: Gradient steps until inputs are the world's own predictions and latent bits
            are hard; the count goes on from cycle to cycle.
        input_noise: Fraction of input pixels that are blotted out.
        target_loss_clipping: Cross-entropy of a pixel below which it teaches nothing more.
        motion_weight: Weight of pixels that differ from the frame before. Above 1 a thing that moves is drawn although
            its place is not certain, where the likeliest class of every pixel would be the background.
        motion_weight_schedule: How that weight changes over the run; null: it does not. Large at first it finds
            small things soon, smaller at the end it draws them as small as they are.
        rare_pixel_weight: Weight of pixels near a colour that few pixels have, changed or not: a ball of four pixels
            then counts as much as a paddle of forty, and is drawn no fatter for it. Palettes only.
        rare_pixel_threshold: Fraction of all pixels below which a colour is rare.
        value_coef: Weight of the value's squared error.
        reward_loss: Of a reward head of the world's own; null: CrossEntropy.
        context_steps: Steps that the world's memory is filled with before a window, if it has one.
        eval_rows: Held-out steps, and a quarter as many windows, that an evaluation looks at.
        eval_horizons: Steps after which rollouts on its own are judged, as far as windows reach.
    """

    learns_from = (FrameWindow,)
    action_kinds = ("discrete",)
    gradient_steps: Tensor
    class_weight: Tensor
    rare: Tensor

    def __init__(
        self,
        spec: EnvSpec,
        predictor: FrameWorldFactory = NextFramePredictor,
        lr: NonNegativeFloat = 0.01,
        lr_schedule: Schedule | None = None,
        optimizer: OptimizerFactory | None = None,
        max_grad_norm: PositiveFloat = 1.0,
        gamma: Fraction = 0.99,
        scheduled_sampling_decay_steps: PositiveInt = 22_250,
        input_noise: Fraction = 0.05,
        target_loss_clipping: float = 0.03,
        motion_weight: PositiveFloat = 1.0,
        value_coef: float = 1.0,
        reward_loss: RewardLoss | None = None,
        context_steps: NonNegativeInt = 4,
        eval_rows: PositiveInt = 256,
        eval_horizons: list[PositiveInt] = [1, 5, 10, 25, 50],  # noqa: B006  (never mutated)
        motion_weight_schedule: Schedule | None = None,
        rare_pixel_weight: PositiveFloat = 1.0,
        rare_pixel_threshold: PositiveFraction = 0.001,
    ) -> None:
        super().__init__(spec)
        self.world = make(predictor, FrameWorld, "predictor", spec)
        self.lr, self.lr_schedule = lr, lr_schedule or Constant()
        self.optimizer, self.max_grad_norm = optimizer or Adafactor, max_grad_norm
        self.gamma, self.scheduled_sampling_decay_steps, self.input_noise = (
            gamma,
            scheduled_sampling_decay_steps,
            input_noise,
        )
        self.target_loss_clipping, self.motion_weight = target_loss_clipping, motion_weight
        self.motion_weight_schedule = motion_weight_schedule or Constant()
        if rare_pixel_weight != 1.0 and not self.world.colors:
            raise ConfigError(
                "model.rare_pixel_weight knows colours by their index; with predictor.colors 0 leave it at 1"
            )
        self.rare_pixel_weight, self.rare_pixel_threshold = rare_pixel_weight, rare_pixel_threshold
        self.value_coef, self.reward_loss = value_coef, reward_loss or CrossEntropy()
        self.context_steps = context_steps if self.world.recurrent_state_size else 0
        self.eval_rows, self.eval_horizons = eval_rows, list(eval_horizons)
        self.register_buffer("gradient_steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("class_weight", torch.ones(CLASSES))
        rare = torch.zeros(self.world.colors, dtype=torch.bool)  # told by the data, whenever a fit begins
        self.register_buffer("rare", rare, persistent=False)

    def on_fit_start(self) -> None:
        data: Any = self.data_source
        if self.world.seen is not None:
            counts = torch.stack(
                distributed.gather(data.color_counts(self.world.colors).to(self.device))
            ).sum(0)
            self.world.seen.copy_(counts > 0)
            self.rare.copy_(rare_colors(counts, self.rare_pixel_threshold))
        if self.world.reward is not None:
            self.class_weight.copy_(self.reward_loss.class_weight(data.reward_counts()))

    def update(self, window: FrameWindow) -> Metrics:
        """One gradient step at each of the window's positions."""
        (optimizer,) = self.raw_optimizers()
        set_lr(optimizer, self.lr_schedule, self.progress)
        world, length = self.world, window.action.shape[1]
        truth = teacher_forcing_prob(int(self.gradient_steps), self.scheduled_sampling_decay_steps)
        world.latent_anneal.fill_(1.0 - truth)
        stack = self._corrupt(window.stack)
        state = world.warm_up_state(window.past_stack, window.past_action, window.past_valid)
        previous: Features | None = None
        history: list[Metrics] = []
        for t in range(length):
            stop_request.raise_if_stopped()
            if (
                previous is not None
            ):  # here, so that the memory's own weights learn from the step that uses it
                state = world.next_state(state, previous)
            target = window.frame[:, t]
            features = world.features(stack, window.action[:, t], state, target, 1.0 - truth)
            logits = world.frame_logits(features)
            loss, metrics = self._losses(features, logits, window, t)
            self.step(optimizer, loss, self.max_grad_norm)
            history.append(metrics)
            if t + 1 < length:
                stack = world.push(
                    stack, self._corrupt(self._scheduled_input(logits.detach(), target, truth))
                )
                previous, state = _detached(features), None if state is None else state.detach()
        self.gradient_steps += length
        metrics = {key: torch.stack([entry[key] for entry in history]).mean() for key in history[0]}
        metrics["train/teacher_forcing_prob"] = torch.tensor(truth)
        metrics["train/gradient_steps"] = torch.tensor(float(length))
        return metrics

    def _scheduled_input(self, logits: Tensor, target: Tensor, truth: float) -> Tensor:
        """What the world sees of the step it predicted: the true frame, or its own."""
        guess = self.world.to_frame(logits)
        use_truth = torch.rand(len(guess), 1, 1, 1, device=guess.device) < truth
        return torch.where(use_truth, target, guess)

    def _corrupt(self, frames: Tensor) -> Tensor:
        if self.world.colors:
            return noisy_colors(frames, self.input_noise, self.world.colors)
        return noisy_frames(frames, self.input_noise)

    def _losses(
        self, features: Features, logits: Tensor, window: FrameWindow, t: int
    ) -> tuple[Tensor, Metrics]:
        before = window.frame[:, t - 1] if t else window.stack[:, -window.frame.shape[2] :]
        much = self.motion_weight_schedule.value(self.motion_weight, self.progress)
        weight = motion_weights(window.frame[:, t], before, much)
        if self.rare_pixel_weight != 1.0:
            rare = rare_pixel_weights(
                window.frame[:, t], before, self.rare, self.rare_pixel_weight, RARE_REACH
            )
            weight = rare if weight is None else weight * rare
        target = self.world.classes(window.frame[:, t])
        frame = clipped_frame_loss(logits, target, self.target_loss_clipping, weight)
        known = window.known[:, t].float()
        value = ((features.value - window.value[:, t]).square() * known).sum() / known.sum().clamp(min=1.0)
        latent = features.latent_loss / window.action.shape[1]
        loss = frame + self.value_coef * value + latent
        metrics = {
            "train/frame_loss": frame.detach(),
            "train/value_loss": value.detach(),
            "train/latent_loss": latent.detach(),
        }
        if self.world.reward is not None:
            reward_logits = self.world.reward(features.mid, features.fin)
            label = reward_label(window.reward[:, t])
            reward = self.reward_loss(reward_logits, label, self.class_weight)
            loss, metrics["train/reward_loss"] = loss + reward, reward.detach()
        if self.world.end is not None:
            end = F.binary_cross_entropy_with_logits(
                self.world.end(features.fin), window.terminated[:, t].float()
            )
            loss, metrics["train/termination_loss"] = loss + end, end.detach()
        return loss, {"train/loss": loss.detach(), **metrics}

    def validate(self, data: Any) -> dict[str, float]:
        """Held-out steps, the first of each window: the score is the accuracy on pixels that changed."""
        windows = self._here(data.val_windows(self.eval_rows, 1, self.context_steps))
        metrics = checks.one_step(self.world, windows)
        if self.world.reward is not None:
            reward_classes = checks.predicted_rewards(self.world, self.world.reward, windows)
            metrics |= checks.reward_scores(reward_classes, reward_label(windows.reward[:, 0]))
        return {**metrics, "eval/score": metrics["eval/changed_pixel_accuracy"], **self._open_loop(data)}

    def _open_loop(self, data: Any) -> dict[str, float]:
        for length in sorted(self.eval_horizons, reverse=True):
            windows = data.val_windows(max(1, self.eval_rows // 4), length, self.context_steps, strict=False)
            if windows is not None:
                return checks.open_loop(self.world, self._here(windows), self.eval_horizons)
        return {}

    def test_report(self, data: Any) -> dict[str, Any]:
        metrics = self.validate(data)
        loop = {
            k.removeprefix("eval/"): v for k, v in metrics.items() if "open_loop" in k or "copy_error" in k
        }
        rest: dict[str, Any] = {k: v for k, v in metrics.items() if k.removeprefix("eval/") not in loop}
        return {**rest, "open_loop": loop}

    def open_loop_frames(self, data: Any, length: int) -> tuple[Tensor, Tensor]:
        """A held-out window as it was, and as the world rolls on by itself from its start.  [T, C, H, W] each"""
        while length > 1 and data.val_windows(1, length, self.context_steps, strict=False) is None:
            length //= 2
        window = self._here(data.val_windows(1, length, self.context_steps))
        return window.frame[0].cpu(), checks.open_loop_rollout(self.world, window, length)[0].cpu()

    def imagine_windows(self, data: Any, horizon: int) -> ImaginedWindows | None:
        """Held-out windows, shorter where no held-out episode has as many steps."""
        while horizon > 1 and data.val_windows(1, horizon, self.context_steps, strict=False) is None:
            horizon //= 2
        windows = data.val_windows(max(1, self.eval_rows // 4), horizon, self.context_steps)
        return checks.imagined_windows(self.world, self._here(windows))

    def _here(self, window: FrameWindow) -> FrameWindow:
        return FrameWindow(*(field.to(self.device) for field in window))

    def exports(self) -> dict[str, Exported]:
        return {"world": self.world.exported("world.")}

    def configure_optimizers(self) -> Optimizer:
        return self.optimizer(self.world.parameters(), self.lr)


def _detached(features: Features) -> Features:
    return Features(*(part.detach() for part in features))
