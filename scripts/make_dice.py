"""Tables and pictures of docs/diffusion-dice.md from finished runs.

    python scripts/make_dice.py --logs lightning_logs demo demo-s0
    python scripts/make_dice.py --logs lightning_logs table pm-s0 pm-s1 pm-s2
    python scripts/make_dice.py --logs lightning_logs curves 'pm-s*/behavior' 'pm-s*/dice' 'hop-s*/bc10' 'hop-s*/dice'

`demo` draws the behaviour, the guide and guided samples of dice/demo. `table` tests every policy stage of pipelines
that differ in their seed (last checkpoint, 50 fresh episodes), a row per stage.
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
import torch

from rl_lightning.cli.main import main as rl
from rl_lightning.envs.toys.modes import CENTRES
from rl_lightning.runs.agents.agent import load_agent
from rl_lightning.runs.request import Request
from rl_lightning.runs.store.run_folder import resolve

DOCS = Path(__file__).parents[1] / "docs"
SCALES = (0.0, 1.0, 4.0)
EPISODES = "50"


def draw_demo(run: str) -> None:
    model: Any = load_agent(resolve(f"lightning_logs/{run}/dice"), Request(), "last").cli.model.eval()
    model.setup("test")
    figure, axes = plt.subplots(1, 4, figsize=(15, 4), sharex=True, sharey=True)
    field(axes[0], model)
    for axis, scale in zip(axes[1:], SCALES, strict=True):
        model.guidance_scale, model.num_samples = scale, 1500
        with torch.inference_mode():
            rows = model.draw_candidates(torch.zeros(1, 1), torch.Generator().manual_seed(0))[0]
        axis.scatter(rows[:, 0], rows[:, 1], s=2, color="#0072B2")
        near = torch.cdist(rows, torch.from_numpy(CENTRES).float()).argmin(-1).float() / 7
        name = "behaviour" if scale == 0 else f"guided, scale {scale:g}"
        axis.set_title(f"{name}: mean reward {float(near.mean()):.2f}")
    for axis in axes:
        for k, (x, y) in enumerate(CENTRES):
            axis.annotate(
                f"{k}/7", (1.25 * x, 1.25 * y), ha="center", va="center", fontsize=8, color="#555555"
            )
        axis.set_aspect("equal")
        axis.set_xlim(-1.2, 1.2)
        axis.set_ylim(-1.2, 1.2)
    figure.tight_layout()
    figure.savefig(DOCS / "dice-demo.png", dpi=100)


def field(axis: Any, model: Any, time: float = 0.2) -> None:
    """The guide at some noise: its height as colour, its slope as arrows."""
    line = torch.linspace(-1.15, 1.15, 24)
    x, y = torch.meshgrid(line, line, indexing="xy")
    rows = torch.stack((x, y), -1).reshape(-1, 2)
    at, obs = torch.full((1,), time), model.norm(torch.zeros(1, 1))
    with torch.inference_mode():
        height, slope = model.guide(rows, at, obs), model.guide.gradient(rows, at, obs)
    axis.contourf(x, y, height.reshape(x.shape), levels=12, cmap="viridis", alpha=0.8)
    axis.quiver(rows[:, 0], rows[:, 1], slope[:, 0], slope[:, 1], color="white", width=0.004)
    axis.set_title(f"the guide at t = {time:g}")


def tested(run: str, stage: str) -> dict[str, Any]:
    folder = f"lightning_logs/{run}/{stage}"
    if not (Path(folder) / "test.json").is_file():
        assert rl(["test", folder, "--checkpoint", "last", "--episodes", EPISODES]) == 0
    return dict(json.loads((Path(folder) / "test.json").read_text()))


def table(runs: list[str]) -> None:
    print("| policy | return | success | length |\n|---|---|---|---|")
    for stage in ("bc", "bc10", "behavior", "dice"):
        found = [
            tested(run, stage)
            for run in runs
            if (Path(f"lightning_logs/{run}/{stage}") / "artifact").is_dir()
        ]
        cells = []
        for key, form in (("mean", "{:.2f}"), ("success", "{:.2f}"), ("length", "{:.0f}")):
            cells.append(", ".join(form.format(each[key]) for each in found if key in each) or "–")
        print(f"| {stage} | {' | '.join(cells)} |")


def curves(patterns: list[str]) -> None:
    """Mean return of every evaluation in training: a panel per pattern, a line per run."""
    figure, axes = plt.subplots(1, len(patterns), figsize=(3.4 * len(patterns), 3), squeeze=False)
    for axis, pattern in zip(axes[0], patterns, strict=True):
        for run in sorted(Path("lightning_logs").glob(pattern)):
            found: dict[int, list[float]] = {}
            for line in (run / "eval.jsonl").read_text().splitlines():
                row = json.loads(line)
                found.setdefault(row["update"], []).append(row["return"])
            means = [sum(part) / len(part) for part in found.values()]
            axis.plot(list(found), means, marker="o", label=str(run.relative_to("lightning_logs")))
        axis.legend(fontsize=7)
        axis.set_ylim(bottom=0)
        axis.set_xlabel("update")
    axes[0, 0].set_ylabel("return")
    figure.tight_layout()
    figure.savefig(DOCS / "dice-curves.png", dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--logs", default="lightning_logs", help="folder of the runs")
    parser.add_argument("what", choices=("demo", "table", "curves"))
    parser.add_argument("runs", nargs="+")
    given = parser.parse_args()
    os.chdir(Path(given.logs).resolve().parent)
    {"demo": lambda runs: draw_demo(runs[0]), "table": table, "curves": curves}[given.what](given.runs)


if __name__ == "__main__":
    sys.exit(main())
