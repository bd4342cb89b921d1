"""What buffers with one ring per env share: where rows of an episode's end go, and segments of every ring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from rl_lightning.errors import ResumeError
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.types import Steps


def rows_with_episode_ends(count: int, ended: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """When a last observation follows each ended step: those steps, the places of all, the places of the lasts."""
    after = np.array(sorted(ended), dtype=np.int64)
    steps = np.arange(count)
    return after, steps + np.searchsorted(after, steps), after + np.arange(len(after)) + 1


def ages(starts: np.ndarray, following: int) -> np.ndarray:
    """Rows since the episode's first one; before any start the count goes on from `following`."""
    place = np.arange(len(starts))
    last_start = np.maximum.accumulate(np.where(starts, place, -1))
    return np.where(last_start >= 0, place - last_start, following + place)


def between(steps: Steps, start: int, stop: int) -> Steps:
    """Some of the steps; what follows the last of them is not kept."""
    names = ("obs", "action", "reward", "terminated", "truncated", "is_first")
    cut = {name: getattr(steps, name)[start:stop] for name in names}
    ends = [(t - start, n, last) for t, n, last in steps.ends if start <= t < stop]
    return steps._replace(**cut, ends=ends, mask=None if steps.mask is None else steps.mask[start:stop])


def save_rings(store: SegmentStore, arrays: Mapping[str, Tensor], total: list[int], ring: int) -> None:
    """Puts what is new in every ring into the store. `total` counts what each ever held; arrays are [N, ring, ...]."""
    oldest = [max(0, count - ring) for count in total]
    store.records = [r for r in store.records if any(e > o for e, o in zip(r["end"], oldest, strict=True))]
    last = store.records[-1]["end"] if store.records else [0] * len(total)
    start = [max(a, b) for a, b in zip(oldest, last, strict=True)]
    if start == total:
        return
    tensors: dict[str, Tensor] = {}
    for n, end in enumerate(total):
        slots = torch.arange(start[n], end) % ring
        tensors |= {f"{n}/{name}": array[n, slots] for name, array in arrays.items()}
    store.append(tensors, start, list(total))


def load_rings(store: SegmentStore, arrays: Mapping[str, Tensor], total: list[int], ring: int) -> None:
    """Fills the rings from the segments that the store names."""
    for record in store.records:
        tensors = store.read(record)
        for n, count in enumerate(total):
            first = min(max(record["start"][n], count - ring), record["end"][n])
            slots = torch.arange(first, record["end"][n]) % ring
            for name, target in arrays.items():
                saved = tensors.get(f"{n}/{name}")
                if saved is None or saved.shape[1:] != target.shape[2:] or saved.dtype != target.dtype:
                    raise ResumeError(
                        f"{store.folder / record['file']}: {name} of another shape than this run's"
                    )
                target[n, slots] = saved[first - record["start"][n] :]


def is_current(index: Tensor, total: Sequence[int], ring: int) -> tuple[Tensor, Tensor]:
    """Rows after and before each flat index `env * ring + slot` in its ring; negative before: not there."""
    env, slot = index // ring, index % ring
    count = torch.tensor(total)[env]
    newer = (count - 1 - slot) % ring
    return newer, count.clamp(max=ring) - 1 - newer
