"""Data sets handed over in Python: arrays under D4RL's names, our own Dataset, or Minari's."""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from rl_lightning.datasets.data_files import locate
from rl_lightning.datasets.dataset import Dataset
from rl_lightning.datasets.formats.minari_reader import arrays_of, described_by, rescale
from rl_lightning.datasets.formats.raw import Raw, candidates, check_arrays, check_keys, said_of, the_one
from rl_lightning.datasets.formats.run_replay import PREFIX as REPLAY_PREFIX
from rl_lightning.datasets.load import checked_rows, load_dataset, peekable, read_header
from rl_lightning.datasets.references import d4rl_options, local_reference
from rl_lightning.errors import ConfigError, DataError
from rl_lightning.types import EnvSpec

if TYPE_CHECKING:
    from minari import MinariDataset

    DatasetLike: TypeAlias = "Mapping[str, Any] | str | Dataset | MinariDataset"
else:
    DatasetLike = dict[str, float] | str  # what a config can say

IN_MEMORY = "arrays in memory"


class OfflineSource(NamedTuple):
    """What a data module is given to learn from, before its rows are needed."""

    name: str  # for messages
    spec: EnvSpec
    about: dict[str, Any]
    options: dict[str, Any]  # of the env that the data set names
    dataset: Dataset | None  # None: a file, read when its shapes are found to fit


def look_at(dataset: DatasetLike) -> OfflineSource:
    """Shapes and metadata of a data set by name, or of one in memory, which is checked as a file would be."""
    if isinstance(dataset, str):
        if not peekable(dataset):  # looking at it is reading it
            rows = load_dataset(dataset)
            return OfflineSource(dataset, rows.spec, rows.about, {}, rows)
        spec, about = read_header(dataset)
        options = d4rl_options(dataset) if locate(dataset).kind == "d4rl" else {}
        return OfflineSource(dataset, spec, about, options, None)
    if is_several(dataset):
        raise ConfigError(
            f"data.dataset names {len(dataset)} data sets with weights, which SequenceData draws windows of; "
            "here it is one"
        )
    rows = as_dataset(dataset)
    return OfflineSource(rows.name, rows.spec, rows.about, {}, rows)


class WeightedSource(NamedTuple):
    """One of several data sets."""

    source: OfflineSource
    weight: float  # of what is drawn this over the sum of all


def look_at_all(dataset: DatasetLike | None, replay_from: str | Path | None = None) -> list[WeightedSource]:
    """All that a data module is given to learn from: one data set, several with their weights, or a run's replay."""
    if dataset is not None and replay_from is not None:
        raise ConfigError(
            "data.dataset and data.replay_from are both given; of several data sets say how much of each: "
            f"--data.dataset '{{NAME: 1, {REPLAY_PREFIX}RUN: 1}}'"
        )
    if replay_from is not None:
        return [WeightedSource(look_at(f"{REPLAY_PREFIX}{replay_from}"), 1.0)]
    if dataset is None:
        return []
    if not is_several(dataset):
        return [WeightedSource(look_at(dataset), 1.0)]
    assert isinstance(dataset, Mapping)
    wrong = [name for name, weight in dataset.items() if not (0.0 < float(weight) < math.inf)]
    if wrong:
        raise ConfigError(
            f"data.dataset gives {wrong[0]} the weight {dataset[wrong[0]]}; it must be positive"
        )
    return [WeightedSource(look_at(str(name)), float(weight)) for name, weight in dataset.items()]


def is_several(dataset: Any) -> bool:
    """Whether names of data sets are given, each with its weight, and not arrays."""
    return (
        isinstance(dataset, Mapping)
        and bool(dataset)
        and all(isinstance(value, int | float) and not isinstance(value, bool) for value in dataset.values())
    )


def as_dataset(dataset: Any) -> Dataset:
    """Rows in memory as a Dataset; raises in a line on what cannot be rows of experience."""
    if isinstance(dataset, Dataset):
        return dataset
    minari = sys.modules.get("minari")  # an object of Minari's is there only if Minari is
    try:
        if isinstance(dataset, Mapping):
            return from_arrays(dataset)
        if minari is not None and isinstance(dataset, minari.MinariDataset):
            return from_minari(dataset)
    except DataError as error:  # the lines after the first are about files
        raise DataError(str(error).splitlines()[0]) from None
    raise DataError(
        f"dataset is a {type(dataset).__name__}; it is a name, a path, a dict of arrays (observations, actions, "
        "rewards, terminals), a Dataset or a minari.MinariDataset"
    )


def from_arrays(arrays: Mapping[str, Any]) -> Dataset:
    """Arrays by D4RL's names, or by the other names that files have for them; each has one row per step."""
    check_keys(IN_MEMORY, dict(arrays))
    names = candidates(arrays)
    known = {
        name: np.asarray(the_one(IN_MEMORY, name, keys, arrays.__getitem__)) for name, keys in names.items()
    }
    return _settled(Raw(IN_MEMORY, known, {}, said_of(names)))


def from_minari(dataset: MinariDataset) -> Dataset:
    """The episodes of a Minari data set, those alone that it was filtered to."""
    name = f"minari/{dataset.id}"
    parts = ("observations", "actions", "rewards", "terminations", "truncations")
    episodes = ({part: getattr(episode, part) for part in parts} for episode in dataset.iterate_episodes())
    arrays = arrays_of(episodes, name)
    arrays["actions"], bounds = rescale(arrays["actions"], dataset.action_space, name)
    spec = dataset.env_spec
    env = {} if spec is None else {"id": spec.id, "max_episode_steps": spec.max_episode_steps}
    return _settled(Raw(name, arrays, {}, described_by(dataset.storage.metadata, env) | bounds))


def timeouts_of(raw: Raw) -> np.ndarray:
    """Where episodes were cut: as given, else where the next observation is not that of the next row."""
    terminals, obs = raw.arrays["terminals"], raw.arrays["observations"]
    if "timeouts" in raw.arrays:
        return raw.arrays["timeouts"]
    cut = np.zeros_like(terminals)
    following = raw.arrays.get("next_observations")
    if following is not None:
        cut[:-1] = (following[:-1] != obs[1:]).any(1) & ~terminals[:-1]
    elif not terminals[-1]:
        raise DataError(
            f"{raw.where}: neither 'timeouts' nor 'next_observations', and the last row is not a terminal: nobody "
            "knows where episodes were cut"
        )
    return cut


def _settled(raw: Raw) -> Dataset:
    raw = check_arrays(raw)
    raw = raw._replace(arrays=raw.arrays | {"timeouts": timeouts_of(raw)})
    digest = hashlib.sha256()
    for name, array in sorted(raw.arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return checked_rows(raw, raw.where, False, local_reference(raw.metadata), digest.hexdigest)[1]
