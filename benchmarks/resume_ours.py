"""rl_lightning for resume.py, by the commands that a user types.

python resume_ours.py fit ppo|sac FOLDER STEPS      rl fit --name run
python resume_ours.py resume ppo|sac FOLDER STEPS   rl resume FOLDER/run --env_steps STEPS
python resume_ours.py left ppo|sac FOLDER FILE      writes what the newest checkpoint holds
python resume_ours.py poison ppo|sac FOLDER MARKER  the newest checkpoint creates MARKER when it is unpickled
"""

from __future__ import annotations

import csv
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import resume_settings as settings
import torch
import yaml
from safetensors.torch import load_file

from rl_lightning.checkpoints.checkpoint_store import CheckpointStore, checksum
from rl_lightning.cli import main as rl
from rl_lightning.io.checkpoint_files import read_file, read_meta


def config(rule: str) -> dict[str, Any]:
    total, every = settings.steps(rule)
    model, data = _ppo() if rule == "ppo" else _sac()
    return {
        "model": model,
        "data": data,
        "run": {"eval_every": total // 2, "eval_episodes": 1, "save_every": every},
        "log": {"tensorboard": False, "every": every},
        "seed_everything": settings.SEED,
        "threads": 1,
    }


def _ppo() -> tuple[dict[str, Any], dict[str, Any]]:
    s = settings.PPO
    network = {"class_path": "MLP", "init_args": {"hidden_dims": s["hidden"], "activation": "tanh"}}
    own = {key: s[key] for key in ("lr", "n_epochs", "minibatch_size")}
    turns = {"env": {"id": s["env"]}, "num_envs": s["num_envs"], "rollout_steps": s["rollout_steps"]}
    return (
        {"class_path": "PPO", "init_args": {"network": network, **own}},
        {"class_path": "OnPolicyData", "init_args": turns},
    )


def _sac() -> tuple[dict[str, Any], dict[str, Any]]:
    s = settings.SAC
    network = {"class_path": "MLP", "init_args": {"hidden_dims": s["hidden"], "activation": "relu"}}
    own = {"network": network, "critic_hidden_dims": s["hidden"], "lr": s["lr"]}
    buffer = {"class_path": "Replay", "init_args": {"capacity": s["capacity"]}}
    turns = {"env": {"id": s["env"]}, "buffer": buffer} | {
        key: s[key] for key in ("batch_size", "learning_starts")
    }
    return {"class_path": "SAC", "init_args": own}, {"class_path": "OnlineData", "init_args": turns}


def fit(rule: str, folder: Path, steps: str) -> int:
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config(rule)))
    os.environ["RL_LOGS"] = str(folder)
    return rl(["fit", "--config", str(path), "--name", "run", "--env_steps", steps])


def resume(rule: str, folder: Path, steps: str) -> int:
    os.environ["RL_LOGS"] = str(folder)
    return rl(["resume", str(folder / "run"), "--env_steps", steps])


def flat(value: Any, name: str) -> dict[str, Any]:
    """Every leaf of a nested state by its path; what is no tensor as text."""
    if isinstance(value, torch.Tensor):
        return {name: value.numpy()}
    if isinstance(value, dict | list | tuple):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {path: leaf for key, part in items for path, leaf in flat(part, f"{name}/{key}").items()}
    # nobody draws from the space of observations, and the system seeds it
    return {} if "observation_space" in name else {name: str(value)}


def metrics(run: Path) -> dict[str, Any]:
    with (run / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        f"metrics/{number}/{key}": value
        for number, row in enumerate(rows)
        for key, value in row.items()
        if not key.startswith("time/")
    }


def left(rule: str, folder: Path, file: str) -> int:
    run = folder / "run"
    generation = CheckpointStore(run / "checkpoints").newest_valid()[0]
    meta, model, own = (
        read_meta(generation),
        *map(read_file, (generation / "model.ckpt", generation / "rank-0.pt")),
    )
    parts = {"steps": meta["env_step"], "updates": meta["update"]}
    parts |= flat(model["state_dict"], "weights") | flat(model["optimizer_states"], "weights/optimizers")
    parts |= flat(own["data"]["collector"], "env") | flat(own["random"], "generators")
    segments = [load_file(run / "checkpoints" / "replay" / name) for name in meta["segments"]]
    for key in segments[0] if segments else ():
        parts[f"replay/{key}"] = torch.cat([segment[key] for segment in segments]).numpy()
    np.savez(file, **parts, **metrics(run))
    return 0


class Payload:
    def __init__(self, marker: str) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.marker,)


def poison(rule: str, folder: Path, marker: str) -> int:
    """One entry is added to the checkpoints, with sizes and checksums that agree: they are not what refuses it."""
    for generation in CheckpointStore(folder / "run" / "checkpoints").checkpoints():
        path, meta = generation / "model.ckpt", read_meta(generation)
        torch.save(read_file(path) | {"note": Payload(marker)}, path)
        meta["files"]["model.ckpt"] = {"size": path.stat().st_size, "sha256": checksum(path)}
        (generation / "meta.json").write_text(json.dumps(meta))
    return 0


if __name__ == "__main__":
    tasks = {"fit": fit, "resume": resume, "left": left, "poison": poison}
    sys.exit(tasks[sys.argv[1]](sys.argv[2], Path(sys.argv[3]).absolute(), sys.argv[4]))
