"""sheeprl for resume.py, by its documented means; runs in its own venv.

    python resume_sheeprl.py fit ppo|sac FOLDER STEPS      checkpoint.every, buffer.checkpoint=True
    python resume_sheeprl.py resume ppo|sac FOLDER STEPS   the same command with checkpoint.resume_from
    python resume_sheeprl.py left ppo|sac FOLDER FILE      writes what the newest checkpoint holds
    python resume_sheeprl.py poison ppo|sac FOLDER MARKER  the newest checkpoint creates MARKER when it is unpickled

The replay is saved whole beside the checkpoint (buffer.memmap=False), which also survives a moved folder. It has no
notion of a newest checkpoint: the file with the most steps is taken, and the one before if asked for
(RL_RESUME_BACK=1).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import resume_settings as settings
import torch


def options(rule: str, steps: int) -> list[str]:
    total_and_every = [f"algo.total_steps={steps}", f"checkpoint.every={settings.steps(rule)[1]}"]
    common = [
        "env=gym", "env.sync_env=True", "env.capture_video=False", "metric.log_every=1", "checkpoint.keep_last=1000",
        "checkpoint.save_last=True", "buffer.memmap=False", "buffer.checkpoint=True", "algo.run_test=False",
        "fabric.accelerator=cpu", "fabric.devices=1", "num_threads=1", f"seed={settings.SEED}", "run_name=run",
        "algo.mlp_keys.encoder=[state]",
    ]  # fmt: skip
    return [*(_ppo() if rule == "ppo" else _sac()), *common, *total_and_every]


def _ppo() -> list[str]:
    s = settings.PPO
    return [
        "exp=ppo", f"env.id={s['env']}", f"env.num_envs={s['num_envs']}", f"algo.rollout_steps={s['rollout_steps']}",
        f"algo.per_rank_batch_size={s['minibatch_size']}", f"algo.update_epochs={s['n_epochs']}",
        f"algo.optimizer.lr={s['lr']}", f"algo.dense_units={s['hidden'][0]}", f"algo.mlp_layers={len(s['hidden'])}",
    ]  # fmt: skip


def _sac() -> list[str]:
    s = settings.SAC
    rates = [f"algo.{part}.optimizer.lr={s['lr']}" for part in ("actor", "critic", "alpha")]
    return [
        "exp=sac", f"env.id={s['env']}", "env.num_envs=1", f"algo.per_rank_batch_size={s['batch_size']}",
        f"algo.learning_starts={s['learning_starts']}", "algo.replay_ratio=1.0", f"buffer.size={s['capacity']}",
        f"algo.hidden_size={s['hidden'][0]}", *rates,
    ]  # fmt: skip


def step_of(path: Path) -> int:
    return int(path.stem.split("_")[1])


def newest(folder: Path) -> Path:
    found = sorted(folder.glob("logs/runs/**/ckpt_*.ckpt"), key=lambda path: (step_of(path), str(path)))
    return found[-1 - int(os.environ.get("RL_RESUME_BACK", "0"))]


def train(rule: str, folder: Path, steps: int, resume: bool) -> None:
    from sheeprl.cli import run

    source = [f"checkpoint.resume_from={newest(folder)}"] if resume else []
    sys.argv = ["sheeprl", *options(rule, steps), *source]
    os.chdir(folder)
    run()


def tensors(value: Any, name: str = "") -> dict[str, np.ndarray]:
    """Every tensor of nested state dicts, by its path."""
    if isinstance(value, torch.Tensor):
        return {name: value.detach().numpy()}
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return {path: array for key, part in items for path, array in tensors(part, f"{name}/{key}").items()}


def metrics(folder: Path) -> dict[str, np.ndarray]:
    """Every logged value by its clock; seconds left out."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    values = {}
    for path in sorted(folder.glob("logs/runs/**/events.out.tfevents.*")):
        events = EventAccumulator(str(path))
        events.Reload()
        for tag in events.Tags()["scalars"]:
            if not tag.startswith("Time/"):
                values |= {f"metrics/{event.step}/{tag}": event.value for event in events.Scalars(tag)}
    return values


def left(rule: str, folder: Path, file: str) -> None:
    path = newest(folder)
    state = torch.load(path, map_location="cpu", weights_only=False)
    learned = {key: value for key, value in state.items() if key == "agent" or key.endswith("optimizer")}
    updates = state["optimizer"]["state"][0]["step"] if rule == "ppo" else state["per_rank_gradient_steps"]
    parts: dict[str, Any] = {"updates": int(updates), "steps": step_of(path)}
    if rule == "sac":
        state["rb"].checkpoint_path = str(path)
        replay = state["rb"][0]
        parts |= {f"replay/{name}": array[: replay._pos] for name, array in replay.buffer.items()}
    np.savez(file, **parts, **tensors(learned, "weights"), **metrics(folder))


class Payload:
    def __init__(self, marker: str) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.marker,)


def poison(rule: str, folder: Path, marker: str) -> None:
    """One entry is added to the checkpoint; everything else stays as it was saved."""
    path = newest(folder)
    torch.save(torch.load(path, weights_only=False) | {"note": Payload(marker)}, path)


def main() -> None:
    torch.set_num_threads(1)
    task, rule, folder, last = sys.argv[1], sys.argv[2], Path(sys.argv[3]).absolute(), sys.argv[4]
    if task in ("fit", "resume"):
        train(rule, folder, int(last), task == "resume")
    else:
        {"left": left, "poison": poison}[task](rule, folder, last)


if __name__ == "__main__":
    main()
