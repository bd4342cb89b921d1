"""From flat arrays to rows that know their episode: no transition crosses one, whatever the file left out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rl_lightning.datasets.raw import Array, Raw, first_bad
from rl_lightning.errors import DataError

RECORDED = (
    "recorded_episode"  # in infos/: the episode that a row was recorded in, where rows were taken out since
)
STEPS = 1000  # the time limit of most tasks; a file is examined by it, never learned from


class EpisodeRows(NamedTuple):
    """Checked rows in order of time."""

    obs: Array
    action: Array
    reward: Array
    next_obs: Array
    terminated: Array
    truncated: Array
    episode: Array
    notes: dict[str, Any]  # what had to be done to the file


def ends_of(terminated: Array, truncated: Array) -> Array:
    """Where episodes end; the last row always does."""
    ends = terminated | truncated
    ends[-1] = True
    return ends


def cut_every(terminated: Array, steps: int) -> Array:
    """Time limits of a file that does not tell them: every `steps` steps since the last terminal."""
    starts = np.concatenate([[0], np.flatnonzero(terminated[:-1]) + 1])
    lengths = np.diff(np.append(starts, len(terminated)))
    position = np.arange(len(terminated)) - np.repeat(starts, lengths)
    return ((position + 1) % steps == 0) & ~terminated


def number(ends: Array) -> Array:
    """The episode of each row, given where episodes end."""
    episode = np.zeros(len(ends), np.int64)
    np.cumsum(ends[:-1], out=episode[1:])
    return episode


def timeouts_of(raw: Raw, guess: bool = False) -> tuple[Array, dict[str, Any]]:
    """The file's time limits, by row or by the limit that it states.

    Args:
        raw: Arrays that went through check_arrays.
        guess: Where it says neither, cut by the usual limit and tell; else such a file is refused, because rows would
            lead from one episode into the next.
    """
    if "timeouts" in raw.arrays:
        return raw.arrays["timeouts"], {}
    steps = raw.metadata.get("max_episode_steps") or (STEPS if guess else None)
    if steps is None:
        raise DataError(
            f"{raw.where}: 'timeouts' is missing, so nobody knows where episodes were cut. If the time limit was "
            f"{STEPS} steps:\n  rl data convert {raw.where} NEW.hdf5 --max_episode_steps {STEPS}"
        )
    if not isinstance(steps, int) or steps < 1:
        raise DataError(
            f"{raw.where}: 'metadata/max_episode_steps' is {steps!r}; it must be a positive number"
        )
    return cut_every(raw.arrays["terminals"], steps), {
        "timeouts": f"none in the file: episodes are cut every {steps} steps"
    }


def assemble(raw: Raw, keep_terminals: bool = False) -> EpisodeRows:
    """The rows of checked arrays.

    Args:
        raw: Arrays that went through check_arrays.
        keep_terminals: Of a file without next observations, keep terminal rows with their own observation as the next:
            right where values are learned (nobody looks behind a terminal), wrong where dynamics are.
    """
    arrays = raw.arrays
    obs, terminated = arrays["observations"], arrays["terminals"]
    truncated, notes = timeouts_of(raw)
    ends = ends_of(terminated, truncated)
    if not (terminated[-1] or truncated[-1]):
        notes["last_episode"] = "unfinished"
    truncated = truncated | (ends & ~terminated)  # a recording that breaks off is a cut
    fields = [obs, arrays["actions"], arrays["rewards"]]
    following = arrays.get("next_observations")
    episode = number(ends)
    if following is not None:
        return EpisodeRows._make((*fields, following, terminated, truncated, episode, notes))
    # Without next observations the last step of an episode leads nowhere: what follows it is another episode.
    following = np.empty_like(obs)
    following[:-1] = obs[1:]
    keep = ~ends
    if keep_terminals:
        following[terminated] = obs[terminated]
        keep |= terminated
    kept = np.flatnonzero(keep)
    if not len(kept):
        raise DataError(
            f"{raw.where}: no 'next_observations', and no episode has two steps: no transition is left"
        )
    lost = ends & ~keep
    notes["next_observations"] = (
        f"none in the file: taken from the following row; {int(lost.sum())} rows at ends were dropped, "
        f"{int((lost & terminated).sum())} of them terminals"
    )
    fields = [field[kept] for field in (*fields, following, terminated, truncated)]
    _, episode = np.unique(episode[kept], return_inverse=True)
    episode = episode.reshape(-1).astype(np.int64)
    last = np.append(np.diff(episode) > 0, True)
    fields[5] = last & ~fields[4]
    return EpisodeRows._make((*fields, episode, notes))


def without(raw: Raw, bad: Array) -> Raw:
    """The same file without some rows. The row before a gap is a cut, so that nothing is joined across it.

    What is left of an episode then counts as several; `infos/recorded_episode` keeps which of them belong together.
    """
    if bad.all():
        raise DataError(f"{raw.where}: no row is left")
    truncated, _ = timeouts_of(raw)
    whole = number(ends_of(raw.arrays["terminals"], truncated))
    infos = {RECORDED: whole, **raw.infos}
    truncated = truncated.copy()
    before = np.flatnonzero(bad[1:] & ~bad[:-1])
    truncated[before] |= ~raw.arrays["terminals"][before]
    arrays = {**raw.arrays, "timeouts": truncated}
    keep = ~bad
    return raw._replace(
        arrays={key: array[keep] for key, array in arrays.items()},
        infos={key: array[keep] for key, array in infos.items()},
    )


def drop_bad(raw: Raw) -> tuple[Raw, int]:
    """Without rows that have numbers that are not finite; how many those were."""
    found = first_bad(raw)
    if not found:
        return raw, 0
    bad = np.zeros(len(raw.arrays["rewards"]), bool)
    for rows in found.values():
        bad[rows] = True
    return without(raw, bad), int(bad.sum())
