"""stable-baselines3 for resume.py, by its documented means; runs in its own venv.

    python resume_sb3.py fit ppo|sac FOLDER STEPS      CheckpointCallback(save_replay_buffer=True), csv logger,
                                                       and model.save, save_replay_buffer at the end
    python resume_sb3.py resume ppo|sac FOLDER STEPS   load, load_replay_buffer, learn(reset_num_timesteps=False)
    python resume_sb3.py left ppo|sac FOLDER FILE      writes what the newest checkpoint holds
    python resume_sb3.py poison ppo|sac FOLDER MARKER  the newest checkpoint creates MARKER when it is unpickled

It has no notion of a newest checkpoint: the file with the most steps is taken, and the one before if asked for
(RL_RESUME_BACK=1).
"""

from __future__ import annotations

import base64
import csv
import json
import os
import pickle
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import resume_settings as settings
import torch
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.callbacks import CheckpointCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import configure

RULES = {"ppo": PPO, "sac": SAC}


def make_env(rule: str) -> Any:
    chosen = settings.PPO if rule == "ppo" else settings.SAC
    return make_vec_env(chosen["env"], chosen.get("num_envs", 1), seed=settings.SEED)


def build(rule: str) -> Any:
    if rule == "ppo":
        s = settings.PPO
        own = {"n_steps": s["rollout_steps"], "batch_size": s["minibatch_size"], "n_epochs": s["n_epochs"]}
    else:
        s = settings.SAC
        own = {"buffer_size": s["capacity"]} | {key: s[key] for key in ("batch_size", "learning_starts")}
    nets = {"net_arch": s["hidden"]}
    shared = {"learning_rate": s["lr"], "seed": settings.SEED, "device": "cpu", "policy_kwargs": nets}
    return RULES[rule]("MlpPolicy", make_env(rule), **own, **shared)


def step_of(path: Path) -> int:
    return int(path.stem.split("_")[-2])


def newest(folder: Path) -> Path:
    found = sorted((folder / "checkpoints").glob("model_*_steps.zip"), key=step_of)
    return found[-1 - int(os.environ.get("RL_RESUME_BACK", "0"))]


def replay_of(model: Path) -> Path:
    return model.with_name(f"model_replay_buffer_{step_of(model)}_steps.pkl")


def train(model: Any, rule: str, folder: Path, steps: int, fresh: bool) -> None:
    logs = folder / f"logs-{len(list(folder.glob('logs-*')))}"
    model.set_logger(configure(str(logs), ["csv"]))
    every = settings.steps(rule)[1] // model.n_envs
    save = CheckpointCallback(every, str(folder / "checkpoints"), "model", save_replay_buffer=True)
    model.learn(steps - model.num_timesteps, callback=save, log_interval=1, reset_num_timesteps=fresh)
    # the callback saves before the update that its step leads to; a training that ends is saved after it
    end = folder / "checkpoints" / f"model_{model.num_timesteps}_steps.zip"
    model.save(end)
    if rule == "sac":
        model.save_replay_buffer(replay_of(end))


def load(rule: str, folder: Path, env: Any = None) -> Any:
    path = newest(folder)
    model = RULES[rule].load(path, env=env, device="cpu")
    if rule == "sac":
        model.load_replay_buffer(replay_of(path))
    return model


def tensors(value: Any, name: str = "") -> dict[str, np.ndarray]:
    """Every tensor of nested state dicts, by its path."""
    if isinstance(value, torch.Tensor):
        return {name: value.detach().numpy()}
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return {path: array for key, part in items for path, array in tensors(part, f"{name}/{key}").items()}


def metrics(folder: Path) -> dict[str, np.ndarray]:
    """Every logged value by its clock; seconds left out."""
    values = {}
    for path in sorted(folder.glob("logs-*/progress.csv")):
        for row in csv.DictReader(path.open()):
            step = row["time/total_timesteps"]
            named = {key: value for key, value in row.items() if value and not key.startswith("time/")}
            values |= {f"metrics/{step}/{key}": np.float64(value) for key, value in named.items()}
    return values


def left(rule: str, folder: Path, file: str) -> None:
    model = load(rule, folder)
    parts = {"env/last_obs": model._last_obs, "steps": model.num_timesteps, "updates": model._n_updates}
    if rule == "sac":
        replay = model.replay_buffer
        names = ("observations", "actions", "rewards", "dones", "next_observations")
        parts |= {f"replay/{name}": getattr(replay, name)[: replay.pos] for name in names}
    np.savez(file, **parts, **tensors(model.get_parameters(), "weights"), **metrics(folder))


class Payload:
    def __init__(self, marker: str) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.marker,)


def poison(rule: str, folder: Path, marker: str) -> None:
    """One serialized entry of the archive's `data` is replaced; everything else stays as it was saved."""
    path = newest(folder)
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    data = json.loads(files["data"])
    data["lr_schedule"][":serialized:"] = base64.b64encode(pickle.dumps(Payload(marker))).decode()
    files["data"] = json.dumps(data).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def main() -> None:
    torch.set_num_threads(1)
    task, rule, folder, last = sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4]
    if task == "fit":
        train(build(rule), rule, folder, int(last), fresh=True)
    elif task == "resume":
        train(load(rule, folder, make_env(rule)), rule, folder, int(last), fresh=False)
    else:
        {"left": left, "poison": poison}[task](rule, folder, last)


if __name__ == "__main__":
    main()
