"""How soon the desk answers: `rl list` with 5,000 runs, `rl compare` of 50 runs with 1,000 rows each.

    python benchmarks/desk.py [--runs 5000]

Makes its runs in a temporary folder. Each command is a fresh process, as it is for a user; `modules` says what of the
heavy packages it imported.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMITS = {"list": 1.0, "compare": 2.0}  # seconds
SCRIPT = (
    "import sys\nfrom rl_lightning.cli import main\ncode = main(sys.argv[1:])\n"
    "print('modules', *[m for m in ('torch', 'lightning', 'numpy', 'yaml') if m in sys.modules], file=sys.stderr)\n"
    "sys.exit(code)"
)
CONFIG = """\
seed_everything: {seed}
model:
  class_path: rl_lightning.algorithms.{lower}.{algorithm}
  init_args:
    lr: {lr}
    gamma: 0.99
    network: {{class_path: rl_lightning.nn.mlp.MLP, init_args: {{hidden: [64, 64]}}}}
data: {{class_path: rl_lightning.datamodules.online_data.OnlineData, init_args: {{env: {{id: {env}}}, num_envs: 4}}}}
run: {{env_steps: 100000, eval_every: 5000}}
"""


def make_run(root: Path, number: int, rows: int) -> str:
    """One synthetic run with the files of a real one."""
    draw = random.Random(number)
    algorithm, env = draw.choice(["PPO", "SAC", "DQN"]), draw.choice(["CartPole-v1", "Hopper-v5"])
    name = f"run-{number:05d}"
    folder = root / name
    folder.mkdir(parents=True)
    best = draw.uniform(0, 500)
    record = {
        "id": f"{number:012x}", "algorithm": algorithm, "env": env, "seed": number % 5, "group": f"g{number // 5}",
        "tags": [], "status": "finished", "created": f"2026-01-{1 + number % 28:02d}T00:00:00+00:00",
        "command": ["rl", "fit", "--config", "ppo/cartpole"], "config_hash": f"{number:016x}", "threads": 1,
        "versions": {"torch": "2.13.0", "lightning": "2.6.6"}, "env_step": 100000, "update": 400, "best": best,
        "last10": best * 0.9, "updated": "2026-01-29T00:00:00+00:00",
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(record))
    lr = draw.choice([1e-4, 3e-4, 1e-3])
    (folder / "config.yaml").write_text(
        CONFIG.format(seed=number % 5, lower=algorithm.lower(), algorithm=algorithm, lr=lr, env=env)
    )
    lines = ["env_step,update,time/env_steps_per_s,train/loss,train/q_values,collect/return,eval/return"]
    for i in range(rows):
        value = best * i / max(rows, 1) + draw.gauss(0, 10)
        lines.append(f"{100 * (i + 1)},{i},1000.5,{draw.random()!r},{value!r},{value!r},{value!r}")
    (folder / "metrics.csv").write_text("\n".join(lines) + "\n")
    return name


def timed(words: list[str], root: Path) -> tuple[float, float, str]:
    """Seconds on the clock and of CPU (fewer where the machine has other work), and what was imported."""
    began, before = time.perf_counter(), os.times()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words],
        env={**os.environ, "RL_LOGS": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    seconds, after = time.perf_counter() - began, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    if done.returncode:
        sys.exit(f"rl {' '.join(words)}: {done.stderr}")
    return seconds, cpu, done.stderr.strip().splitlines()[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root, other = Path(folder) / "many", Path(folder) / "long"
        for number in range(given.runs):
            make_run(root, number, 3)
        names = [make_run(other, number, 1000) for number in range(50)]
        commands = [
            (f"list of {given.runs} runs, no index yet", "list", ["list"], root),
            ("the same again", "list", ["list"], root),
            ("best ten of one algorithm", "list",
             ["list", "--filter", "algorithm=SAC", "--sort", "best", "--limit", "10"], root),
            ("by a setting, first time", "", ["list", "--filter", "model.lr=3e-4", "--limit", "10"], root),
            ("by a setting, again", "list", ["list", "--filter", "model.lr=3e-4", "--limit", "10"], root),
            ("by a metric, first time", "", ["list", "--filter", "train/loss<0.5", "--limit", "10"], root),
            ("by a metric, again", "list", ["list", "--filter", "train/loss<0.5", "--limit", "10"], root),
            ("compare 50 runs x 1,000 rows", "compare", ["compare", *names], other),
            ("the same over two metrics, as JSON", "compare",
             ["compare", *names, "--metrics", "reward,loss", "--format", "json"], other),
        ]  # fmt: skip
        for title, kind, words, where in commands:
            seconds, cpu, modules = timed(words, where)
            limit = LIMITS.get(kind)
            verdict = "" if limit is None else "ok" if seconds < limit else f"OVER {limit} s"
            print(f"{title:40} {seconds:6.2f} s  {cpu:6.2f} s CPU  {verdict:10} {modules}")


if __name__ == "__main__":
    main()
