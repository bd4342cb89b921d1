"""The index: always what the folders say, whatever happens to its file."""

from __future__ import annotations

import json
import multiprocessing
import os
import sqlite3
import time

import pytest

from rl_lightning.runs.store.index import FILE, Index
from rl_lightning.runs.store.run_filters import keep, order, parse_condition


def names(root, **kwargs):
    with Index(root, **kwargs) as index:
        return [run.name for run in index.runs()]


def test_deleting_the_index_loses_nothing(logs, add):
    for i in range(3):
        add(f"r{i}", [i])
    before = names(logs)
    assert (logs / FILE).is_file() and before == ["r0", "r1", "r2"]
    (logs / FILE).unlink()
    assert names(logs) == before


def test_a_changed_run_is_read_again_and_a_deleted_one_is_gone(logs, add):
    folder = add("a", [1])
    add("b", [2])
    assert names(logs) == ["a", "b"]
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(record | {"status": "failed"}))
    with Index(logs) as index:
        assert {run.name: run.status for run in index.runs()} == {"a": "failed", "b": "finished"}
    for path in (logs / "b").iterdir():
        path.unlink()
    (logs / "b").rmdir()
    assert names(logs) == ["a"] == names(logs)
    with sqlite3.connect(logs / FILE) as connection:
        assert connection.execute("SELECT count(*) FROM record").fetchone() == (1,)


def test_unchanged_files_are_not_read_again(logs, add, monkeypatch):
    add("a", [1, 2, 3])
    with Index(logs) as index:
        run = index.runs()[0]
        assert run.config["model.lr"] == 1e-3 and run.metrics["eval/return"] == 3.0
    for name in ("_read_record", "read_settings", "newest"):
        monkeypatch.setattr(f"rl_lightning.runs.store.index.{name}", lambda path: pytest.fail(f"read {path}"))
    run = Index(logs).runs()[0]
    assert run.config["model.lr"] == 1e-3 and run.metrics["eval/return"] == 3.0


@pytest.mark.parametrize("damage", [b"", b"not a database at all, but long enough to be taken for one" * 20])
def test_a_damaged_index_is_made_anew(logs, add, damage):
    add("a", [1])
    (logs / FILE).write_bytes(damage)
    assert names(logs) == ["a"] == names(logs)


def test_an_index_of_another_version_is_made_anew(logs, add):
    add("a", [1])
    names(logs)
    with sqlite3.connect(logs / FILE) as connection:
        connection.execute("PRAGMA user_version = 99")
    assert names(logs) == ["a"]


def test_where_it_cannot_be_written_the_folders_answer(logs, add):
    add("a", [1])
    (logs / FILE).mkdir()
    assert names(logs) == ["a"]


def _hammer(root, number):
    for i in range(15):
        folder = root / f"p{number}-{i}"
        folder.mkdir()
        (folder / "run.json").write_text(json.dumps({"status": "finished", "created": str(i)}))
        with Index(root) as index:
            assert folder.name in {run.name for run in index.runs()}


def test_processes_write_at_once(logs):
    logs.mkdir()
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_hammer, args=(logs, n)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert len(names(logs)) == 60 == len(names(logs))


def test_damaged_and_hostile_folders(logs, add):
    (logs / "half").mkdir(parents=True)
    (logs / "half" / "run.json").write_text('{"status": "fin')
    (logs / "list").mkdir()
    (logs / "list" / "run.json").write_text("[1]")
    (logs / "no-run").mkdir()
    (logs / "file").write_text("")
    os.mkdir(os.fsencode(logs) + b"/\xff\xfe")
    (logs / os.fsdecode(b"\xff\xfe") / "run.json").write_text('{"best": NaN}')
    add("<b>ü,\n'", [1])
    found = {run.name: run.status for run in Index(logs).runs()}
    assert found["half"] == found["list"] == "damaged" and len(found) == 4
    assert names(logs) == names(logs)


