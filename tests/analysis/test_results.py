"""results.csv: one header, whole rows, whoever writes and whatever is in them."""

import csv
import multiprocessing
from pathlib import Path

import pytest

from rl_lightning.errors import DataError
from rl_lightning.runs.agents.results_csv import HEADER, append_result

ROW = {"task": "hopper-medium", "algorithm": "BC", "seed": 0, "return": 1234.5678901234567, "episodes": 10}


def read_results(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_new_file_gets_its_header_and_an_old_one_only_rows(tmp_path):
    path = tmp_path / "below" / "results.csv"
    for seed in range(3):
        append_result(path, {**ROW, "seed": seed})
    with path.open(newline="") as file:
        lines = list(csv.reader(file))
    assert lines[0] == list(HEADER) and len(lines) == 4
    rows = read_results(path)
    assert [row["seed"] for row in rows] == ["0", "1", "2"]
    assert float(rows[0]["return"]) == ROW["return"], "no digit is lost"
    assert rows[0]["density"] == "", "what a row lacks stays empty"


@pytest.mark.parametrize("text", ["a, b", 'say "so"', "Schöne Läufe 走", "two\nlines", "", " space ", "=1+1"])
def test_any_text_comes_back_as_it_was(text, tmp_path):
    path = tmp_path / "results.csv"
    append_result(path, {**ROW, "run": text, "task": text})
    append_result(path, ROW)
    rows = read_results(path)
    assert [rows[0]["run"], rows[0]["task"]] == [text, text] and rows[1]["task"] == ROW["task"]


def test_a_line_that_was_cut_off_does_not_spoil_the_next(tmp_path):
    path = tmp_path / "results.csv"
    append_result(path, ROW)
    with path.open("a") as file:
        file.write("hopper-medium,SA")
    append_result(path, {**ROW, "seed": 7})
    assert [row["seed"] for row in read_results(path)] == ["0", None, "7"]


def test_foreign_columns_and_foreign_files_are_refused(tmp_path):
    path = tmp_path / "results.csv"
    with pytest.raises(DataError, match="'score'"):
        append_result(path, {**ROW, "score": 1})
    assert not path.exists()
    path.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="columns"):
        append_result(path, ROW)
    assert path.read_text() == "a,b\n1,2\n"


def test_a_file_from_before_changes_were_noted_is_read_and_goes_on(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text(",".join(HEADER[:-4]) + "\n")
    append_result(path, {**ROW, "checkpoint": "best.ckpt", "changed": "model.scale: 1 -> 4"})
    with path.open(newline="") as file:
        header, row = csv.reader(file)
    assert header == list(HEADER[:-4]) and len(row) == len(header), "no row is wider than its file"
    assert read_results(path)[0]["checkpoint"] == "best.ckpt"


def _write(path, seed):
    for number in range(20):
        append_result(path, {**ROW, "seed": seed, "run": f"{number}" * 200})


def test_processes_that_append_at_once_lose_nothing(tmp_path):
    path = tmp_path / "results.csv"
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_write, args=(path, seed)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    rows = read_results(path)
    assert len(rows) == 80 and path.read_text().count("task,algorithm") == 1
    for seed in range(4):
        own = [row["run"] for row in rows if row["seed"] == str(seed)]
        assert own == [f"{number}" * 200 for number in range(20)], "whole and in order"
