"""Tables and pictures of docs/gormpo.md from finished runs.

    python scripts/make_gormpo.py --logs lightning_logs hole demo-s0
    python scripts/make_gormpo.py --logs lightning_logs table hc-s0 hc-s1 hc-s2

`hole` draws the data and ten walks of each policy of gormpo/demo. `table` tests every policy stage of pipelines that
differ in their seed (last checkpoint, 20 fresh seeds), a row per stage: return, normalised score, exploitation.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from rl_lightning.cli.main import main as rl

DOCS = Path(__file__).parents[1] / "docs"


def walks(run: str, count: int = 10) -> list[np.ndarray]:
    """Positions of whole episodes, one array each."""
    out = Path("walks.npz")
    assert rl(["predict", run, "--checkpoint", "last", "--episodes", str(count), "--output", str(out)]) == 0
    rows = np.load(out)
    out.unlink()
    return [rows["obs"][rows["episode"] == i] for i in range(count)]


def draw_hole(run: str) -> None:
    from rl_lightning.datasets import load_dataset
    from rl_lightning.envs.toys.hole import Hole

    data = load_dataset("local/hole-scripted").obs.numpy()
    figure, axes = plt.subplots(1, 3, figsize=(12, 4.2), sharex=True, sharey=True)
    titles = {"bc": "behaviour cloning", "mbpo": "MBPO: no penalty", "gormpo": "GORMPO"}
    for axis, (stage, title) in zip(axes, titles.items(), strict=True):
        axis.scatter(data[::5, 0], data[::5, 1], s=1, color="#bbbbbb", label="data")
        axis.add_patch(plt.Circle((0, 0), 0.4, color="#333333"))
        axis.plot(*Hole.GOAL, marker="*", markersize=14, color="#E69F00", linestyle="none", label="goal")
        for i, path in enumerate(walks(f"lightning_logs/{run}/{stage}")):
            axis.plot(path[:, 0], path[:, 1], color="#0072B2", linewidth=1, label="walks" if i == 0 else None)
        axis.set_title(title)
        axis.set_aspect("equal")
    axes[0].legend(loc="upper left", fontsize=8)
    figure.tight_layout()
    figure.savefig(DOCS / "gormpo-hole.png", dpi=110)


def tested(run: str, stage: str) -> dict[str, Any]:
    folder = f"lightning_logs/{run}/{stage}"
    if not (Path(folder) / "test.json").is_file():
        assert rl(["test", folder, "--checkpoint", "last"]) == 0
    return dict(json.loads((Path(folder) / "test.json").read_text()))


def table(runs: list[str]) -> None:
    stages = [
        p.name for p in sorted(Path(f"lightning_logs/{runs[0]}").iterdir()) if (p / "eval.jsonl").is_file()
    ]
    print("| policy | return, last | normalised | promised - received | below threshold |")
    print("|---|---|---|---|---|")
    for stage in stages:
        found = [tested(run, stage) for run in runs]
        returns = ", ".join(f"{each['mean']:.0f}" for each in found)
        scores = ", ".join(
            f"{each.get('scores', {}).get('normalized_score', float('nan')):.1f}" for each in found
        )
        dreams = [each.get("imagination", {}) for each in found]
        gap = ", ".join(f"{d['model_exploitation']:.2f}" for d in dreams if "model_exploitation" in d) or "–"
        below = (
            ", ".join(f"{100 * d['below_threshold']:.1f} %" for d in dreams if "below_threshold" in d) or "–"
        )
        print(f"| {stage} | {returns} | {scores} | {gap} | {below} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--logs", default="lightning_logs", help="folder of the runs")
    parser.add_argument("what", choices=("hole", "table"))
    parser.add_argument("runs", nargs="+")
    given = parser.parse_args()
    os.chdir(Path(given.logs).resolve().parent)
    draw_hole(given.runs[0]) if given.what == "hole" else table(given.runs)


if __name__ == "__main__":
    sys.exit(main())
