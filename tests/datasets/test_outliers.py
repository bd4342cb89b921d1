"""One number far from all others is named by row and column; rare events and wide columns are none."""

from __future__ import annotations

import numpy as np
import pytest
from data_files import make_rows, write

from rl_lightning.datasets import load_dataset
from rl_lightning.datasets.data_files import locate
from rl_lightning.datasets.formats.convert import convert
from rl_lightning.datasets.formats.raw import Raw
from rl_lightning.datasets.rows.checks import examine
from rl_lightning.datasets.rows.outliers import outliers
from rl_lightning.errors import DataError


def flipped(value: float, bit: int) -> float:
    raw = np.array([value], np.float32).view(np.uint32)
    return float((raw ^ np.uint32(1 << bit)).view(np.float32)[0])


def walks(rows: int = 2000) -> dict[str, np.ndarray]:
    arrays = make_rows([rows // 2, rows // 2], [True, False], obs_dim=4)
    arrays["observations"] = np.random.default_rng(0).normal(size=(rows, 4)).astype(np.float32)
    arrays["next_observations"] = np.roll(arrays["observations"], -1, 0)
    return arrays


@pytest.mark.parametrize("rows", [40, 2000, 50_000])
@pytest.mark.parametrize("value", [8e37, -3e38, flipped(0.7, 30), flipped(0.7, 28), 65536.0])
def test_a_flipped_bit_is_named(rows, value):
    arrays = walks(rows)
    arrays["observations"][17, 2] = value
    outlier = outliers(Raw("x", arrays)).get("observations")
    if abs(value) < 1:  # the exponent's other way: nothing that scaling would notice
        assert outlier is None
    else:
        assert outlier.rows.tolist() == [17] and outlier.column == 2 and abs(outlier.low) < 5 > outlier.high


def test_it_is_refused_and_can_be_left_out(tmp_path):
    arrays = walks()
    arrays["observations"][17, 2] = 8e37
    path = write(tmp_path / "a.hdf5", arrays)
    with pytest.raises(
        DataError, match=r"'observations' is 8e\+37 in row 17, column 2.*\n.*--drop_nonfinite"
    ):
        load_dataset(str(path))
    found = {line.topic: line for line in examine(locate(str(path)))}
    assert found["values"].bad and "row 17, column 2" in found["values"].text
    with pytest.raises(DataError, match="row 17, column 2"):
        convert(str(path), tmp_path / "b.hdf5")
    assert convert(str(path), tmp_path / "b.hdf5", leave_out_bad=True)[2] == 1
    data = load_dataset(str(tmp_path / "b.hdf5"))
    assert data.rows == 1999 and float(data.obs.abs().max()) < 10


def test_several_in_several_columns_beside_a_nan(tmp_path):
    arrays = walks()
    arrays["observations"][[3, 900], [0, 3]] = 8e37, -8e37
    arrays["next_observations"][5, 1] = 1e20
    arrays["observations"][0, 0] = np.nan
    found = outliers(Raw("x", arrays))
    assert found["observations"].rows.tolist() == [3, 900] and found["next_observations"].rows.tolist() == [5]


def test_rare_events_wide_columns_and_sparse_rewards_are_no_outliers():
    arrays = walks(20_000)
    rng = np.random.default_rng(1)
    arrays["observations"][:, 0] = 0
    arrays["observations"][7, 0] = 1  # a flag that is set once
    arrays["observations"][:, 1] = 1e9 + 1e6 * rng.normal(size=20_000)
    arrays["observations"][:, 2] = rng.standard_cauchy(20_000)
    arrays["observations"][:, 3] = np.exp(3 * rng.normal(size=20_000))
    arrays["rewards"][:] = 0
    arrays["rewards"][-1] = 10_000  # one goal
    assert not outliers(Raw("x", arrays))
