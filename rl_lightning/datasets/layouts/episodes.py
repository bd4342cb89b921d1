"""What every layout is read into: rows of transitions, episode by episode, whose ends are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from rl_lightning.datasets.formats.minari_reader import flatten
from rl_lightning.datasets.formats.raw import DONES, NEEDED, Array, candidates, the_one
from rl_lightning.errors import DataError

FLAGS = ("terminals", "timeouts")


def join_episodes(
    where: str, episodes: Iterable[Mapping[str, Any]], infos: Iterable[str] = ()
) -> dict[str, Array]:
    """Rows of episodes, back to back; the end of each is a time limit unless the file says that it terminated.

    Args:
        where: The file, for messages.
        episodes: Arrays of each, by the file's own names. Only observations and actions are needed. Observations may be
            one more than actions, and flags one for the whole episode.
        infos: What else is kept of each, one row per step, as `infos/NAME`.
    """
    parts: dict[str, list[Array]] = {}
    count = 0
    for number, members in enumerate(episodes):
        one = _episode(f"{where}: episode {number}", members, tuple(infos))
        if number and one.keys() != parts.keys():
            differing = sorted(one.keys() ^ parts.keys())[0]
            first, second = ("has", "have not") if differing in one else ("has no", "have")
            raise DataError(f"{where}: episode {number} {first} '{differing}', the ones before {second}")
        for key, array in one.items():
            parts.setdefault(key, []).append(array)
        count += 1
    if not count:
        raise DataError(f"{where}: has no episodes")
    joined: dict[str, Array] = {}
    for key, arrays in parts.items():
        try:
            joined[key] = np.concatenate(arrays)
        except ValueError:
            raise DataError(f"{where}: episodes differ in the shape of '{key}'") from None
    return joined


def _episode(where: str, members: Mapping[str, Any], infos: tuple[str, ...]) -> dict[str, Array]:
    names = candidates(map(str, members))
    values = {name: the_one(where, name, keys, members.__getitem__) for name, keys in names.items()}
    for key in NEEDED:
        if key not in values:
            there = ", ".join(map(str, list(members)[:12])) or "nothing"
            raise DataError(f"{where}: no array '{key}' (it holds {there})")
    steps = len(rows_of(where, "actions", values["actions"]))
    if not steps:
        raise DataError(f"{where}: 'actions' has no rows; leave the episode out")
    arrays = {key: rows_of(where, key, value) for key, value in values.items() if key not in FLAGS}
    if len(arrays["observations"]) == steps + 1:
        arrays["next_observations"] = arrays["observations"][1:]
        arrays["observations"] = arrays["observations"][:-1]
    arrays |= {key: _flags(where, key, values[key], steps) for key in FLAGS if key in values}
    arrays |= {f"infos/{key}": np.asarray(members[key]) for key in infos if key in members}
    for key, array in arrays.items():
        if np.shape(array)[:1] != (steps,):
            raise DataError(f"{where}: '{key}' has {len(array)} rows and 'actions' {steps}")
    last = np.arange(steps) == steps - 1
    ended = arrays.get("terminals", np.zeros(steps, bool))
    arrays["timeouts"] = arrays.get("timeouts", np.zeros(steps, bool)) | (last & ~ended)
    if names.get("terminals", [""])[0] in DONES:
        arrays["dones"] = arrays.pop("terminals")
    return arrays


def rows_of(where: str, key: str, value: Any) -> Array:
    """One row per step. Parts of a dictionary stand beside one another in order of their names."""
    try:
        rows = (
            flatten(value, len(np.asarray(_first(value))))
            if isinstance(value, dict | tuple)
            else np.asarray(value)
        )
    except (ValueError, TypeError, OverflowError):
        raise DataError(
            f"{where}: rows of '{key}' differ in length; each step needs as many numbers"
        ) from None
    if rows.ndim == 0 and key not in FLAGS:
        raise DataError(f"{where}: '{key}' is a single value, not one row per step")
    return rows


def _first(value: Any) -> Any:
    while isinstance(value, dict | tuple) and value:
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]
    return value


def _flags(where: str, key: str, value: Any, steps: int) -> Array:
    flags = np.asarray(rows_of(where, key, value)).reshape(-1)
    if flags.dtype.kind not in "biuf" or not np.isin(flags, (0, 1)).all():
        raise DataError(f"{where}: '{key}' must be 0 or 1")
    flags = flags.astype(bool)
    if len(flags) == 1 != steps:  # one for the whole episode
        flags = np.append(np.zeros(steps - 1, bool), flags)
    return flags


def by_episode(
    where: str, arrays: dict[str, Array], episode: Array, order: Array | None = None
) -> dict[str, Array]:
    """Flat rows sorted by the number or name of their episode, whose last rows are time limits unless they terminated.

    Args:
        where: The file, for messages.
        arrays: One row per step, under our names; dones may stand for terminals.
        episode: Which episode each row is of.
        order: What puts the rows of an episode in order of time; null: the file's own order does.
    """
    episode = np.asarray(episode).reshape(-1)
    if len(episode) != len(arrays["actions"]):
        raise DataError(
            f"{where}: names episodes of {len(episode)} rows and has {len(arrays['actions'])} actions"
        )
    _, first, place = np.unique(episode, return_index=True, return_inverse=True)
    place = first[place.reshape(-1)]  # episodes in the order in which they begin
    time = np.arange(len(episode)) if order is None else np.asarray(order).reshape(-1)
    rows = np.lexsort((time, place))
    arrays = {key: np.asarray(array)[rows] for key, array in arrays.items()}
    last = np.append(np.diff(place[rows]) != 0, True)
    ended = arrays.get("terminals", arrays.get("dones", np.zeros(len(rows), bool)))
    ended = np.asarray(ended).reshape(-1).astype(bool)
    cut = np.asarray(arrays.get("timeouts", np.zeros(len(rows), bool))).reshape(-1).astype(bool)
    return arrays | {"timeouts": cut | (last & ~ended)}
