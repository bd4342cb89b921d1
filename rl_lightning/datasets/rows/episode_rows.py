"""From flat arrays to rows that know their episode: no transition crosses one, whatever the file left out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rl_lightning.datasets.formats.raw import Array, Raw, first_bad, missing_from
from rl_lightning.datasets.rows.goals import goes_on
from rl_lightning.datasets.rows.outliers import outliers
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
    next_known: Array  # False where nobody knows what followed a terminal row
    kept: Array | None  # rows of the file that are left; None: all
    notes: dict[str, Any]  # what had to be done to the file


def ends_of(raw: Raw, truncated: Array) -> Array:
    """Where episodes end; the last row always does, and a goal that the recording goes on behind does not."""
    ends = truncated.copy() if goes_on(raw) else raw.arrays["terminals"] | truncated
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
    terminated = raw.arrays["terminals"]
    return cut_every(np.zeros_like(terminated) if goes_on(raw) else terminated, steps), {
        "timeouts": f"none in the file: episodes are cut every {steps} steps"
    }


def split_episodes(raw: Raw) -> EpisodeRows:
    """The rows of checked arrays. Terminal rows always stay: nobody looks behind a terminal.

    Without next observations the next one is the following row's. Behind an end that is another episode's, so a row at
    a time limit is dropped, and a terminal row has its own observation in that place and is marked.
    """
    arrays = raw.arrays
    obs, terminated = arrays["observations"], arrays["terminals"]
    limits, notes = timeouts_of(raw)
    ends = ends_of(raw, limits)
    final = terminated & ends  # the terminals that end an episode
    if goes_on(raw):
        notes["terminals"] = "goals that the recording goes on behind: they end no episode"
        final = np.zeros_like(terminated)
    episode, cut = number(ends), ends & ~terminated  # a recording that breaks off is a cut
    if not (limits[-1] or final[-1]):
        notes["last_episode"] = "unfinished"
    following = arrays.get("next_observations")
    if following is None:
        # of demonstrations every action counts, also that at an end: nobody looks behind it
        unknown = ends if "terminals" in missing_from(raw.metadata) else final & ~limits
        return _linked(raw, ends, unknown, episode, notes)
    known = np.ones(len(obs), bool)
    fields = (obs, arrays["actions"], arrays["rewards"], following, terminated, limits | cut, episode)
    return EpisodeRows._make((*fields, known, None, notes))


def _linked(raw: Raw, ends: Array, unknown: Array, episode: Array, notes: dict[str, Any]) -> EpisodeRows:
    """The rows of a file without next observations, each with the following row's; `unknown` ones have none."""
    obs, terminated = raw.arrays["observations"], raw.arrays["terminals"]
    rows = np.flatnonzero(~ends | unknown)
    if not len(rows):
        raise DataError(
            f"{raw.where}: no 'next_observations', and no episode has two steps: no transition is left"
        )
    following = np.concatenate([obs[1:], obs[-1:]])
    following[unknown] = obs[unknown]
    last_rows = "terminal rows" if terminated.any() else "last rows"
    notes["next_observations"] = (
        f"none in the file: taken from the following row; {len(obs) - len(rows)} rows at time limits were dropped, "
        f"{int(unknown.sum())} {last_rows} have no next one"
    )
    columns = (obs, raw.arrays["actions"], raw.arrays["rewards"], following, terminated)
    fields = [column[rows] for column in columns]
    _, episode = np.unique(episode[rows], return_inverse=True)
    episode = episode.reshape(-1).astype(np.int64)
    last = np.append(np.diff(episode) > 0, True)
    return EpisodeRows._make((*fields, last & ~fields[4], episode, ~unknown[rows], rows, notes))


def without(raw: Raw, bad: Array) -> Raw:
    """The same file without some rows. The row before a gap is a cut, so that nothing is joined across it.

    What is left of an episode then counts as several; `infos/recorded_episode` keeps which of them belong together.
    """
    if bad.all():
        raise DataError(f"{raw.where}: no row is left")
    truncated, _ = timeouts_of(raw)
    ends = ends_of(raw, truncated)
    infos = {RECORDED: number(ends), **raw.infos}
    truncated = truncated.copy()
    before = np.flatnonzero(bad[1:] & ~bad[:-1])
    truncated[before] |= ~ends[before]
    arrays = {**raw.arrays, "timeouts": truncated}
    keep = ~bad
    return raw._replace(
        arrays={key: array[keep] for key, array in arrays.items()},
        infos={key: array[keep] for key, array in infos.items()},
    )


def drop_nonfinite(raw: Raw) -> tuple[Raw, int]:
    """Without rows that have numbers that are not finite, or far from all others; how many those were."""
    bad_rows = [*first_bad(raw).values(), *(outlier.rows for outlier in outliers(raw).values())]
    if not bad_rows:
        return raw, 0
    bad = np.zeros(len(raw.arrays["rewards"]), bool)
    for rows in bad_rows:
        bad[rows] = True
    return without(raw, bad), int(bad.sum())
