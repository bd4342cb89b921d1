"""Names of local data sets: which env, which policies, and what is done to their rows."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from rl_lightning.datasets.formats.raw import Raw
from rl_lightning.datasets.rows.episode_rows import RECORDED, without
from rl_lightning.errors import DataError

LOCAL_ENVS = {
    "cartpole": "CartPole-v1",
    "hopper": "Hopper-v5",
    "halfcheetah": "HalfCheetah-v5",
    "walker2d": "Walker2d-v5",
    "pendulum": "Pendulum-v1",
    "hole": "rl/Hole-v0",
    "clinic": "rl/Clinic-v0",
    "pointmaze": "rl/PointUMaze-v0",
    "modes": "rl/EightModes-v0",
    "detour": "rl/Detour-v0",
    "detour-pixels": "rl/DetourPixels-v0",
}
UNNAMED = {  # envs that the rows of a recipe do not name, with what they say instead of where they come from
    "clinic": "synthetic: made by a small generator of ours (rl/Clinic-v0); no patient and no device was recorded",
}
POLICIES = {  # level -> the policies that play, each an equal fraction of the rows
    "random": ("random",),
    "scripted": ("scripted",),
    "umaze": ("scripted",),
    "medium": ("medium",),
    "expert": ("expert",),
    "medium-expert": ("medium", "expert"),
    "medium-replay": ("random", "medium"),
}
TRANSFORMS = ("narrow", "sparse")
NARROW_ROWS, NARROW_NOISE = 30_000, 0.1
SCRIPTED_ROWS = 20_000  # our own small tasks need no more
MAZE_ROWS = 30_000
SPARSE_PERCENTILE, SPARSE_KEEP = 70.0, 0.1
_LEVELS = "|".join(sorted(POLICIES, key=len, reverse=True))
_NAME = re.compile(rf"(?P<env>.+?)-(?P<level>{_LEVELS})(?:-(?P<transform>{'|'.join(TRANSFORMS)}))?")


class LocalRecipe(NamedTuple):
    """What a name like hopper-medium-expert-sparse asks for."""

    env: str
    level: str
    transform: str = ""

    @property
    def env_id(self) -> str:
        return LOCAL_ENVS.get(self.env, "")

    @property
    def default_rows(self) -> int:
        if self.level == "scripted":
            return SCRIPTED_ROWS
        if self.level == "umaze":
            return MAZE_ROWS
        return NARROW_ROWS if self.transform == "narrow" else 100_000


def parse_recipe(name: str) -> LocalRecipe:
    """Takes `local/hopper-expert-narrow` apart."""
    match = _NAME.fullmatch(name.removeprefix("local/"))
    if match is None:
        raise DataError(
            f"'{name}' does not say what to record. A name is local/ENV-LEVEL or local/ENV-LEVEL-TRANSFORM;\n"
            f"levels are {', '.join(POLICIES)}; transforms are {', '.join(TRANSFORMS)}.\n"
            "With --run RUN any name will do"
        )
    return LocalRecipe(match["env"], match["level"], match["transform"] or "")


def env_of_name(name: str) -> str:
    """The env that the name of a data set begins with, e.g. Hopper-v5 of local/hopper-mine; "" if none is known."""
    own = name.removeprefix("local/")
    keys = [key for key in LOCAL_ENVS if own == key or own.startswith(f"{key}-")]
    return LOCAL_ENVS[max(keys, key=len)] if keys else ""


def sparse_rows(rows: int) -> int:
    """Rows to record so that about `rows` are left."""
    high = 1 - SPARSE_PERCENTILE / 100
    return int(rows / (1 - high * (1 - SPARSE_KEEP)) * 1.02) + 1


def make_sparse(raw: Raw, rows: int, generator: np.random.Generator) -> tuple[Raw, dict[str, Any]]:
    """Thins out the region of high reward: of the rows above a percentile a random tenth stays."""
    reward = raw.arrays["rewards"]
    limit = float(np.percentile(reward, SPARSE_PERCENTILE))
    gone = (reward > limit) & (generator.random(len(reward)) >= SPARSE_KEEP)
    raw = without(raw, gone)
    extra = np.arange(len(raw.arrays["rewards"])) >= rows
    raw = without(raw, extra) if extra.any() else raw
    metadata = {
        "recorded_episodes": len(np.unique(raw.infos[RECORDED])),
        "sparse": f"of rows with a reward above {limit:.6g} (percentile {SPARSE_PERCENTILE:g}) a random "
        f"{SPARSE_KEEP:.0%} were kept; the row before each gap is a timeout, infos/{RECORDED} says what belongs "
        "together; mean_return is that of the whole episodes",
        "sparse_percentile": SPARSE_PERCENTILE,
        "sparse_keep": SPARSE_KEEP,
        "sparse_reward": limit,
    }
    return raw, metadata
