"""A run made of an agent that Stable-Baselines3 trained: it plays, records, is exported, and starts other runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from rl_lightning.envs.own_envs import as_env_config
from rl_lightning.errors import DataError
from rl_lightning.io.atomic import atomic_path
from rl_lightning.runs.config.compose import Config, normalize
from rl_lightning.runs.config.parsing import import_packages, parse_config
from rl_lightning.runs.engine.folder import start_record_of, write_config
from rl_lightning.runs.imports.sb3_agents import Converted, convert
from rl_lightning.runs.imports.sb3_zip import read_sb3
from rl_lightning.runs.request import Request
from rl_lightning.runs.store.names import slug
from rl_lightning.runs.store.run_folder import Run, claim

BUDGET = 100_000  # of a run that goes on from it, where a user says nothing


def import_sb3(path: Path, env_id: str, name: str | None, request: Request) -> tuple[Run, list[str]]:
    """The run, and what a user should know of it.

    Args:
        path: The zip.
        env_id: What it was trained on: its own spaces are pickled, and not read.
        name: Of the run; null: made of the file's.
        request: Of the command line.
    """
    agent = read_sb3(path)
    import_packages(request)
    try:
        converted = convert(agent, *action_bounds(env_id))
        cli = parse_config(normalize(config_of(converted, env_id)), request)
        cli.build()
        load(cli.model, converted)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    saved = cli.plain()
    run = claim(name, slug(f"sb3-{path.stem}"))
    write_config(run, saved)
    start_record_of(run, saved, request, imported={"from": path.name, "stable-baselines3": agent.version})
    write_weights(run, cli.model)
    run.update(status="finished", pid=None)
    return run, converted.notes


def action_bounds(env_id: str) -> tuple[np.ndarray, np.ndarray]:
    """Of continuous actions, as the env has them; empty for discrete ones."""
    config = as_env_config(env_id)
    env = config.base(config.kwargs, None)
    try:
        space: Any = env.action_space
        empty = np.zeros(0, np.float32)
        return (space.low.ravel(), space.high.ravel()) if hasattr(space, "low") else (empty, empty)
    finally:
        env.close()


def config_of(converted: Converted, env_id: str) -> Config:
    data = converted.data
    return {
        "model": {"class_path": converted.algorithm, "init_args": converted.model},
        "data": {**data, "init_args": {**data["init_args"], "env": {"id": env_id}}},
        "run": {"env_steps": BUDGET},
    }


def load(model: Any, converted: Converted) -> None:
    """Puts the weights in their places; a shape that differs means another env."""
    own = model.state_dict()
    for name, value in converted.weights.items():
        if name not in own:
            raise DataError(
                f"{converted.algorithm} has no weights {name}: its layers are built in another way"
            )
        if own[name].shape != value.shape:
            raise DataError(
                f"its {name} is {list(value.shape)}, and this env needs {list(own[name].shape)}: was it trained on "
                "another env, or behind a wrapper that changes observations?"
            )
    model.load_state_dict({**own, **converted.weights})


def write_weights(run: Run, model: Any) -> None:
    state: dict[str, Any] = {"state_dict": model.state_dict()}
    model.on_save_checkpoint(state)
    folder = run.folder / "checkpoints"
    folder.mkdir(exist_ok=True)
    with atomic_path(folder / "best.ckpt") as place:
        torch.save(state, place)
