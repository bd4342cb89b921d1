"""Reference returns: those of a random policy and of an expert, so that scores of different tasks can be compared.

D4RL's numbers are those of its own envs (MuJoCo v2). Local ones are measured here and never mixed with them.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from rl_lightning.errors import DataError


class Reference(NamedTuple):
    """Two returns between which a score of 0 and of 100 lies, and whose they are."""

    low: float
    high: float
    kind: str  # "D4RL", "Minari" or "local"

    def score(self, episode_return: float) -> float:
        return 100.0 * (episode_return - self.low) / (self.high - self.low)


# The first pattern that fits the start of a name decides.
D4RL: list[tuple[str, float, float]] = [
    ("halfcheetah-", -280.178953, 12135.0),
    ("hopper-", -20.272305, 3234.3),
    ("walker2d-", 1.629008, 4592.3),
    ("antmaze-", 0.0, 1.0),
    ("ant-", -325.6, 3879.7),
    ("pen-", 96.262799, 3076.8331017826877),
    ("hammer-", -274.856578, 12794.134825156867),
    ("relocate-", -6.425911, 4233.877797728884),
    ("door-", -56.512833, 2880.5693087298737),
    ("kitchen-", 0.0, 4.0),
    ("maze2d-open-dense", 11.17817, 27.166538620695782),
    ("maze2d-umaze-dense", 68.537689, 193.66285642381482),
    ("maze2d-medium-dense", 44.264742, 297.4552547777125),
    ("maze2d-large-dense", 30.569041, 303.4857382709002),
    ("maze2d-open", 0.01, 20.66),
    ("maze2d-umaze", 23.85, 161.86),
    ("maze2d-medium", 13.13, 277.39),
    ("maze2d-large", 6.7, 273.99),
    ("minigrid-fourrooms", 0.01442, 2.89685),
    ("flow-ring", -165.22, 24.42),
    ("flow-merge", 118.67993, 330.03179),
    ("carla-lane", -0.8503839912088142, 1023.5784385429523),
    ("carla-town", -114.81579500772153, 2440.1772022247314),
    ("bullet-halfcheetah", -1275.766996, 2381.6725),
    ("bullet-hopper", 20.058972, 1441.8059623430963),
    ("bullet-ant", 373.705955, 2650.495),
    ("bullet-walker2d", 16.523877, 1623.6476303317536),
]

# D4RL's names -> (env here, whose observations agree with the file's, and the episode's length there).
ENVS: list[tuple[str, str, int]] = [
    ("hopper-", "Hopper-v5", 1000),
    ("halfcheetah-", "HalfCheetah-v5", 1000),
    ("walker2d-", "Walker2d-v5", 1000),
    ("antmaze-umaze", "rl/AntMaze-umaze-v0", 700),
    ("antmaze-medium", "rl/AntMaze-medium-v0", 1000),
    ("antmaze-large", "rl/AntMaze-large-v0", 1000),
    ("ant-", "", 1000),
    ("pen-", "AdroitHandPen-v1", 100),
    ("door-", "AdroitHandDoor-v1", 200),
    ("hammer-", "AdroitHandHammer-v1", 200),
    ("relocate-", "AdroitHandRelocate-v1", 200),
    ("maze2d-umaze", "", 300),
    ("maze2d-medium", "", 600),
    ("maze2d-large", "", 800),
    ("maze2d-open", "", 150),
    ("kitchen-", "", 280),
]


def short_name(name: str) -> str:
    """`d4rl/hopper-medium-v2` or `hopper_medium-v2.hdf5` -> `hopper-medium-v2`."""
    last = name.replace("\\", "/").rpartition("/")[2]
    return re.sub(r"\.(hdf5|h5)$", "", last).replace("_", "-").lower()


def d4rl_reference(name: str) -> Reference | None:
    stem = short_name(name)
    return next((Reference(low, high, "D4RL") for start, low, high in D4RL if stem.startswith(start)), None)


def d4rl_env(name: str) -> dict[str, Any]:
    """What is known of the env of one of D4RL's data sets, as metadata of a file would say it."""
    stem = short_name(name)
    for start, env_id, steps in ENVS:
        if stem.startswith(start):
            note = (
                f"recorded in D4RL's own env; evaluated in {env_id}"
                if env_id
                else "no env here has the observations of this data set"
            )
            return {"env_id": env_id, "max_episode_steps": steps, "evaluation": note}
    return {}


def d4rl_options(name: str) -> dict[str, Any]:
    """How the env of one of D4RL's data sets is evaluated where the env here would do otherwise."""
    if short_name(name).startswith("pen-"):
        return {"max_episode_steps": 100, "kwargs": {"ends_when_dropped": True}}
    return {}


def local_reference(metadata: dict[str, Any]) -> Reference | None:
    """The reference that a file carries itself."""
    low, high = metadata.get("ref_min"), metadata.get("ref_max")
    if not all(isinstance(value, int | float) for value in (low, high)) or not high > low:  # type: ignore[operator]
        return None
    return Reference(float(low), float(high), str(metadata.get("ref_kind", "local")))  # type: ignore[arg-type]


def normalized_score(name: str, episode_return: float) -> float:
    """D4RL's score of a return: 0 is the random policy, 100 the expert."""
    reference = d4rl_reference(name)
    if reference is None:
        known = ", ".join(start.rstrip("-") for start, _, _ in D4RL)
        raise DataError(f"'{name}' has no reference returns of D4RL; there are some for {known}")
    return reference.score(episode_return)
