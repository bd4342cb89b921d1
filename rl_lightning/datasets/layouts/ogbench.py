"""OGBench's compact .npz: states of trajectories, the last of which has no action that leads anywhere, and no rewards.

Single-task variants have rewards, which OGBench's own package computes from the positions in the file: a row's reward
is that of the state it begins in, in every version of the package. Its envs reward the same since 1.2; before, they
rewarded the next state, which `success_timing='post'` brings back.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from rl_lightning.datasets.formats.npz import read_npz
from rl_lightning.datasets.formats.raw import GOALS, LAYOUT, Array, Raw
from rl_lightning.errors import DataError
from rl_lightning.extras import pip_command

STATES = ("qpos", "qvel", "button_states")
COMPACT = ("observations", "actions", "terminals")


def is_compact(keys: Collection[str]) -> bool:
    """Whether an .npz holds OGBench's arrays, whose terminals mark the last state of a trajectory."""
    others = {"rewards", "timeouts", "next_observations"}
    return {*COMPACT, "qpos"} <= set(keys) and not others & set(keys)


def read_compact(path: Path) -> Raw:
    """A row for every state but the last of its trajectory, which is the next one of the row before."""
    members = {
        key: value for key, value in read_npz(path, also=STATES).items() if isinstance(value, np.ndarray)
    }
    for key in COMPACT:
        if key not in members:
            raise DataError(f"{path}: no array '{key}'; OGBench's files have {', '.join(COMPACT)}")
    rows = len(members["terminals"])
    for key, array in members.items():
        if len(array) != rows:
            raise DataError(f"{path}: '{key}' has {len(array)} rows and 'terminals' {rows}")
    last = members["terminals"].astype(bool)
    last[-1:] = True
    if last.all():
        raise DataError(f"{path}: every row is the last of its trajectory; no transition is left")
    going = ~last
    obs = members["observations"]
    arrays = {
        "observations": obs[going],
        "actions": members["actions"][going],
        "next_observations": obs[1:][going[:-1]],
        "timeouts": last[1:][going[:-1]],
    }
    infos = {key: members[key][going] for key in STATES if key in members}
    layout = f"OGBench's compact form: {int(last.sum())} trajectories"
    return Raw(str(path), arrays, infos, {LAYOUT: layout, "source": "OGBench"})


def env_name(name: str) -> str:
    """The env of a data set: its name without the word that says how it was recorded."""
    words = name.removeprefix("ogbench/").split("-")
    words += [] if re.fullmatch(r"v\d+", words[-1]) else ["v0"]
    place = words.index("singletask") if "singletask" in words else len(words) - 1
    return "-".join(words[: place - 1] + words[place:])


def by_name(name: str, path: Path) -> Raw:
    """A data set by OGBench's name, with rewards if it is a single-task one."""
    raw, env = read_compact(path), env_name(name)
    note = f"its env is {env} of the ogbench package"
    raw = raw._replace(metadata=raw.metadata | {"ogbench_env": env, "evaluation": note})
    return relabelled(raw, env) if "singletask" in env.split("-") else raw


def relabelled(raw: Raw, env_id: str) -> Raw:
    """Rewards and goals of a single task, as OGBench's package computes them."""
    try:
        import gymnasium
        from ogbench.relabel_utils import relabel_dataset
    except ImportError:
        raise DataError(
            f"{raw.where}: rewards of {env_id} are computed by OGBench's package. Install it with:\n"
            f"{pip_command('ogbench')}"
        ) from None
    states: dict[str, Any] = dict(raw.infos)
    if "qpos" not in states:
        raise DataError(f"{raw.where}: no array 'qpos', which rewards are computed from. Fetch it again")
    try:
        env = gymnasium.make(env_id)
        relabel_dataset(env_id, env, states)
    except (gymnasium.error.Error, KeyError, ValueError, AssertionError) as error:
        raise DataError(f"{env_id} is no single task that OGBench can give rewards for ({error})") from None
    goals: Array = states["masks"] == 0
    arrays = {**raw.arrays, "rewards": states["rewards"], "terminals": goals}
    metadata = raw.metadata | {
        "env_id": env_id,  # where it is evaluated
        LAYOUT: f"{raw.metadata[LAYOUT]}, rewards of {env_id}",
        GOALS: "success ends a task; the recording goes on",
    }
    return raw._replace(arrays=arrays, metadata=metadata)
