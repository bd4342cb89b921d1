"""A fit that names local data which can be recorded here records them first, and says so."""

from __future__ import annotations

import time
from typing import Any

from rl_lightning.errors import DataError


def record_missing_data(config: Any) -> None:
    """Records the config's data set if it is a local one with a known recipe and is not there yet."""
    name = getattr(getattr(config.data, "init_args", None), "dataset", None)
    if not isinstance(name, str) or not name.startswith("local/"):
        return
    from rl_lightning import distributed
    from rl_lightning.datasets.data_files import locate
    from rl_lightning.datasets.local_recipes import parse_recipe

    path = locate(name, missing_ok=True).path
    if path.is_file():
        return
    path = path.with_suffix(".hdf5")
    try:
        parse_recipe(name)
    except DataError:
        return  # only its user knows how it is made; reading it will say that it is missing
    if not distributed.is_rank_zero():
        while not path.exists():  # the first rank is recording
            time.sleep(1.0)
        return
    from rl_lightning.runs.recording.record_dataset import DatasetRequest, described, record_dataset

    print(f"{name} is not here yet; recording it: rl data make {name}", flush=True)
    print(described(name, *record_dataset(DatasetRequest(name))), flush=True)
