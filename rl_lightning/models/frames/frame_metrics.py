"""How well a world of frames predicts: pixels that changed, whole frames, and rollouts it must feed itself."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rl_lightning.functional.frame_losses import changed_accuracy
from rl_lightning.models.frames.frame_world import FrameWorld
from rl_lightning.models.imagined_windows import ImaginedWindows
from rl_lightning.nn.frames.reward_net import RewardNet
from rl_lightning.types import FrameWindow

CHUNK = 64  # windows looked at together


def chunks(windows: FrameWindow, size: int = CHUNK) -> list[FrameWindow]:
    columns = [field.split(size) for field in windows]
    return [FrameWindow(*parts) for parts in zip(*columns, strict=True)]


@torch.no_grad()
def open_loop_rollout(world: FrameWorld, window: FrameWindow, length: int) -> Tensor:
    """Frames that the world sees by itself along the true actions.  -> [B, length, C, H, W]"""
    stack = window.stack
    state = world.warm_up_state(window.past_stack, window.past_action, window.past_valid)
    frames = []
    for t in range(length):
        features = world.features(stack, window.action[:, t], state)
        frame = world.mode(features)
        frames.append(frame)
        stack, state = world.push(stack, frame), world.next_state(state, features)
    return torch.stack(frames, 1)


@torch.no_grad()
def imagined_windows(
    world: FrameWorld, window: FrameWindow, head: RewardNet | None = None
) -> ImaginedWindows:
    """Windows as they came, and as the world goes on by itself; a step's error is the fraction of wrong pixels.

    Args:
        world: What comes next.
        window: Frames, what was seen before them, and the actions.
        head: What a step pays; null: the world's own head, if it has one.
    """
    head = head or world.reward
    state = world.warm_up_state(window.past_stack, window.past_action, window.past_valid)
    stack, frames, rewards = window.stack, [], []
    for t in range(window.action.shape[1]):
        features = world.features(stack, window.action[:, t], state)
        frames.append(world.mode(features))
        stack, state = world.push(stack, frames[-1]), world.next_state(state, features)
        if head is not None:
            rewards.append(head(features.mid, features.fin).argmax(-1) - 1)
    imagined, first = torch.stack(frames, 1), window.stack[:, None, -window.frame.shape[2] :]
    return ImaginedWindows(
        "wrong pixels of all",
        world.num_stack,
        (imagined != window.frame).float().mean((2, 3, 4)),
        (first != window.frame).float().mean((2, 3, 4)),
        window.reward,
        torch.stack(rewards, 1).float() if rewards else None,
        torch.ones_like(window.reward, dtype=torch.bool),
        window.frame,
        imagined,
        colors=world.colors,
    )


@torch.no_grad()
def one_step(world: FrameWorld, windows: FrameWindow) -> dict[str, float]:
    """The first step of each window: accuracy on changed pixels, on all pixels, and of whole frames."""
    right = changed = same = pixels = exact = copied = error = weight = 0.0
    for window in chunks(windows):
        state = world.warm_up_state(window.past_stack, window.past_action, window.past_valid)
        features = world.features(window.stack, window.action[:, 0], state)
        guess, truth = world.mode(features), window.frame[:, 0]
        before = window.stack[:, -truth.shape[1] :]
        hit, moved = changed_accuracy(guess, truth, before)
        right, changed = right + float(hit), changed + float(moved)
        same, pixels = same + float((guess == truth).sum()), pixels + truth.numel()
        exact += float((guess == truth).flatten(1).all(1).sum())
        copied += float((before == truth).sum())
        known = window.known[:, 0]
        error += float(((features.value - window.value[:, 0]).square() * known).sum())
        weight += float(known.sum())
    return {
        "eval/changed_pixel_accuracy": right / max(changed, 1.0),
        "eval/pixel_accuracy": same / pixels,
        "eval/copy_baseline_accuracy": copied / pixels,
        "eval/exact_frame_fraction": exact / len(windows.action),
        "eval/value_error": error / max(weight, 1.0),
    }


@torch.no_grad()
def open_loop(world: FrameWorld, windows: FrameWindow, horizons: Sequence[int]) -> dict[str, float]:
    """Wrong pixels after so many steps on its own, and those of the first frame, copied."""
    there = [h for h in horizons if h <= windows.action.shape[1]]
    if not there:
        return {}
    wrong, still, count = dict.fromkeys(there, 0.0), dict.fromkeys(there, 0.0), 0
    for window in chunks(windows):
        frames = open_loop_rollout(world, window, max(there))
        first = window.stack[:, -frames.shape[2] :]
        count += len(frames)
        for h in there:
            truth = window.frame[:, h - 1]
            wrong[h] += float((frames[:, h - 1] != truth).float().mean((1, 2, 3)).sum())
            still[h] += float((first != truth).float().mean((1, 2, 3)).sum())
    metrics = {f"eval/open_loop_error_{h}": wrong[h] / count for h in there}
    return metrics | {f"eval/copy_baseline_error_{h}": still[h] / count for h in there}


@torch.no_grad()
def predicted_rewards(world: FrameWorld, head: RewardNet, windows: FrameWindow) -> Tensor:
    """The reward class that a head tells for the first step of each window.  -> [N]"""
    classes = []
    for window in chunks(windows):
        state = world.warm_up_state(window.past_stack, window.past_action, window.past_valid)
        features = world.features(window.stack, window.action[:, 0], state)
        classes.append(head(features.mid, features.fin).argmax(-1))
    return torch.cat(classes)


def reward_scores(predicted: Tensor, label: Tensor) -> dict[str, float]:
    """Recall and precision of each class that occurs, and the mean recall, by which a head is ranked."""
    metrics: dict[str, float] = {"eval/reward_accuracy": float((predicted == label).float().mean())}
    recalls = []
    for k, name in enumerate(("minus", "zero", "plus")):
        there, said = label == k, predicted == k
        if there.any():
            recalls.append(float(said[there].float().mean()))
            metrics[f"eval/reward_recall_{name}"] = recalls[-1]
        if said.any():
            metrics[f"eval/reward_precision_{name}"] = float(there[said].float().mean())
    return metrics | {
        "eval/score": sum(recalls) / len(recalls),
        "eval/num_rewarded_steps": float((label != 1).sum()),
    }
