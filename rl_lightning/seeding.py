"""Every random source of a run: derived from one seed by name and rank, saved and restored as plain values."""

from __future__ import annotations

import hashlib
import random
from typing import Any

import numpy as np
import torch


def derive(seed: int, name: str, rank: int = 0) -> int:
    """A seed of its own for the source called `name` on `rank`: independent of all others, stable for ever."""
    digest = hashlib.sha256(f"{seed}/{name}/{rank}".encode()).digest()
    return int.from_bytes(digest[:4], "little") & 0x7FFFFFFF


def torch_generator(seed: int, name: str) -> torch.Generator:
    return torch.Generator().manual_seed(derive(seed, name))


def numpy_generator(seed: int, name: str) -> np.random.Generator:
    return np.random.default_rng(derive(seed, name))


def seed_globals(seed: int, name: str = "global", rank: int = 0) -> None:
    value = derive(seed, name, rank)
    random.seed(value)
    np.random.seed(value)
    torch.manual_seed(value)


def global_state() -> dict[str, Any]:
    """State of the global generators, in types that a weights-only load accepts."""
    kind, keys, position, has_gauss, gauss = np.random.get_state(legacy=True)
    return {
        "python": random.getstate(),
        "numpy": (
            str(kind),
            torch.from_numpy(np.array(keys, dtype=np.int64)),
            int(position),
            int(has_gauss),
            float(gauss),
        ),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def set_global_state(state: dict[str, Any]) -> None:
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    kind, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), position, has_gauss, cached))
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