def test_stages_of_a_pipeline(logs, add):
    add("pipe", kind="pipeline", status="running", pid=os.getpid(), host=os.uname().nodename)
    add("pipe/train", [1, 2])
    add("other/not-a-stage")
    assert names(logs) == ["pipe", "pipe/train"]


def test_a_dead_process_is_stopped_and_a_far_one_still_runs(logs, add):
    here = os.uname().nodename
    add("dead", status="running", pid=2**22 + 1, host=here)
    add("mine", status="running", pid=os.getpid(), host=here)
    add("far", status="running", pid=1, host="elsewhere")
    found = {run.name: run.status for run in Index(logs).runs()}
    assert found == {"dead": "stopped", "mine": "running", "far": "running"}


@pytest.fixture
def many(logs, add):
    ppo = {"model": {"class_path": "x.PPO", "init_args": {"lr": 3e-4, "network": {"class_path": "a.MLP",
        "init_args": {"hidden_dims": [64, 64]}}}}}  # fmt: skip
    add("a", [1, 500, 450], config=ppo, seed=1, tags=["x", "paper"])
    add("b", [1, 300], config={**ppo, "seed_everything": 5}, seed=2, env="Hopper-v5")
    add("c", [], algorithm="SAC", status="failed")
    add("d", [float("nan")], best=float("nan"), algorithm="SAC")
    return Index(logs).runs()


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["algorithm=ppo"], "ab"),
        (["algorithm!=PPO"], "cd"),
        (["model.lr=3e-4"], "ab"),
        (["model.lr = 0.0003"], "ab"),
        (["model.init_args.lr<1e-3"], "ab"),
        (["model=PPO"], "abcd"),  # c and d are PPO by their config
        (["model.network=MLP"], "ab"),
        (["model.network.hidden_dims=[64,64]"], "ab"),
        (["model.network.hidden_dims=64"], "ab"),
        (["eval/return>400"], "a"),
        (["reward>=300", "env=Hopper-v5"], "b"),
        (["train/loss<0.4"], "a"),
        (["loss>=0.5"], "bd"),
        (["tags=paper"], "a"),
        (["name~A"], "a"),
        (["created>2025-12-31"], "abcd"),
        (["status=finished", "seed=2"], "b"),
        (["best=none"], "c"),
        (["seed_everything=5"], "b"),
    ],
)
def test_filters(many, texts, expected):
    found = keep(many, [parse_condition(text) for text in texts])
    assert "".join(run.name for run in found) == expected


def test_unknown_keys_and_forms_are_refused(many):
    from rl_lightning.errors import ConfigError

    for text, hint in (
        ("algoritm=PPO", "algorithm"),
        ("model.lrr=1", "model.lr"),
        ("eval/retrun>1", "eval/return"),
    ):
        with pytest.raises(ConfigError, match=f"did you mean '{hint}'"):
            keep(many, [parse_condition(text)])
    with pytest.raises(ConfigError, match="KEY=VALUE"):
        parse_condition("nonsense")
    with pytest.raises(ConfigError, match="--sort"):
        order(many, "nowhere")


def test_order_puts_what_is_unknown_last_either_way(many):
    assert "".join(run.name for run in order(many, "best")) == "abcd"
    assert "".join(run.name for run in order(many, "best", reverse=True)) == "bacd"
    assert "".join(run.name for run in order(many, "name", reverse=True)) == "dcba"
    assert [run.name for run in order(many, "train/loss")][:2] == ["a", "b"]  # a loss: lowest first


def test_a_run_that_writes_is_seen_at_once(logs, add):
    folder = add("a", [1, 2], status="running", pid=os.getpid(), host=os.uname().nodename)
    assert names(logs) == ["a"]
    with open(folder / "metrics.csv", "a") as file:
        file.write("3000,3,7.5,0.1,500\n")
    os.utime(folder / "metrics.csv", (time.time() + 5, time.time() + 5))
    assert Index(logs).runs()[0].metrics["eval/return"] == 7.5
