"""What a run has left behind, ready to be compared bit for bit."""

import csv
from pathlib import Path
from typing import Any

import torch

from rl_lightning.checkpoints.checkpoint_store import CheckpointStore
from rl_lightning.io.checkpoint_files import read_file, read_meta
from rl_lightning.replay.segments import SegmentStore


def metrics(folder: Path) -> list[dict[str, str]]:
    """metrics.csv without what the clock on the wall says."""
    with (folder / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [{key: value for key, value in row.items() if not key.startswith("time/")} for row in rows]


def column(folder: Path, name: str) -> list[float]:
    return [float(row[name]) for row in metrics(folder) if row.get(name)]


def newest(run: Path) -> Path:
    """The newest whole generation of a run's checkpoints."""
    return CheckpointStore(run / "checkpoints").newest_valid()[0]


def state(run: Path, best: bool = False) -> dict[str, Any]:
    """All that must not depend on where a run was stopped: its newest checkpoint, of every rank, and its files.

    The best weights are asked for apart: they hang on where a smaller budget ended, since that was evaluated too.
    """
    generation = newest(run)
    model = read_file(generation / "model.ckpt")
    own = [read_file(path) for path in sorted(generation.glob("rank-*.pt"))]
    assert own, generation
    return {
        "clocks": [read_meta(generation)[key] for key in ("env_step", "update")],
        "weights": model["state_dict"],
        "optimizers": model["optimizer_states"],
        "rows": [
            _rows(rank["data"], run / "checkpoints" / "replay" / f"rank-{place}")
            for place, rank in enumerate(own)
        ],
        "own": own,
        "best": read_file(run / "checkpoints" / "best.ckpt") if best else None,
        "metrics": metrics(run),
        "episodes": played.read_text() if (played := run / "eval.jsonl").exists() else "",
    }


class Rows(dict[str, torch.Tensor]):
    """What one buffer holds, oldest first."""


def _rows(data: Any, folder: Path) -> list[Rows]:
    """Takes out how rows are spread over files, which hangs on when they were saved; returns the rows themselves."""
    if not isinstance(data, dict):
        return []
    rows = []
    for segments in [data.pop("segments")] if "segments" in data else []:
        parts = [SegmentStore(folder).read(segment) for segment in segments]
        names = parts[0] if parts else ()
        rows.append(Rows({name: torch.cat([part[name] for part in parts]) for name in names}))
    return rows + [found for value in data.values() for found in _rows(value, folder)]


def assert_same(a: Any, b: Any, where: str = "run") -> None:
    """Equal to the last bit, types included; NaN equals NaN."""
    if "observation_space" in where:  # a generator that nobody draws from, seeded by the system
        return
    assert type(a) is type(b), (where, type(a), type(b))
    if isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype and a.shape == b.shape, (where, a.dtype, b.dtype, a.shape, b.shape)
        if a.is_floating_point():
            assert torch.equal(a.isnan(), b.isnan()), where
            a, b = a.nan_to_num(), b.nan_to_num()
        assert torch.equal(a, b), where
    elif isinstance(a, Rows):
        assert a.keys() == b.keys(), (where, a.keys() ^ b.keys())
        for name in a:  # files may still hold what the ring has overwritten since
            count = min(len(a[name]), len(b[name]))
            # By their bits: bytes of pictures that are kept in the place of numbers may look like NaN.
            bits = [rows[name][-count:].contiguous().view(torch.uint8) for rows in (a, b)]
            assert torch.equal(*bits), f"{where}.{name}"
    elif isinstance(a, dict):
        assert a.keys() == b.keys(), (where, a.keys() ^ b.keys())
        for key in a:
            assert_same(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), (where, len(a), len(b))
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same(x, y, f"{where}[{i}]")
    else:
        assert a == b or (a != a and b != b), (where, a, b)
