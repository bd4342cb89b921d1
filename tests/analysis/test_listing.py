"""`rl list` of groups, pipelines and running runs; names that try to write on the terminal."""

from __future__ import annotations

import json
import os


def test_groups(add, rl):
    for seed, value in enumerate([1, 2, 6]):
        add(f"g-s{seed}", [value], group="g", seed=seed, status="finished" if seed else "failed")
    add("alone", [9])
    rows = json.loads(rl("list", "groups", "--format", "json").out)
    assert [(row["group"], row["runs"], row["finished"], row["best"]) for row in rows] == [("g", 3, 2, 3.0)]
    assert "g-s2" in rl("show", "g").out
    assert len(json.loads(rl("show", "g", "--format", "json").out)) == 3


def test_pipelines_with_their_stages(add, rl):
    add("pipe", kind="pipeline", algorithm="")
    add("pipe/collect", [1])
    add("pipe/train", [2], algorithm="SAC", status="failed")
    add("plain", [3])
    rows = json.loads(rl("list", "pipelines", "--format", "json").out)
    assert [(row["name"], row["status"]) for row in rows] == [
        ("pipe", "finished"), ("pipe/collect", "finished"), ("pipe/train", "failed"),
    ]  # fmt: skip
    listed = json.loads(rl("list", "--format", "json").out)
    assert [row["name"] for row in listed] == ["pipe", "plain"]
    add("late", kind="pipeline", algorithm="", created="2027-01-01")
    add("late/a", [1], created="2027-01-03", last10_of=3)
    add("late/z", [1], created="2027-01-02")
    lines = rl("list", "pipelines").out.splitlines()
    assert [line.split()[0] for line in lines[1:5]] == ["late", "late/z", "late/a", "pipe"], "newest first"
    assert "1.00*" in lines[3] and lines[-1] == "* of fewer than 10 evaluations"
    text = rl("show", "pipe").out
    assert "pipe/train" in text and "stages" in text
    assert rl("show", "pipe/train").code == 0


def test_a_running_run_tells_how_far_it_is(add, rl):
    """Its record says 0; its metrics say 3000 of 4000 steps."""
    add("r", [1, 2, 3], status="running", pid=os.getpid(), host=os.uname().nodename, env_step=0)
    row = json.loads(rl("list", "--filter", "status=running", "--format", "json").out)[0]
    assert row["env_step"] == 3000 and row["progress"] == 0.75
    assert "running 75%" in rl("list").out
    assert "running 75%" in rl("show", "r").out and "rl watch r" in rl("show", "r").out


def test_names_cannot_move_the_cursor(add, rl):
    add("a\x1b[2Jb\n\r\u202ec", [1])
    name = "a\x1b[2Jb\n\r\u202ec"
    by_format = [["list", "--format", form] for form in ("csv", "json")]
    by_format += [["export", name, "--format", form] for form in ("csv", "json", "markdown", "latex")]
    for words in (["list"], ["compare", name], ["show", name], *by_format):
        out = rl(*words).out
        assert out and not {"\x1b", "\r", "\u202e"} & set(out), words
    assert len(rl("list").out.splitlines()) == 2


def test_numbers_that_are_none_are_null(add, rl):
    add("n", [1], best=float("nan"), last10=float("inf"))
    row = json.loads(rl("list", "--format", "json").out, parse_constant=lambda text: 1 / 0)[0]
    assert row["best"] is None and row["last10"] is None


def test_a_pipeline_is_listed_with_what_its_last_stage_reached(add, rl, logs):
    add("p", kind="pipeline", algorithm="", env=None, env_step=0, update=0)
    add("p/model", [-0.5], algorithm="Dynamics", created="2026-01-02", env_step=0, update=40)
    about = {"name": "local/x-v1", "sha256": "0", "rows": 9}
    add("p/policy", [3.0, 7.0], algorithm="SAC", env="Hopper-v5", created="2026-01-03", data=about)
    line = rl("list").out.splitlines()[1]
    assert line.split() == ["p", "pipeline", "Hopper-v5", "local/x-v1", "0", "finished", "2000", "7", "5"]
    assert "p " in rl("list", "--filter", "env=Hopper-v5", "--sort", "best").out
    assert [row["best"] for row in json.loads(rl("list", "--format", "json").out)] == [7.0]
    stages = rl("list", "pipelines").out
    assert stages.count("local/x-v1") == 2 and "p/model" in stages


def test_a_pipeline_on_its_way_does_not_show_a_models_score(add, rl):
    config = {
        "stages": [{"name": "world", "config": {}}, {"name": "policy", "config": {"model": "PPO"}}],
        "cycles": 2,
    }
    add("c", kind="pipeline", algorithm="", env=None, config=config, status="finished")
    add("c/world-1", [-0.1], created="2026-01-02")
    assert rl("list", "--columns", "name,algorithm,env,best").out.split()[4:] == [
        "c",
        "pipeline",
        "CartPole-v1",
        "-",
    ]
    add("c/policy-1", [4.0], created="2026-01-03")
    add("c/world-2", [-0.2], created="2026-01-04")
    assert [row["best"] for row in json.loads(rl("list", "--format", "json").out)] == [4.0]


def test_runs_without_an_env_show_their_updates(add, rl):
    add("bc", [1.0], env_step=0, update=40)
    assert rl("list").out.splitlines()[0].split() == [
        "name", "algorithm", "env", "seed", "status", "env_step", "update", "best", "last10",
    ]  # fmt: skip


def test_a_run_that_died_before_its_first_block_is_stopped(add, rl):
    add("d", status="started", pid=2**22 + 1, host=os.uname().nodename)
    assert json.loads(rl("list", "--format", "json").out)[0]["status"] == "stopped"
    assert "rl fit --config" in rl("show", "d").out


def test_the_newest_run_comes_first(add, rl):
    for name, day in (("b", 2), ("c", 3), ("a", 1)):
        add(name, [1.0], created=f"2026-01-0{day}")
    assert [line.split()[0] for line in rl("list").out.splitlines()[1:]] == ["c", "b", "a"]
    assert [line.split()[0] for line in rl("list", "--reverse").out.splitlines()[1:]] == ["a", "b", "c"]


def test_a_mean_of_fewer_than_ten_is_marked(add, rl):
    add("few", [0.25], last10_of=1, last10=0.25, best=-0.0)
    lines = rl("list").out.splitlines()
    assert "0.250*" in lines[1] and "-0.0" not in lines[1] and "fewer than 10" in lines[2]
    assert json.loads(rl("list", "--format", "json").out)[0]["last10"] == 0.25
    add("many", [0.25], last10_of=10, last10=0.5)
    assert rl("list", "--filter", "name=many").out.count("*") == 0
    add("p", kind="pipeline", algorithm="")
    add("p/policy", [0.25], last10_of=2, last10=0.25)
    assert "0.250*" in rl("list", "--filter", "name=p").out, "of its last stage"
