"""Which rows are held out: the same ones for every stage of a seed, and for whoever asks later."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from rl_lightning.seeding import derive

ASSESSED = 0.1  # of the data that is held out for a model that is assessed on it


def split_rows(
    recording: Tensor, fraction: float, split: Literal["episode", "transition"], seed: int
) -> tuple[Tensor, Tensor]:
    """Numbers of the rows to train on and of those held out.

    Args:
        recording: Which rows were recorded in one episode.
        fraction: How much is held out.
        split: Whole episodes, or single rows.
        seed: Of the run.
    """
    count = len(recording)
    shuffle = torch.Generator().manual_seed(derive(seed, "holdout"))
    if fraction == 0.0:
        return torch.arange(count), torch.arange(0)
    if split == "transition":
        order = torch.randperm(count, generator=shuffle)
        held = torch.zeros(count, dtype=torch.bool)
        held[order[: max(1, round(fraction * count))]] = True
    else:
        names, place, sizes = torch.unique_consecutive(recording, return_inverse=True, return_counts=True)
        order = torch.randperm(len(names), generator=shuffle)
        before = sizes[order].cumsum(0) - sizes[order]
        chosen = order[before < fraction * count][: len(names) - 1]
        held = torch.zeros(len(names), dtype=torch.bool)
        held[chosen] = True
        held = held[place]
    return (~held).nonzero()[:, 0], held.nonzero()[:, 0]
