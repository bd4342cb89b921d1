"""Cleaning up: what must stay stays."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rl_lightning.analysis import cleanup
from rl_lightning.runs.store.index import Index

OLD = "2020-01-01T00:00:00+00:00"
STAYS = {"run.json", "config.yaml", "metrics.csv", "eval.jsonl", "test.json", "mine.txt"}


@pytest.fixture
def fill(add):
    """A run with everything that a real one leaves, and old enough to go."""

    def make(name, value=1.0, when=OLD, **fields):
        folder = add(name, [value], **({"created": when, "updated": when} | fields))
        for path in ("checkpoints/last-000001/model.ckpt", "checkpoints/best.ckpt", "videos/a.mp4", "artifact/w",
                     "events.out.tfevents.1.x", "predictions.npz", "eval.jsonl", "test.json", "mine.txt"):  # fmt: skip
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text("x" * 100)
        moment = datetime.fromisoformat(when).timestamp()
        for path in folder.iterdir():
            os.utime(path, (moment, moment))
        return folder

    return make


def taken(logs, **kwargs):
    defaults = {"best": 0, "recent_days": None}
    return set(cleanup.plan(Index(logs), **(defaults | kwargs)).to_delete)


def test_configs_and_metrics_stay(logs, fill, rl):
    folder = fill("a")
    before = {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.is_file() and path.name != "run.json"
    }
    answer = rl("cleanup", "--keep-best", "0", "--yes")
    assert answer.code == 0 and "1 runs to clean" in answer.out
    assert {path.name for path in folder.iterdir()} == STAYS
    assert all((folder / name).read_bytes() == before[name] for name in STAYS - {"run.json"})
    record = json.loads((folder / "run.json").read_text())
    assert record["cleaned"] and record["updated"] == OLD and record["best"] == 1.0
    assert "0 runs to clean" in rl("cleanup", "--keep-best", "0", "--yes").out
    assert "no checkpoint is left" in rl("show", "a").out


def test_dry_run_and_no_answer_delete_nothing(logs, fill, rl, monkeypatch):
    folder = fill("a")
    assert "clean  a: artifact, checkpoints" in rl("cleanup", "--keep-best", "0", "--dry-run").out
    answer = rl("cleanup", "--keep-best", "0")
    assert answer.code == 2 and "--yes" in answer.err
    assert rl("cleanup").code == 2 and rl("cleanup", "a", "--keep-best", "1").code == 2
    assert rl("cleanup", "--keep-best", "-1").code == 2
    assert (folder / "checkpoints" / "best.ckpt").exists()


def test_the_best_of_each_task_stay(logs, fill):
    for name, value, env in (("a", 1, "X"), ("b", 3, "X"), ("c", 2, "X"), ("d", -50, "Y")):
        fill(name, value, env=env)
    assert taken(logs, best=1) == {"a", "c"}
    assert taken(logs, best=2) == {"a"}
    assert taken(logs, best=0) == {"a", "b", "c", "d"}


def test_the_best_by_another_metric(logs, fill):
    fill("a", 1.0)
    folder = fill("b", 2.0)
    (folder / "metrics.csv").write_text("env_step,eval/return,train/loss\n1,2,0.001\n")
    assert taken(logs, best=1, metric="train/loss") == {"a"}  # lower is better
    assert taken(logs, best=1, metric="nowhere/such") == {"a", "b"}


def test_recent_runs_stay(logs, fill):
    fill("old")
    fill("new", when=datetime.now(UTC).isoformat())
    assert taken(logs, recent_days=30) == {"old"}
    os.utime(logs / "old" / "metrics.csv")  # its record is old, but something has just written
    assert taken(logs, recent_days=30) == set()


def test_a_running_run_is_never_touched(logs, fill):
    here = {"host": os.uname().nodename, "status": "running"}
    fill("runs", **here, pid=os.getpid())
    fill("far", status="running", pid=1, host="elsewhere")
    fill("dead", **here, pid=2**22 + 1)
    fill("began", **here | {"status": "started"}, pid=os.getpid())
    fill("died", **here | {"status": "started"}, pid=2**22 + 1)
    fill("damaged")
    (logs / "damaged" / "run.json").write_text("{")
    assert taken(logs) == {"dead", "died"}


def test_a_run_started_after_the_plan_is_left_alone(logs, fill):
    folder = fill("a")
    index = Index(logs)
    decided = cleanup.plan(index, 0, None)
    record = json.loads((folder / "run.json").read_text())
    again = {"status": "running", "pid": os.getpid(), "host": os.uname().nodename}
    (folder / "run.json").write_text(json.dumps(record | again))
    assert cleanup.carry_out(decided, index) == ["a: has been started again"]
    assert (folder / "checkpoints" / "best.ckpt").exists()


@pytest.mark.parametrize("how", ["name", "path", "absolute", "shelf", "stage", "list", "command"])
def test_what_another_run_takes_stays(logs, fill, tmp_path, monkeypatch, how):
    source, other = fill("source"), fill("other")
    shelf = tmp_path / "checkpoints" / "source-123"
    shelf.parent.mkdir()
    shelf.symlink_to(source / "artifact")
    config = {
        "name": {"ckpt_path": "source"},
        "path": {"model": {"init_args": {"dynamics": "lightning_logs/source/artifact"}}},
        "absolute": {"model": {"init_args": {"dynamics": str(source / "artifact")}}},
        "shelf": {"model": {"init_args": {"dynamics": "checkpoints/source-123"}}},
        "stage": {"stages": [{"name": "s", "inputs": {"model.dynamics": str(source / "artifact")}}]},
        "list": {"model": {"init_args": {"policies": [str(source / "artifact"), "x"]}}},
        "command": {},
    }[how]
    fill("user", config=config, command=["rl", "fit", "--ckpt_path=source"] if how == "command" else [])
    monkeypatch.chdir(tmp_path if how == "shelf" else "/")  # paths were written where the run was started
    assert taken(logs) == {"other", "user"}
    assert cleanup.plan(Index(logs), 0, None).kept_because == {"source": "is taken by user"}
    assert other.exists()


def test_a_stage_that_takes_from_its_own_pipeline_protects_nothing(logs, fill):
    fill("pipe", kind="pipeline")
    fill("pipe/train", config={"ckpt_path": str(logs / "pipe" / "collect" / "artifact")})
    fill("pipe/collect", status="finished")
    plan = cleanup.plan(Index(logs), 0, None)
    assert set(plan.to_delete) == {"pipe"}
    assert {path.relative_to(logs).as_posix() for path in plan.to_delete["pipe"]} >= {
        "pipe/train/artifact",
        "pipe/artifact",
    }


def test_a_running_stage_keeps_its_pipeline(logs, fill):
    fill("pipe", kind="pipeline", status="interrupted")
    fill("pipe/train", status="running", pid=os.getpid(), host=os.uname().nodename)
    assert taken(logs) == set()


def test_links_are_not_followed(logs, fill, tmp_path):
    treasure = tmp_path / "treasure"
    treasure.mkdir()
    (treasure / "gold").write_text("x")
    folder = fill("a")
    (folder / "checkpoints" / "link").symlink_to(treasure)
    (folder / "wandb").symlink_to(treasure)
    (logs / "linked").symlink_to(tmp_path / "elsewhere")
    fill("../elsewhere")
    index = Index(logs)
    plan = cleanup.plan(index, 0, None)
    assert set(plan.to_delete) == {"a"} and plan.kept_because["linked"] == "is a link"
    assert cleanup.carry_out(plan, index) == []
    assert (treasure / "gold").exists() and (folder / "wandb").is_symlink()
    assert not (folder / "checkpoints").exists()
    assert (tmp_path / "elsewhere" / "checkpoints" / "best.ckpt").exists()


def test_links_on_the_shelf_go_with_their_artifact(logs, fill, tmp_path):
    folder = fill("a")
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    (shelf / "a-1").symlink_to(folder / "artifact")
    (shelf / "dead-already").symlink_to(tmp_path / "nowhere")
    index = Index(logs)
    cleanup.carry_out(cleanup.plan(index, 0, None), index, [shelf])
    assert [path.name for path in shelf.iterdir()] == ["dead-already"]


def test_the_size_is_that_of_what_goes(logs, fill):
    fill("a")
    assert cleanup.plan(Index(logs), 0, None).size == 600
    assert cleanup.size_of(Path("nowhere")) == 0


def test_one_lucky_evaluation_does_not_make_a_run_one_of_the_best(add, rl):
    for name, best, last10 in (("lucky", 500.0, 20.0), ("steady", 300.0, 290.0)):
        (add(name, [1], best=best, last10=last10) / "checkpoints").mkdir()
    text = rl("cleanup", "--keep-best", "1", "--dry-run").out
    assert "kept   steady: is one of the best" in text and "clean  lucky" in text
    assert "kept   lucky" in rl("cleanup", "--keep-best", "1", "--metric", "best", "--dry-run").out
