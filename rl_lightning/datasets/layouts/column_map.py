"""Which columns of a table are observations, actions and the rest: by their names, or as chosen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np

from rl_lightning.datasets.formats.raw import (
    ALIASES,
    DONES,
    LAYOUT,
    NEEDED,
    OPTIONAL,
    Array,
    Raw,
    candidates,
    said_of,
)
from rl_lightning.datasets.layouts.episodes import by_episode
from rl_lightning.errors import ConfigError, DataError

EPISODES = (
    "episode", "episode_id", "episode_index", "episode_num", "eps_id", "ep", "traj", "traj_id", "trajectory",
    "trajectory_id",
)  # fmt: skip
ORDERS = ("t", "step", "timestep", "time_step", "frame_index")
PARTS = re.compile(
    r"(obs|observations?|states?|next_obs|next_observations?|new_obs|actions?)[_./\[](.+?)\]?", re.IGNORECASE
)


class ColumnMap(NamedTuple):
    """For each array the columns that it is made of, side by side, and those that say which episode a row is of."""

    columns: dict[str, list[str]]
    episode: str | None
    order: str | None


def parse_columns(text: str) -> dict[str, list[str]]:
    """`observations=x,y actions=force rewards=r episode=trial` -> the columns of each."""
    columns: dict[str, list[str]] = {}
    for word in re.split(r"[;\s]+", text.strip()):
        name, equals, values = word.partition("=")
        name = ALIASES.get(name, name)
        known = (*NEEDED, *OPTIONAL, *DONES, "episode", "order")
        if not equals or not values or name not in known:
            raise ConfigError(
                f"--columns takes NAME=COLUMN,COLUMN ..., NAME one of {', '.join(known)}; not '{word}'"
            )
        columns.setdefault(name, []).extend(_spread(values))
    return columns


def _spread(values: str) -> list[str]:
    names: list[str] = []
    for value in values.split(","):
        ends = re.fullmatch(r"(\d+)-(\d+)", value)
        names += [str(i) for i in range(int(ends[1]), int(ends[2]) + 1)] if ends else [value]
    return names


def map_columns(
    where: str, there: Iterable[str], chosen_columns: Mapping[str, list[str]] | None = None
) -> ColumnMap:
    """Takes the columns that are chosen; without, those whose names say what they are."""
    names = list(there)
    if chosen_columns is None:
        return ColumnMap(_by_name(names), _first(names, EPISODES), _first(names, ORDERS))
    columns = {
        name: [each for want in wanted for each in _matching(where, names, want)]
        for name, wanted in chosen_columns.items()
    }
    episode, order = columns.pop("episode", [None]), columns.pop("order", [None])
    return ColumnMap(columns, episode[0], order[0])


def _matching(where: str, names: list[str], wanted: str) -> list[str]:
    fitting = [name for name in names if name == wanted] or [
        name for name in names if fnmatchcase(name, wanted)
    ]
    if not fitting:
        raise DataError(f"{where}: no column '{wanted}' (it has {', '.join(names[:12])})")
    return fitting


def _by_name(names: list[str]) -> dict[str, list[str]]:
    """Columns with the name of an array, or that of one and of a part behind it: obs_0, observation.state."""
    fitting = candidates(names)
    columns = {name: keys[:1] for name, keys in fitting.items()}
    if fitting.get("terminals", [""])[0] in DONES:
        columns[DONES[0]] = columns.pop("terminals")
    parts: dict[str, list[str]] = {}
    for name in names:
        part = PARTS.fullmatch(name)
        if part is not None:
            parts.setdefault(ALIASES.get(part[1].lower(), part[1].lower()), []).append(name)
    return parts | columns


def _first(names: list[str], wanted: tuple[str, ...]) -> str | None:
    return next((name for name in wanted if name in names), None)


def rows_of_table(
    where: str, table: Mapping[str, Array], layout: str, chosen_columns: Mapping[str, list[str]] | None = None
) -> Raw:
    """A table's rows under our names, sorted by episode where a column says which one a row is of."""
    mapped = map_columns(where, table, chosen_columns)
    lacking = [key for key in NEEDED if key not in mapped.columns]
    if lacking:
        raise DataError(
            f"{where}: no column is known to hold '{lacking[0]}' (it has {', '.join(list(table)[:12])}). Say which:\n"
            f'rl data convert {where} NEW.hdf5 --columns "observations=A,B actions=C rewards=D episode=E"'
        )
    arrays = {
        name: _side_by_side(where, name, [table[key] for key in keys])
        for name, keys in mapped.columns.items()
    }
    if mapped.episode is not None:
        order = None if mapped.order is None else table[mapped.order]
        arrays = by_episode(where, arrays, table[mapped.episode], order)
    dones = next((key for key in DONES if key in arrays), None)
    said = {} if dones is None or "terminals" in arrays else said_of({"terminals": [dones]})
    if dones is not None:
        arrays.setdefault("terminals", arrays[dones])
        del arrays[dones]
    return Raw(where, arrays, {}, {LAYOUT: layout} | said)


def seen_in_order(
    where: str, table: Mapping[str, Array], chosen_columns: Mapping[str, list[str]] | None = None
) -> dict[str, Array]:
    """Observations of a table as its rows stand, where an episode begins, and, if they are there, actions."""
    mapped = map_columns(where, table, chosen_columns)
    if "observations" not in mapped.columns:
        raise DataError(
            f"{where}: no column is known to hold 'observations' (it has {', '.join(list(table)[:12])}); call them "
            'obs_0, obs_1, ... or say which: --columns "observations=A,B actions=C episode=E"'
        )
    arrays = {
        name: _side_by_side(where, name, [table[key] for key in mapped.columns[name]])
        for name in ("observations", "actions")
        if name in mapped.columns
    }
    if mapped.episode is not None:
        names = table[mapped.episode]
        arrays["is_first"] = np.append(True, names[1:] != names[:-1])[: len(names)]
    return arrays


def _side_by_side(where: str, name: str, parts: list[Array]) -> Array:
    for part in parts:
        if part.dtype.kind not in "biuf":
            raise DataError(f"{where}: '{name}' is text; numbers are needed")
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)
