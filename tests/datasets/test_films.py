"""Folders of films with tables beside them, and a camera of LeRobot's."""

import csv

import numpy as np
import pytest

from rl_lightning.datasets import load_dataset
from rl_lightning.datasets.formats.pictures import picture_shape
from rl_lightning.datasets.layouts.films import films_of, frame_bytes, is_films
from rl_lightning.errors import DataError
from rl_lightning.rollout.video import write_video

LEVELS = (0, 60, 120, 180, 240)


def frames(steps, first=0):
    """Frames of one grey each, which a codec keeps."""
    return [np.full((16, 32, 3), LEVELS[(first + t) % 5], np.uint8) for t in range(steps)]


def films(folder, lengths=(4, 3), last=(1, 0), suffix=".csv"):
    """An episode of each length; a film shows as many frames, and so many more."""
    for number, (steps, more) in enumerate(zip(lengths, last, strict=True)):
        write_video(frames(steps + more, number), folder / f"episode-{number}.mp4", 10)
        columns = {
            "action": [t % 3 for t in range(steps)],
            "reward": [0.5 * t for t in range(steps)],
            "terminated": [int(t == steps - 1 and number == 0) for t in range(steps)],
        }
        if suffix == ".csv":
            with (folder / f"episode-{number}.csv").open("w", newline="") as file:
                csv.writer(file).writerows([columns, *zip(*columns.values(), strict=True)])
        else:
            pytest.importorskip("pyarrow")
            from pyarrow import parquet, table

            parquet.write_table(table(columns), folder / f"episode-{number}.parquet")
    return folder


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_film_and_a_table_for_each_episode(tmp_path, suffix):
    rows = load_dataset(str(films(tmp_path, (4, 3), (1, 1), suffix)))
    assert picture_shape(rows.about) == (3, 16, 32) and rows.obs.dtype.itemsize == 1
    assert (
        rows.lengths().tolist() == [4, 3] and rows.terminated.tolist() == [False] * 3 + [True] + [False] * 3
    )
    assert rows.action.tolist() == [0, 1, 2, 0, 0, 1, 2] and rows.reward[:4].tolist() == [0.0, 0.5, 1.0, 1.5]
    grey = rows.obs.float().mean(1) / 60
    assert np.allclose(grey, [0, 1, 2, 3, 1, 2, 3], atol=0.1)
    assert np.allclose(rows.next_obs.float().mean(1) / 60, [1, 2, 3, 4, 2, 3, 4], atol=0.1)
    assert rows.about["read/layout"] == "a folder of 2 films"


def test_without_a_last_frame_the_last_step_is_left_out(tmp_path):
    rows = load_dataset(str(films(tmp_path, (3, 3), (0, 0))))
    assert rows.lengths().tolist() == [3, 2] and rows.next_known.tolist() == [True, True, False, True, True]


def test_what_does_not_fit_is_named(tmp_path):
    assert not is_films(tmp_path)
    films(tmp_path, (4, 3), (2, 1))
    assert len(films_of(tmp_path)) == 2 and frame_bytes(films_of(tmp_path)[0]) == 16 * 32 * 3
    with pytest.raises(DataError, match=r"episode-0.mp4: has 6 frames, and .*episode-0.csv 4 rows"):
        load_dataset(str(tmp_path))
    (tmp_path / "episode-0.csv").unlink()
    with pytest.raises(DataError, match=r"episode-0.mp4: no episode-0.csv or .parquet beside it"):
        load_dataset(str(tmp_path))
    (tmp_path / "episode-0.mp4").write_bytes(b"no film")
    (tmp_path / "episode-0.csv").write_text("action\n1\n")
    with pytest.raises(DataError, match=r"episode-0.mp4: not a film that can be read"):
        load_dataset(str(tmp_path))
