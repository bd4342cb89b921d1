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
from rl_lightning.artifacts import Provided
from rl_lightning.errors import ConfigError
from rl_lightning.functional.frame_losses import (
    change_weights,
    clipped_frame_loss,
    noisy_colors,
    noisy_frames,
    rare_colors,
    rare_weights,
    true_frame_probability,
)
from rl_lightning.functional.reward_classes import CLASSES, class_balanced_weights, focal_loss, reward_label
from rl_lightning.models.frames import frame_metrics as checks
from rl_lightning.models.frames.frame_world import NextFramePredictor
from rl_lightning.nn.frames.next_frame_net import Features
from rl_lightning.optim.optimizers import Adafactor, OptimizerRecipe
from rl_lightning.optim.schedules import Constant, Schedule
from rl_lightning.types import EnvSpec, FrameWindow

RARE_REACH = 4  # pixels: about as far as small things move in a step


class NextFrame(ModelModule):
    """One update walks through windows of frames and makes one gradient step at each position.

    What the world sees next is the true frame or, more and more often, its own prediction: no gradient crosses time.

    Args:
        spec: What the env is like; filled in from the data.
        network: The world's network.
        lr: Largest relative step of Adafactor; the learning rate of any other optimizer.
        lr_schedule: How the rate changes over the run; null: it does not.
        optimizer: The optimizer, without its rate.
        max_grad_norm: Gradients are scaled down to this norm.
        gamma: Discount of the value that the world learns beside its frames.
        decay_steps: Gradient steps until inputs are the world's own predictions and latent bits are hard; the count
            goes on from cycle to cycle.
        input_noise: Share of input pixels that are blotted out.
        target_clip: Cross-entropy of a pixel below which it teaches nothing more.
        changed_weight: Weight of pixels that differ from the frame before. Above 1 a thing that moves is drawn although
            its place is not certain, where the likeliest class of every pixel would be the background.
        changed_schedule: How that weight changes over the run; null: it does not. Large at first it finds small things
            soon, smaller at the end it draws them as small as they are.
        rare_weight: Weight of pixels near a colour that few pixels have, changed or not: a ball of four pixels then
            counts as much as a paddle of forty, and is drawn no fatter for it. Palettes only.
        rare_share: Share of all pixels below which a colour is rare.
        value_weight: Weight of the value's squared error.
        reward_loss: Of a reward head of the world's own: ce, or cbf (class-balanced focal loss).
        past: Steps that the world's memory is filled with before a window, if it has one.
        checked: Held-out steps, and a quarter as many windows, that an evaluation looks at.
        horizons: Steps after which rollouts on its own are judged, as far as windows reach.
    """

    learns_from = (FrameWindow,)
    action_kinds = ("discrete",)
    gradient_steps: Tensor
    class_weight: Tensor
    rare: Tensor

    def __init__(
        self,
        spec: EnvSpec,
        network: NextFramePredictor | None = None,
        lr: float = 0.01,
        lr_schedule: Schedule | None = None,
        optimizer: OptimizerRecipe | None = None,
        max_grad_norm: float = 1.0,
        gamma: float = 0.99,
        decay_steps: int = 22_250,
        input_noise: float = 0.05,
        target_clip: float = 0.03,
        changed_weight: float = 1.0,
        value_weight: float = 1.0,
        reward_loss: str = "ce",
        past: int = 4,
        checked: int = 256,
        horizons: list[int] = [1, 5, 10, 25, 50],  # noqa: B006  (never mutated)
        changed_schedule: Schedule | None = None,
        rare_weight: float = 1.0,
        rare_share: float = 0.001,
    ) -> None:
        super().__init__(spec)
        if changed_weight <= 0.0:
            raise ConfigError(f"model.changed_weight is {changed_weight}; it is a weight above 0")
        if rare_weight <= 0.0:
            raise ConfigError(f"model.rare_weight is {rare_weight}; it is a weight above 0")
        if not 0.0 < rare_share <= 1.0:
            raise ConfigError(f"model.rare_share is {rare_share}; it is a share above 0, of at most 1")
        if reward_loss not in ("ce", "cbf"):
            raise ConfigError(f"model.reward_loss is '{reward_loss}'; choose ce or cbf")
        self.world = (network or NextFramePredictor()).build(spec)
        self.lr, self.lr_schedule = lr, lr_schedule or Constant()
        self.optimizer, self.max_grad_norm = optimizer or Adafactor(), max_grad_norm
        self.gamma, self.decay_steps, self.input_noise = gamma, decay_steps, input_noise
        self.target_clip, self.changed_weight = target_clip, changed_weight
        self.changed_schedule = changed_schedule or Constant()
        if rare_weight != 1.0 and not self.world.colors:
            raise ConfigError(
                "model.rare_weight knows colours by their index; with network.colors 0 leave it at 1"
            )
        self.rare_weight, self.rare_share = rare_weight, rare_share
        self.value_weight, self.reward_loss = value_weight, reward_loss
        self.past = past if self.world.state_size else 0
        self.checked, self.horizons = checked, list(horizons)
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
            self.rare.copy_(rare_colors(counts, self.rare_share))
        if self.reward_loss == "cbf":
            self.class_weight.copy_(class_balanced_weights(data.reward_counts()))

    def update(self, window: FrameWindow) -> Metrics:
        """One gradient step at each of the window's positions."""
        (optimizer,) = self.raw_optimizers()
        set_lr(optimizer, self.lr_schedule, self.progress)
        world, length = self.world, window.action.shape[1]
        truth = true_frame_probability(int(self.gradient_steps), self.decay_steps)
        world.certain.fill_(1.0 - truth)
        stack = self._blot(window.stack)
        state = world.recall(window.past_stack, window.past_action, window.past_valid)
        seen: Features | None = None
        history: list[Metrics] = []
        for t in range(length):
            stop_request.poll()
            if seen is not None:  # here, so that the memory's own weights learn from the step that uses it
                state = world.next_state(state, seen)
            target = window.frame[:, t]
            found = world.features(stack, window.action[:, t], state, target, 1.0 - truth)
            logits = world.frame_logits(found)
            loss, metrics = self._losses(found, logits, window, t)
            self.step(optimizer, loss, self.max_grad_norm)
            history.append(metrics)
            if t + 1 < length:
                stack = world.push(stack, self._blot(self._shown(logits.detach(), target, truth)))
                seen, state = _detached(found), None if state is None else state.detach()
        self.gradient_steps += length
        metrics = {key: torch.stack([entry[key] for entry in history]).mean() for key in history[0]}
        metrics["train/true_frames"] = torch.tensor(truth)
        metrics["train/gradient_steps"] = torch.tensor(float(length))
        return metrics

    def _shown(self, logits: Tensor, target: Tensor, truth: float) -> Tensor:
        """What the world sees of the step it foretold: the true frame, or its own."""
        guess = self.world.shown(logits)
        given = torch.rand(len(guess), 1, 1, 1, device=guess.device) < truth
        return torch.where(given, target, guess)

    def _blot(self, frames: Tensor) -> Tensor:
        if self.world.colors:
            return noisy_colors(frames, self.input_noise, self.world.colors)
        return noisy_frames(frames, self.input_noise)

    def _losses(self, found: Features, logits: Tensor, window: FrameWindow, t: int) -> tuple[Tensor, Metrics]:
        before = window.frame[:, t - 1] if t else window.stack[:, -window.frame.shape[2] :]
        much = self.changed_schedule.value(self.changed_weight, self.progress)
        weight = change_weights(window.frame[:, t], before, much)
        if self.rare_weight != 1.0:
            rare = rare_weights(window.frame[:, t], before, self.rare, self.rare_weight, RARE_REACH)
            weight = rare if weight is None else weight * rare
        target = self.world.classes(window.frame[:, t])
        frame = clipped_frame_loss(logits, target, self.target_clip, weight)
        known = window.known[:, t].float()
        value = ((found.value - window.value[:, t]).square() * known).sum() / known.sum().clamp(min=1.0)
        latent = found.latent_loss / window.action.shape[1]
        loss = frame + self.value_weight * value + latent
        metrics = {
            "train/frame_loss": frame.detach(),
            "train/value_loss": value.detach(),
            "train/latent_loss": latent.detach(),
        }
        if self.world.reward is not None:
            told = self.world.reward(found.mid, found.fin)
            reward = self._reward_loss(told, reward_label(window.reward[:, t]))
            loss, metrics["train/reward_loss"] = loss + reward, reward.detach()
        if self.world.end is not None:
            end = F.binary_cross_entropy_with_logits(
                self.world.end(found.fin), window.terminated[:, t].float()
            )
            loss, metrics["train/end_loss"] = loss + end, end.detach()
        return loss, {"train/loss": loss.detach(), **metrics}

    def _reward_loss(self, logits: Tensor, label: Tensor) -> Tensor:
        if self.reward_loss == "cbf":
            return focal_loss(logits, label, self.class_weight)
        return F.cross_entropy(logits, label)

    def assess(self, data: Any) -> dict[str, float]:
        """Held-out steps, the first of each window: the score is the accuracy on pixels that changed."""
        windows = self._here(data.holdout_windows(self.checked, 1, self.past))
        found = checks.one_step(self.world, windows)
        if self.world.reward is not None:
            told = checks.told_rewards(self.world, self.world.reward, windows)
            found |= checks.reward_scores(told, reward_label(windows.reward[:, 0]))
        return {**found, "eval/score": found["eval/changed_accuracy"], **self._open_loop(data)}

    def _open_loop(self, data: Any) -> dict[str, float]:
        for length in sorted(self.horizons, reverse=True):
            windows = data.holdout_windows(max(1, self.checked // 4), length, self.past, strict=False)
            if windows is not None:
                return checks.open_loop(self.world, self._here(windows), self.horizons)
        return {}

    def report(self, data: Any) -> dict[str, Any]:
        found = self.assess(data)
        loop = {k.removeprefix("eval/"): v for k, v in found.items() if "open_loop" in k or "copy_error" in k}
        rest: dict[str, Any] = {k: v for k, v in found.items() if k.removeprefix("eval/") not in loop}
        return {**rest, "open_loop": loop}

    def dream(self, data: Any, length: int) -> tuple[Tensor, Tensor]:
        """A held-out window as it was, and as the world rolls on by itself from its start.  [T, C, H, W] each"""
        while length > 1 and data.holdout_windows(1, length, self.past, strict=False) is None:
            length //= 2
        window = self._here(data.holdout_windows(1, length, self.past))
        return window.frame[0].cpu(), checks.roll(self.world, window, length)[0].cpu()

    def _here(self, window: FrameWindow) -> FrameWindow:
        return FrameWindow(*(field.to(self.device) for field in window))

    def provides(self) -> dict[str, Provided]:
        return {"world": self.world.provided("world.")}

    def configure_optimizers(self) -> Optimizer:
        return self.optimizer.build(self.world.parameters(), self.lr)


def _detached(found: Features) -> Features:
    return Features(*(part.detach() for part in found))
