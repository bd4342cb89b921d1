"""Our own small envs, registered under `rl/`."""

from __future__ import annotations

from typing import Any

import gymnasium

from rl_lightning.envs.registry import Env, gym_make

_ENTRY = "rl_lightning.envs.toys"
_TOYS: dict[str, tuple[str, int | None]] = {  # id -> (class, time limit)
    "rl/Catch-v0": ("catch:Catch", None),
    "rl/Recall-v0": ("recall:Recall", None),
    "rl/Masked-v0": ("masked:Masked", None),
    "rl/Constant-v0": ("constant:ConstantReward", 10),
    "rl/Counter-v0": ("counter:Counter", 50),
    "rl/Hole-v0": ("hole:Hole", 60),
    "rl/Clinic-v0": ("clinic:Clinic", 48),
    "rl/Dodge-v0": ("dodge:Dodge", 300),
    "rl/FrozenLake2x2-v0": ("lake:FrozenLake2x2", 100),
    "rl/Detour-v0": ("detour:Detour", 60),
    "rl/DetourPixels-v0": ("detour:Detour", 60),
    "rl/Xor-v0": ("xor:Xor", None),
    "rl/BitFlip-v0": ("bit_flip:BitFlip", None),
    "rl/EightModes-v0": ("modes:EightModes", 1),
    "rl/PointUMaze-v0": ("mazes:PointUMaze", 300),
    "rl/AntMaze-umaze-v0": ("mazes:D4RLAntMaze", 700),
    "rl/AntMaze-medium-v0": ("mazes:D4RLAntMaze", 1000),
    "rl/AntMaze-large-v0": ("mazes:D4RLAntMaze", 1000),
}

for _id, (_class, _limit) in _TOYS.items():
    if _id not in gymnasium.registry:
        _more: dict[str, Any] = {"pixels": True} if _id == "rl/DetourPixels-v0" else {}
        if _id.startswith("rl/AntMaze-"):
            _more = {"maze": _id.split("-")[1]}
        gymnasium.register(_id, entry_point=f"{_ENTRY}.{_class}", max_episode_steps=_limit, kwargs=_more)


def known_ids() -> list[str]:
    return list(_TOYS)


def build(env_id: str, kwargs: dict[str, Any], max_episode_steps: int | None, render_mode: str | None) -> Env:
    return gym_make(env_id, kwargs, max_episode_steps, render_mode)
