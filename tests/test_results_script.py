"""What scripts/results.py keeps of a finished run."""

import importlib.util
import json
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "results.py"
spec = importlib.util.spec_from_file_location("results_script", SCRIPT)
results = importlib.util.module_from_spec(spec)
spec.loader.exec_module(results)


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "sac-hopper"
    folder.mkdir()
    record = {
        "algorithm": "SAC", "env": "Hopper-v5", "seed": 3, "status": "finished", "threads": 1, "python": "3.11.7",
        "command": ["rl", "fit", "--config", "sac/hopper", "--run.tags", "[a, b]"], "config_hash": "abc",
        "versions": {"torch": "2.13.0"}, "git": {"commit": "f00"}, "updated": "2026-01-02T03:04:05", "last10": 21.0,
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(record))
    rows = [
        {"env_step": step, "update": step // 2, "return": value, "length": 5, "seed": 0}
        for step, values in ((200, (30.0, 50.0)), (100, (1.0, 3.0)))
        for value in values
    ]
    (folder / "eval.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


def test_every_evaluation_and_what_made_it_are_kept(run, tmp_path):
    told = {
        "mean": 41.5,
        "std": 2.0,
        "min": 38.0,
        "max": 44.0,
        "episodes": [{}] * 20,
        "checkpoint": "x · best.ckpt · SAC",
    }
    (run / "test.json").write_text(json.dumps(told))
    path = results.add(str(run), tmp_path / "kept")
    about, rows = results.read(path)
    assert about["command"] == "rl fit --config sac/hopper --run.tags '[a, b]'" and about["seed"] == "3"
    assert about["test"] == "20 episodes of best.ckpt on fresh seeds" and about["date"] == "2026-01-02"
    assert [(row["env_step"], row["return_mean"], row["return_std"]) for row in rows] == [
        (100, 2, 1),
        (200, 40, 10),
    ]
    line = results.table(tmp_path / "kept").splitlines()[-1]
    assert line.startswith("| sac-hopper | 200 | 40.0 | 21.0 | 41.5 ± 2.0 |")


def test_a_run_that_goes_on_is_no_result(run, tmp_path):
    record = json.loads((run / "run.json").read_text()) | {"status": "interrupted", "env_step": 150}
    (run / "run.json").write_text(json.dumps(record))
    with pytest.raises(SystemExit, match="interrupted"):
        results.add(str(run), tmp_path / "kept")
    about, _ = results.read(results.add(str(run), tmp_path / "kept", stopped=True))
    assert about["stopped"] == "at 150 env steps, before its budget"
    (run / "run.json").write_text(json.dumps(record | {"status": "running"}))
    with pytest.raises(SystemExit, match="running"):
        results.add(str(run), tmp_path / "kept", stopped=True)
