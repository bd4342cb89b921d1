"""Is fitted-Q evaluation right? Policies of BC and IQL, and random actions, on Hopper: the value that FQE finds in
recorded rows alone, beside the discounted return of episodes that are played.

    python benchmarks/fqe.py --folder /tmp/fqe            records, trains, values and plays: an hour on one core
    python benchmarks/fqe.py --folder /tmp/fqe --quick    does it run?

Bars: each value within 15% of the truth, the order right, each FQE run under 15 minutes. Twenty episodes are played of
each policy; random ones are short and differ much, so that ten times as many are needed to know their mean within a few
percent. What is in the folder already is not made again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

GAMMA = 0.99
BAR, MINUTES = 0.15, 15.0
ROWS = "local/hopper-medium-replay"  # half of it random play: FQE knows nothing of actions that the data never took
TRAINED = "local/hopper-medium"
UPDATES = {"bc": 10_000, "iql": 30_000}
EPISODES = {"bc": 20, "iql": 20, "random": 200}


def rl(folder: Path, *words: str) -> None:
    """The command, with its data and runs in the folder."""
    known = {"RL_DATA_DIR": str(folder / "data"), "RL_LOGS": str(folder / "runs"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "rl_lightning.cli", *words]
    subprocess.run(command, env={**os.environ, **known}, check=True)


def prepare(folder: Path, quick: bool) -> None:
    """Data and policies."""
    for name in (ROWS, TRAINED):
        if not (folder / "data" / f"{name}.hdf5").exists():
            rl(folder, "data", "make", name, "--rows", "4000" if quick else "100000")
    for name, updates in UPDATES.items():
        if not (folder / "runs" / name / "checkpoints" / "best.ckpt").exists():
            steps = 200 if quick else updates
            rl(
                folder, "fit", "--config", f"{name}/hopper-medium", "--name", name, "--updates", str(steps),
                "--eval_every", str(steps // 2),
            )  # fmt: skip
    if not (folder / "runs" / "random").exists():
        words = ["--model", "RandomPolicy", "--data", "OfflineData", "--data.dataset", TRAINED]
        rl(folder, "fit", *words, "--updates", "1", "--save_every", "1", "--name", "random")


def checkpoint(folder: Path, name: str) -> Path:
    found = folder / "runs" / name / "checkpoints"
    best = found / "best.ckpt"
    return best if best.exists() else sorted(found.glob("last-*"))[-1]


def valued(folder: Path, name: str, quick: bool) -> tuple[float, bool, float]:
    """(value, whether it has settled, minutes) of a policy."""
    run, began = f"fqe-{name}", time.monotonic()
    budget = ["--updates", "400", "--eval_every", "50"] if quick else []
    note = folder / "runs" / run / "minutes.json"
    if not note.exists():
        where = ["--model.policy_from", str(checkpoint(folder, name)), "--data.dataset", ROWS]
        rl(folder, "fit", "--config", "fqe/hopper-medium", *where, "--name", run, *budget)
        note.write_text(json.dumps((time.monotonic() - began) / 60.0))
    rl(folder, "test", run)
    told = json.loads((folder / "runs" / run / "test.json").read_text())
    return float(told["value"]), bool(told["settled"]), float(json.loads(note.read_text()))


def truth(folder: Path, name: str, quick: bool) -> tuple[float, float]:
    """Mean discounted return of played episodes, and its standard error."""
    path, count = folder / f"{name}.npz", 3 if quick else EPISODES[name]
    which = [] if name in UPDATES else ["--checkpoint", "last"]
    rl(folder, "predict", name, "--episodes", str(count), "--output", str(path), *which)
    with np.load(path) as rows:
        parts = [rows["reward"][rows["episode"] == k] for k in range(count)]
    found = [float((reward * GAMMA ** np.arange(len(reward))).sum()) for reward in parts]
    return float(np.mean(found)), float(np.std(found) / np.sqrt(count))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where data and runs are kept")
    parser.add_argument("--quick", action="store_true", help="tiny budgets: does it run?")
    given = parser.parse_args()
    folder = given.folder.resolve()
    prepare(folder, given.quick)
    found = {
        name: (*valued(folder, name, given.quick), *truth(folder, name, given.quick)) for name in EPISODES
    }
    print("| policy | FQE | truth | error | settled | minutes |\n|---|---|---|---|---|---|")
    for name, (value, settled, minutes, true, error) in found.items():
        cells = (name, f"{value:.1f}", f"{true:.1f} +- {error:.1f}", f"{value / true - 1:+.0%}", settled)
        print(f"| {' | '.join(map(str, cells))} | {minutes:.1f} |")
    near = all(abs(row[0] / row[3] - 1) <= BAR and row[2] <= MINUTES for row in found.values())
    order = sorted(found, key=lambda name: found[name][0]) == sorted(found, key=lambda name: found[name][3])
    print(f"order right: {order}; within {BAR:.0%} and {MINUTES:.0f} minutes each: {near}")
    return 0 if given.quick or (near and order) else 1


if __name__ == "__main__":
    sys.exit(main())
