"""What JSON and pickles hold: a dictionary of arrays, a list of steps, or a list of episodes (DAPG's and MJRL's)."""

from __future__ import annotations

from typing import Any

import numpy as np

from rl_lightning.datasets.formats.arrays import sort_out
from rl_lightning.datasets.formats.raw import CLIPPED, LAYOUT, Raw, candidates, wanted
from rl_lightning.datasets.layouts.episodes import join_episodes
from rl_lightning.errors import DataError

# what DAPG keeps of an episode's first state -> the env that it is a state of
ADROIT = {
    "door_body_pos": "AdroitHandDoor-v1",
    "board_pos": "AdroitHandHammer-v1",
    "desired_orien": "AdroitHandPen-v1",
    "obj_pos": "AdroitHandRelocate-v1",
}


def from_python(where: str, value: Any) -> Raw:
    """A dictionary of arrays, a list of steps, or a list of episodes."""
    if isinstance(value, dict) and value and all(isinstance(item, dict) for item in value.values()):
        value = list(value.values())  # episodes by name
    if isinstance(value, list | tuple) and value and all(isinstance(item, dict) for item in value):
        episodes = list(value)
        if _is_episode(episodes[0]):
            return _episodes(where, episodes)
        value, layout = _from_steps(where, episodes), f"a list of {len(episodes)} steps"
    else:
        layout = "a dictionary of arrays"
    if not isinstance(value, dict):
        raise DataError(
            f"{where}: holds a {type(value).__name__}; a dictionary of arrays, a list of steps or a list of episodes "
            "is needed"
        )
    raw = sort_out(where, {str(key): _array(where, str(key), item) for key, item in value.items()})
    return raw._replace(metadata=raw.metadata | {LAYOUT: layout})


def _is_episode(item: dict[str, Any]) -> bool:
    """Whether it has an action per step; of one step the flags and the reward are single numbers."""
    names = candidates(map(str, item))
    for name in ("rewards", "terminals", "timeouts"):
        if name in names and np.ndim(item[names[name][0]]) > 0:
            return True
    actions = item.get(names.get("actions", [""])[0])
    if "rewards" in names:
        return False
    return np.ndim(actions) > 1 if actions is not None else False


def _episodes(where: str, episodes: list[dict[str, Any]]) -> Raw:
    raw = sort_out(where, join_episodes(where, episodes))
    metadata: dict[str, Any] = {LAYOUT: f"a list of {len(episodes)} episodes"}
    state = episodes[0].get("init_state_dict")
    if isinstance(state, dict):
        metadata[LAYOUT] = f"DAPG demonstrations: {metadata[LAYOUT]}"
        env = next((env for key, env in ADROIT.items() if key in state), None)
        if env is not None:
            metadata |= {"env_id": env, CLIPPED: "Adroit's envs clip actions to [-1, 1]"}
    elif "agent_infos" in episodes[0] or "env_infos" in episodes[0]:
        metadata[LAYOUT] = f"MJRL paths: {metadata[LAYOUT]}"
    return raw._replace(metadata=raw.metadata | metadata)


def _from_steps(where: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    columns: dict[str, Any] = {key: [] for key in rows[0]}
    for number, row in enumerate(rows):
        for key, values in columns.items():
            if key not in row:
                raise DataError(
                    f"{where}: row {number} has no '{key}' (it has {', '.join(map(str, list(row)[:8]))})"
                )
            values.append(row[key])
    return columns


def _array(where: str, key: str, value: Any) -> Any:
    if isinstance(value, dict) or key.startswith("metadata/") or not wanted(key):
        return value
    try:
        return np.asarray(value)
    except (ValueError, TypeError, OverflowError):
        raise DataError(
            f"{where}: rows of '{key}' differ in length; each step needs as many numbers"
        ) from None
