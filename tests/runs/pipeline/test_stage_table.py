"""A pipeline ends with a table of its stages; they are compared, reported and exported by name."""

import csv
import json
from pathlib import Path

import pytest
from resume.support import Rl
from runs.pipeline.support import REPLAY, TRAIN, pipeline

from rl_lightning.analysis.report.stage_table import stage_table, stages_over_seeds
from rl_lightning.runs.store.run_folder import Run
from rl_lightning.runs.store.select_runs import select_runs

CLOSED = {"shared": {"run.final_episodes": 3}}


@pytest.fixture
def seeds(logs: Path, tmp_path: Path, rl: Rl) -> list[Run]:
    """A pipeline with two seeds, as `--seeds 0,1` makes it."""
    path = pipeline(tmp_path, TRAIN, REPLAY, **CLOSED)
    for seed in ("0", "1"):
        done = rl("fit", "--config", path, "--name", f"g-s{seed}", "--group", "g", "--seed", seed)
        assert done.code == 0, done.err
        last = done.out.splitlines()
        assert last[-4].split() == ["stage", "algorithm", "score", "of", "time"]
        assert (
            last[-3].startswith("train   PPO")
            and "3 episodes" in last[-3]
            and last[-2].startswith("replay  SAC")
        )
        assert last[-1].startswith("in all 0:0")
    return [Run(logs / f"g-s{seed}") for seed in (0, 1)]


def test_a_table_at_the_end_and_one_row_per_policy(seeds: list[Run], logs: Path, rl: Rl) -> None:
    final = Run(seeds[0].folder / "train").read()["final"]
    assert final["episodes"] == 3 and final["checkpoint"] == "best"
    with (logs / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["run"], row["seed"], row["episodes"]) for row in rows] == [
        (f"g-s{seed}/{stage}", str(seed), "3") for seed in (0, 1) for stage in ("train", "replay")
    ]
    assert float(rows[0]["return"]) == final["mean"] and float(rows[0]["std"]) == final["std"]
    table = stages_over_seeds("g", seeds)
    assert table.columns == ["stage", "s0", "s1", "mean", "std"]
    (train, *numbers) = table.rows[0]
    scores = [Run(run.folder / "train").read()["final"]["mean"] for run in seeds]
    assert train == "train" and float(numbers[2]) == pytest.approx(sum(scores) / 2, abs=0.06)
    assert json.loads((seeds[0].folder / "train" / "test.json").read_text())["mean"] == final["mean"]


def test_stages_are_named_compared_and_reported(seeds: list[Run], tmp_path: Path, rl: Rl) -> None:
    assert list(select_runs(["g"], metrics=["reward"])) == ["g/train", "g/replay"]
    assert [run.folder.parent.name for run in select_runs(["g/train"])["g/train"]] == ["g-s0", "g-s1"]
    assert list(select_runs(["g-s0", "g-s1"], metrics=["reward"])) == ["g-s0", "g-s1"]
    compared = rl("compare", "g/train", "g/replay")
    assert compared.code == 0 and "g/train" in compared.out and "better than g/train" in compared.out
    assert rl("export", "g-s0", "--format", "csv").out.count("g-s0/") == 2
    assert rl("report", "g-s0", "--output", str(tmp_path / "r.html")).code == 0
    page = (tmp_path / "r.html").read_text()
    assert "3 episodes" in page and ">g-s0/train<" in page


@pytest.mark.parametrize(("count", "what"), [(2, "mean of 2 evaluations"), (10, "last-10 mean")])
def test_a_mean_of_fewer_than_ten_says_so(tmp_path: Path, count: int, what: str) -> None:
    (tmp_path / "pipeline.json").write_text(json.dumps({"jobs": {"train": {"status": "done"}}}))
    (tmp_path / "train").mkdir()
    Run(tmp_path / "train").update(last10=3.0, last10_of=count, best=4.0)
    assert stage_table(Run(tmp_path)).rows[0][2:4] == ["3.00", what]


def test_cycles_are_one_line(tmp_path: Path) -> None:
    jobs = {key: {"status": "done", "seconds": 30.0} for key in ("explore", "policy-1", "policy-2")}
    (tmp_path / "pipeline.json").write_text(json.dumps({"jobs": jobs}))
    rows = stage_table(Run(tmp_path)).rows
    assert [(row[0], row[-1]) for row in rows] == [("explore", "0:30"), ("policy (2 cycles)", "1:00")]
