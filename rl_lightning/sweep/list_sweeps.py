"""`rl sweep --list`: the sweeps here, and how far each is."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from rl_lightning.analysis.listing import rows_text
from rl_lightning.runs.store.run_folder import logs_root
from rl_lightning.sweep.run_sweep import FILE


def list_sweeps(edge: int | None = None) -> str:
    root = logs_root()
    paths = sorted(root.glob(f"*/{FILE}")) if root.is_dir() else []
    rows = [{"sweep": path.parent.name, **standing(path.parent)} for path in paths]
    nothing = "no sweeps here yet; start one with: rl sweep --config sweep/ppo-cartpole"
    return rows_text(rows, nothing=nothing, edge=edge)


def standing(folder: Path) -> dict[str, Any]:
    """What trials.csv and the runs' records say, without opening the study."""
    counts: dict[str, Any] = {"complete": 0, "pruned": 0, "fail": 0, "waiting": 0, "best": None}
    try:
        with open(folder / "trials.csv", newline="", encoding="utf-8") as file:
            entries = list(csv.DictReader(file))
    except OSError:
        return counts
    for entry in entries:
        state = entry.get("state") if entry.get("state") in counts else "waiting"
        counts[str(state)] += 1
    header = folder / "best.yaml"
    if header.is_file():
        first = header.read_text(encoding="utf-8").splitlines()[0]
        counts["best"] = float(first.rpartition(" ")[2])
    return counts
