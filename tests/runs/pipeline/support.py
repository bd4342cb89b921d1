"""Pipelines of tiny runs, and what they leave."""

import copy
import json
from pathlib import Path
from typing import Any

from resume.support import PPO, SAC, write

SHORT = {"env_steps": 32, "eval_every": 16, "eval_episodes": 2, "save_every": 16}
TRAIN: dict[str, Any] = {"name": "train", "config": {**PPO, "run": SHORT}}
TUNE: dict[str, Any] = {
    "name": "tune",
    "config": {**PPO, "run": SHORT},
    "inputs": {"ckpt_path": "train"},
    "overrides": {"resume_mode": "warm_start", "model.init_args.lr": 0.01},
}
REPLAY: dict[str, Any] = {"name": "replay", "config": {**SAC, "run": SHORT}}


def pipeline(folder: Path, *stages: dict[str, Any], **more: Any) -> str:
    return write(folder, "pipe", {"run": {"name": "pipe"}, **more, "stages": copy.deepcopy(list(stages))})


def ledger(run: Path) -> dict[str, dict[str, Any]]:
    return json.loads((run / "pipeline.json").read_text())["jobs"]


def artifacts(run: Path) -> dict[str, str]:
    """The checksum of every artifact."""
    return {key: entry["sha256"] for key, entry in ledger(run).items() if entry["status"] == "done"}
