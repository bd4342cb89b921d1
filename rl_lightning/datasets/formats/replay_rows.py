"""A run's replay buffer as a data set: rows of its segments, packed or in windows, sorted by env."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from rl_lightning.datasets.formats.raw import Raw
from rl_lightning.errors import DataError
from rl_lightning.replay.ring import Columns
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.types import EnvSpec

ARRIVALS = ("obs", "action", "reward", "terminated", "truncated", "is_first")  # of a replay of windows


def replay_rows(saved: dict[str, Any], store: SegmentStore, spec: EnvSpec, num_envs: int, where: str) -> Raw:
    """Rows of one rank's buffer, oldest first, each env's stream by itself.

    Args:
        saved: What the buffer's save() returned.
        store: Holds the segments that it names.
        spec: Of the env.
        num_envs: Row r of the buffer is a step of env r % num_envs.
        where: For messages.
    """
    if "pending_reward" in saved:
        return sequence_rows(saved, store, where)
    if spec.is_pixels:
        raise DataError(f"{where}: its replay holds frames; only flat observations are made into data sets")
    saved = saved.get("store", saved)  # prioritized replay keeps its rows one level below
    columns = Columns(spec)
    parts = []
    for record in saved.get("segments", []):
        rows = store.read(record).get("rows")
        if rows is None or rows.ndim != 2 or rows.shape[1] != columns.total:
            raise DataError(f"{where}: {record['file']} has rows of another shape than {spec.env_id}'s")
        parts.append((int(record["start"]), rows))
    if not parts:
        raise DataError(
            f"{where}: this checkpoint has no replay (only off-policy runs, such as SAC, keep one)"
        )
    rows = torch.cat([rows for _, rows in parts])
    number = np.concatenate([np.arange(start, start + len(rows)) for start, rows in parts])
    number, first = np.unique(number, return_index=True)
    order = np.lexsort((number, number % num_envs))
    rows = rows[torch.from_numpy(first[order])]
    number = number[order]
    arrays = _unpack(rows, columns, spec)
    cut = np.isin(number, np.asarray(saved.get("cuts", []), np.int64))
    # The newest row of an env goes on beyond this file.
    cut |= np.append(number[1:] != number[:-1] + num_envs, True)
    arrays["timeouts"] = arrays["timeouts"] | (cut & ~arrays["terminals"])
    return Raw(where, arrays)


def sequence_rows(saved: dict[str, Any], store: SegmentStore, where: str) -> Raw:
    """Rows of a replay of windows, which keeps what was received with the observation that it led to.

    Args:
        saved: What the buffer's save() returned.
        store: Holds the segments that it names.
        where: For messages.
    """
    envs: list[dict[str, np.ndarray]] = []
    for env in range(len(saved["total"])):
        rings = [(int(record["start"][env]), store.read(record)) for record in saved["segments"]]
        if sum(len(rows[f"{env}/reward"]) for _, rows in rings) < 2:
            continue
        columns = {name: torch.cat([rows[f"{env}/{name}"] for _, rows in rings]).numpy() for name in ARRIVALS}
        cuts = [row - rings[0][0] for n, row in saved["cuts"] if n == env]
        columns["truncated"][[row for row in cuts if row >= 0]] = True
        envs.append(_steps_of(columns))
    if not any(len(arrays["rewards"]) for arrays in envs):
        raise DataError(f"{where}: its replay holds no whole step yet")
    return Raw(where, {key: np.concatenate([arrays[key] for arrays in envs]) for key in envs[0]})


def _steps_of(rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Steps between arrivals of one env; the last of each stretch that goes on elsewhere is a cut."""
    ended = rows["terminated"] | rows["truncated"]
    here = np.flatnonzero(~ended[:-1] & ~rows["is_first"][1:])
    last = np.append(np.diff(here) > 1, True)[: len(here)]
    terminals = rows["terminated"][here + 1]
    return {
        "observations": rows["obs"][here],
        "actions": rows["action"][here],
        "rewards": rows["reward"][here + 1],
        "next_observations": rows["obs"][here + 1],
        "terminals": terminals,
        "timeouts": rows["truncated"][here + 1] | (last & ~terminals),
    }


def _unpack(rows: torch.Tensor, columns: Columns, spec: EnvSpec) -> dict[str, np.ndarray]:
    obs, action, reward, terminated, truncated, following, *_ = rows.split(columns.widths, 1)
    actions = action.reshape(-1, *spec.action_shape).numpy()
    if spec.action_kind != "continuous":
        actions = actions.astype(np.int64)
    if spec.is_bytes:
        obs, following = obs.contiguous().view(torch.uint8), following.contiguous().view(torch.uint8)
    assert obs.shape[1] == math.prod(spec.obs_shape), (obs.shape, spec.obs_shape)
    return {
        "observations": obs.numpy().copy(),
        "actions": actions,
        "rewards": reward[:, 0].numpy().copy(),
        "next_observations": following.numpy().copy(),
        "terminals": terminated[:, 0].numpy() > 0,
        "timeouts": truncated[:, 0].numpy() > 0,
    }
