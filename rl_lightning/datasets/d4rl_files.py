"""D4RL's files: which folder of its server each lies in, and what is known of its bytes."""

from __future__ import annotations

from typing import NamedTuple

MUJOCO = ("hopper", "halfcheetah", "walker2d", "ant")
LEVELS = ("random", "medium", "expert", "medium-replay", "full-replay", "medium-expert")
MAZES = {
    "umaze": "u-maze_noisy_multistart_False_multigoal_False",
    "umaze-diverse": "u-maze_noisy_multistart_True_multigoal_True",
    "medium-play": "big-maze_noisy_multistart_True_multigoal_False",
    "medium-diverse": "big-maze_noisy_multistart_True_multigoal_True",
    "large-play": "hardest-maze_noisy_multistart_True_multigoal_False",
    "large-diverse": "hardest-maze_noisy_multistart_True_multigoal_True",
}
HANDS = ("pen", "hammer", "door", "relocate")
HAND_LEVELS = {
    "human": "{}-v0_demos_clipped",
    "cloned": "{}-demos-v0-bc-combined",
    "expert": "{}-v0_expert_clipped",
}
KITCHENS = {
    "complete": "mini_kitchen_microwave_kettle_light_slider-v0",
    "partial": "kitchen_microwave_kettle_light_slider-v0",
    "mixed": "kitchen_microwave_kettle_bottomburner_light-v0",
}


def _first_version(env: str, level: str) -> str:
    """The file of a v0 set, whose replay was called mixed."""
    env = "walker" if (env, level) == ("walker2d", "medium-replay") else env
    return f"{env}_{level.replace('medium-replay', 'mixed').replace('-', '_')}.hdf5"


# name -> folder of D4RL's server and file
D4RL_FILES = (
    {
        f"{env}-{level}-v2": ("gym_mujoco_v2", f"{env}_{level.replace('-', '_')}-v2.hdf5")
        for env in MUJOCO
        for level in LEVELS
    }
    | {
        f"{env}-{level}-v0": ("gym_mujoco", _first_version(env, level))
        for env in MUJOCO
        for level in LEVELS
        if level != "full-replay"
    }
    | {
        f"antmaze-{maze}-v2": ("ant_maze_v2", f"Ant_maze_{file}_sparse_fixed.hdf5")
        for maze, file in MAZES.items()
    }
    | {f"antmaze-{maze}-v0": ("ant_maze_new", f"Ant_maze_{file}_sparse.hdf5") for maze, file in MAZES.items()}
    | {
        f"{hand}-{level}-v0": ("hand_dapg", f"{file.format(hand)}.hdf5")
        for hand in HANDS
        for level, file in HAND_LEVELS.items()
    }
    | {
        f"{hand}-{level}-v1": ("hand_dapg_v1", f"{hand}-{level}-v1.hdf5")
        for hand in HANDS
        for level in HAND_LEVELS
    }
    | {f"kitchen-{level}-v0": ("kitchen", f"{file}.hdf5") for level, file in KITCHENS.items()}
    | {
        f"maze2d-{maze}-v1": ("maze2d", f"maze2d-{maze}-sparse-v1.hdf5")
        for maze in ("umaze", "medium", "large")
    }
    | {
        f"maze2d-{maze}-dense-v1": ("maze2d", f"maze2d-{maze}-dense-v1.hdf5")
        for maze in ("umaze", "medium", "large")
    }
    | {
        "maze2d-open-v0": ("maze2d", "maze2d-open-sparse.hdf5"),
        "maze2d-open-dense-v0": ("maze2d", "maze2d-open-dense.hdf5"),
    }
)


class KnownBytes(NamedTuple):
    """What a file must be, wherever it comes from."""

    size: int
    sha256: str


# The same in four public projects that use the file, each by itself.
KNOWN = {
    "hopper-medium-v2": KnownBytes(
        152_756_557, "5bdf1bc4a713c82941de44633df669b36c89850b652a25985166796d25cf71a0"
    ),
}
