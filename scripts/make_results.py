"""Writes the table and the curves of docs/results.md, or of a system's own page, from finished runs.

    python scripts/make_results.py --logs lightning_logs ppo/cartpole dqn/cartpole ...
    python scripts/make_results.py --picture dreamer-curves.png dreamer_v1/cartpole-balance dreamer_v3/pendulum ...

A config's runs are called <config with - for />-s<seed>. Each that was not is tested first (`rl test`, best
checkpoint, 20 fresh seeds); the random policy and the best constant action play the same env.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
import yaml

from rl_lightning.behaviors.random_actor import random_actor
from rl_lightning.cli.main import main as rl
from rl_lightning.envs.make import EnvConfig, make_envs
from rl_lightning.envs.wrappers.transforms import AtariPreprocessing, FrameStack
from rl_lightning.rollout.evaluate import evaluate

DOCS = Path(__file__).parents[1] / "docs"
EPISODES = 20
BARS = {
    "ppo/cartpole": "475",
    "ppo/acrobot": "-110",
    "ppo/minigrid-empty": "0.9",
    "ppo/recall": "memory needed",
    "ppo/recall-mlp": "cannot",
    "ppo/catch": "3x random",
    "dqn/cartpole": "475",
    "sac/pendulum": "-200",
    "sac/hopper": "1000, 0.5 m/s",
    "sac/halfcheetah": "2000",
    "sac/cartpole": "400",
    "dreamer_v1/cartpole-balance": "600",
    "dreamer_v3/cartpole-balance": "700",
    "dreamer_v3/pendulum": "-400",
    "dreamer_v3/recall-pixels": "above random",
    "planet/cartpole-balance": "600",
    "tdmpc2/cartpole-balance": "900",
    "tdmpc2/cartpole-swingup": "500",
}


def env_of(config: dict[str, Any]) -> EnvConfig:
    fields = dict(config["data"]["init_args"]["env"])
    made = {"FrameStack": FrameStack, "AtariPreprocessing": AtariPreprocessing}
    recipes = [
        made[t["class_path"].rpartition(".")[2]](**t.get("init_args", {})) for t in fields.pop("transforms")
    ]
    fields.pop("noise", None)
    return EnvConfig(**fields, transforms=recipes)


def mean_return(act: Any, env: EnvConfig, generator: torch.Generator | None) -> float:
    envs = make_envs(env, EPISODES, training=False)
    try:
        played = evaluate(act, lambda n: (), envs, EPISODES, 77_000, generator)
    finally:
        envs.close()
    return float(np.mean([episode.episode_return for episode in played]))


def constants(spec: Any) -> list[torch.Tensor]:
    """Every discrete action; corners and centre of a continuous one."""
    if spec.action_kind == "discrete":
        return [torch.tensor(a) for a in range(spec.action_sizes[0])]
    size = spec.action_shape[0]
    if size > 3:
        return [torch.full((size,), value) for value in (-1.0, 0.0, 1.0)]
    return [torch.tensor(corner) for corner in itertools.product((-1.0, 0.0, 1.0), repeat=size)]


def baselines(env: EnvConfig) -> tuple[float, float]:
    probe = make_envs(env, 1, training=False)
    spec = probe.env_spec
    probe.close()
    random = mean_return(random_actor(spec), env, torch.Generator().manual_seed(1))

    def hold(action: torch.Tensor) -> Any:
        return lambda obs, carry, explore, mask=None: (action.expand(len(obs), *action.shape), carry)

    return random, max(mean_return(hold(action), env, None) for action in constants(spec))


def is_tested(run: Path) -> bool:
    """The best checkpoint as it is now; a run that was gone on with since may have another."""
    tested, best = run / "test.json", run / "checkpoints" / "best.ckpt"
    return tested.is_file() and tested.stat().st_mtime >= best.stat().st_mtime


def curve(folder: Path) -> tuple[list[int], list[float]]:
    points: dict[int, list[float]] = {}
    for line in (folder / "eval.jsonl").read_text().splitlines():
        row = json.loads(line)
        points.setdefault(row["env_step"], []).append(row["return"])
    return list(points), [float(np.mean(values)) for values in points.values()]


def row(config: str, logs: Path, axes: Any) -> str:
    stem = config.replace("/", "-")
    runs = sorted(logs.glob(f"{stem}-s[0-9]*"))
    scores, lasts, extras = [], [], []
    for run in runs:
        os.environ["RL_LOGS"] = str(logs)
        if not is_tested(run) and rl(["test", run.name]):
            sys.exit(f"rl test {run.name} failed")
        tested = json.loads((run / "test.json").read_text())
        returns = [episode["return"] for episode in tested["episodes"]]
        speeds = [episode["x_velocity"] for episode in tested["episodes"] if "x_velocity" in episode]
        scores.append(f"{np.mean(returns):.4g}")
        extras += [f"{np.mean(speeds):.2f}"] if speeds else []
        steps, values = curve(run)
        lasts.append(f"{np.mean(values[-10:]):.4g}")
        axes.plot(steps, values, label=run.name)
    settings = yaml.safe_load((runs[0] / "config.yaml").read_text())
    random, constant = baselines(env_of(settings))
    speed = f" ({', '.join(extras)} m/s)" if extras else ""
    cells = [
        f"`{config}`",
        f"{settings['run']['env_steps']:,}",
        BARS.get(config, ""),
        ", ".join(scores) + speed,
        ", ".join(lasts),
        f"{random:.3g}",
        f"{constant:.3g}",
        f"`rl fit --config {config} --seeds 0-{len(runs) - 1}`",
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--logs", type=Path, default=Path("lightning_logs"))
    parser.add_argument("--picture", default="curves.png", help="its name, beside this file")
    parser.add_argument("configs", nargs="+")
    given = parser.parse_args()
    torch.set_num_threads(1)
    columns = min(3, len(given.configs))
    height = -(-len(given.configs) // columns)
    figure, grid = plt.subplots(height, columns, figsize=(4.2 * columns, 3 * height), squeeze=False)
    lines = []
    for config, axes in zip(given.configs, grid.flat, strict=False):
        lines.append(row(config, given.logs, axes))
        axes.set_title(config, fontsize=10)
        axes.set_xlabel("env_step", fontsize=8)
        axes.set_ylabel("eval/return", fontsize=8)
        axes.tick_params(labelsize=7)
        axes.grid(alpha=0.3)
    for axes in list(grid.flat)[len(given.configs) :]:
        axes.set_visible(False)
    figure.tight_layout()
    figure.savefig(DOCS / given.picture, dpi=110)
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
