"""What a predictor of frames is taught and judged by. Frames are classes per pixel: [B, K, C, H, W] logits."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

UNSEEN = -100  # class of a pixel that nothing is learned from


def clipped_frame_loss(logits: Tensor, frame: Tensor, clip: float, weight: Tensor | None = None) -> Tensor:
    """Cross-entropy per pixel; what is already below `clip` teaches nothing more.  [B, K, C, H, W], [B, C, H, W]"""
    assert logits.shape[2:] == frame.shape[1:], (logits.shape, frame.shape)
    error = F.cross_entropy(logits, frame.long(), reduction="none", ignore_index=UNSEEN).clamp(min=clip)
    error = error - clip
    return error.mean() if weight is None else (error * weight).mean()


def motion_weights(frame: Tensor, before: Tensor, weight: float) -> Tensor | None:
    """`weight` for pixels that changed, 1 for the others; None where all are alike."""
    return None if weight == 1.0 else torch.where(frame != before, weight, 1.0)


def rare_colors(counts: Tensor, share: float) -> Tensor:
    """Which colours are there, but have less than a fraction of all pixels.  [K] -> [K] bool"""
    return (counts > 0) & (counts < share * counts.sum())


def mean_place(there: Tensor) -> Tensor:
    """Mean row and column of the pixels that are marked, NaN where none is.  [..., H, W] bool -> [..., 2]"""
    marked = there.float()
    rows, columns = (torch.arange(size, device=there.device).float() for size in there.shape[-2:])
    place = torch.stack([marked.sum(-1) @ rows, marked.sum(-2) @ columns], -1)
    return place / marked.sum((-2, -1))[..., None]


def rare_pixel_weights(frame: Tensor, before: Tensor, rare: Tensor, weight: float, reach: int) -> Tensor:
    """`weight` for pixels at most `reach` rows and columns from a rare colour, before or now; 1 for the others.

    [B, C, H, W] indices of colours, twice, and [K] bool
    """
    there = (rare[frame.long()] | rare[before.long()]).float()
    near = F.max_pool2d(there, 2 * reach + 1, 1, reach)
    return 1.0 + (weight - 1.0) * near


def teacher_forcing_prob(steps: int, scheduled_sampling_decay_steps: int) -> float:
    """Scheduled sampling: how often the next input is the true frame; near 1 at first, 0 from
    `scheduled_sampling_decay_steps` on.

    An exponential ramp over the first quarter, a straight line all the way.
    """
    if scheduled_sampling_decay_steps <= 0:
        return 0.0
    quarter = max(1, scheduled_sampling_decay_steps // 4)
    ramp = 0.01 ** (max(quarter - steps, 0) / quarter)
    return 1.0 - ramp * (0.01 + 0.99 * min(steps / scheduled_sampling_decay_steps, 1.0))


def noisy_frames(stack: Tensor, rate: float, generator: torch.Generator | None = None) -> Tensor:
    """Pixels of a stack [B, C, H, W] replaced, each with probability `rate`, by the batch's median."""
    if rate <= 0.0:
        return stack
    keep = torch.rand(stack.shape, generator=generator, device=stack.device) >= rate
    return torch.where(keep, stack, stack.flatten().median())


def noisy_colors(stack: Tensor, rate: float, colors: int, generator: torch.Generator | None = None) -> Tensor:
    """The same for indices of colours, which have no median: replaced by the commonest of the batch."""
    if rate <= 0.0:
        return stack
    keep = torch.rand(stack.shape, generator=generator, device=stack.device) >= rate
    return torch.where(keep, stack, most_common_color(stack, colors))


def most_common_color(stack: Tensor, colors: int) -> Tensor:
    return torch.bincount(stack.flatten().long(), minlength=colors).argmax().to(stack.dtype)


def changed_accuracy(guess: Tensor, truth: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
    """Right pixels among those that changed, and how many changed: copying the last frame scores 0."""
    changed = truth != before
    return ((guess == truth) & changed).sum(), changed.sum()


def standardize(planes: Tensor) -> Tensor:
    """Zero mean and unit spread of each plane of each sample, the spread held above 1/sqrt(H W).  [B, C, H, W]"""
    std, mean = torch.std_mean(planes, dim=(-2, -1), keepdim=True, correction=0)
    return (planes - mean) / std.clamp(min=1.0 / math.sqrt(planes.shape[-2] * planes.shape[-1]))
