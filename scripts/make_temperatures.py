"""Table and picture of docs/world-models.md: what controllers get in the dream they evolved in, and in the real game.

    rl fit --config world_models/temperatures --seed_everything 0 --name temps-s0      and seeds 1 and 2
    python scripts/make_temperatures.py --logs lightning_logs temps-s0 temps-s1 temps-s2

Best checkpoint of each controller, 64 dreams at its own temperature, 100 fresh games.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from rl_lightning.cli.main import main as rl

DOCS = Path(__file__).parents[1] / "docs"
STAGES = {"cold": 0.5, "controller": 1.0, "warm": 1.15, "hot": 1.3}
GAMES = "100"


def scores(folder: Path) -> tuple[float, float]:
    """Steps survived in the dream and in the game."""
    if rl(["test", str(folder), "--episodes", GAMES]):
        raise SystemExit(1)
    found = json.loads((folder / "test.json").read_text())
    return float(found["fitness"]["mean"]), float(found["mean"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--logs", type=Path, default=Path("lightning_logs"), help="folder of the runs")
    parser.add_argument("runs", nargs="+")
    given = parser.parse_args()
    rows = {stage: [scores(given.logs / run / stage) for run in given.runs] for stage in STAGES}
    print("| temperature | dream | real game | gap |\n|---|---|---|---|")
    for stage, pairs in rows.items():
        parts = [[d for d, _ in pairs], [g for _, g in pairs], [d - g for d, g in pairs]]
        cells = " | ".join(", ".join(f"{number:.0f}" for number in part) for part in parts)
        print(f"| {STAGES[stage]:g} | {cells} |")
    figure, axis = plt.subplots(figsize=(5, 3.2))
    for which, (name, color) in enumerate((("dream", "#D55E00"), ("real game", "#0072B2"))):
        for stage, pairs in rows.items():
            axis.scatter([STAGES[stage]] * len(pairs), [pair[which] for pair in pairs], color=color, s=14)
        means = [sum(pair[which] for pair in pairs) / len(pairs) for pairs in rows.values()]
        axis.plot(list(STAGES.values()), means, color=color, label=name)
    axis.set_xlabel("temperature of the dream it evolved in")
    axis.set_ylabel("steps survived")
    axis.set_ylim(bottom=0)
    axis.legend()
    figure.tight_layout()
    figure.savefig(DOCS / "temperatures.png", dpi=90)


if __name__ == "__main__":
    main()
