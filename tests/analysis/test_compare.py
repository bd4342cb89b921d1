"""Comparisons: numbers by hand, groups, aliases, hostile files; tables in every format."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import shutil
import string
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl_lightning.analysis.compare import COLUMNS, compare
from rl_lightning.analysis.export import tables
from rl_lightning.analysis.plot import read_curve
from rl_lightning.analysis.stats_table import Table, aligned, from_dicts
from rl_lightning.errors import ConfigError, DataError
from rl_lightning.io.text import printable
from rl_lightning.runs.store import metrics_file
from rl_lightning.runs.store.run_folder import Run
from rl_lightning.runs.store.select_runs import select_runs


@pytest.fixture
def groups(add):
    """Two groups of three seeds with known scores, and a single run."""
    for seed, (a, b) in enumerate([(1, 2), (3, 4), (5, 6)]):
        add(f"a-s{seed}", [0, a, a], group="a", seed=seed)
        add(f"b-s{seed}", [0, b, b], group="b", seed=seed, config={"model": {"init_args": {"lr": 0.5}}})
    add("one", [1, 2, 3, 4])


def test_numbers_by_hand(groups):
    result = compare(select_runs(["a", "b"]), ["eval/return"], threshold=2.0, optimal=5.0)
    a, b = result.rows
    assert (a["name"], a["runs"], a["task"]) == ("a", 3, "CartPole-v1")
    # last-10 of a seed with values 0, v, v is 2v/3: 2/3, 2, 10/3
    assert a["last10"] == a["iqm"] == a["median"] == pytest.approx(2.0)
    assert a["best"] == pytest.approx(3.0) and b["best"] == pytest.approx(4.0)
    assert a["optimality_gap"] == pytest.approx(3.0)
    # from 1000 to 3000: (0 + v) / 2 over the first half, v over the second
    assert a["auc"] == pytest.approx(0.75 * 3)
    assert (a["steps_to_threshold"], a["reached"]) == (2000.0, "2/3")
    assert a["iqm_low"] is None and a["values"] == pytest.approx(
        [2 / 3, 2, 10 / 3]
    )  # too few for an interval
    # b's 4/3, 8/3, 4 against a's 2/3, 2, 10/3: 1 + 2 + 3 of 9
    assert b["improvement"] == pytest.approx(6 / 9) and a["improvement"] is None
    assert result.improvement["eval/return"]["a"]["b"] == pytest.approx(3 / 9)
    assert result.settings["model.lr"] == {"a": 0.001, "b": 0.5}
    assert [band.runs for band in result.bands["eval/return"]] == [3, 3]


def test_a_single_run_is_told_apart(groups):
    result = compare(select_runs(["one"]), ["reward"])
    assert result.metrics == ["eval/return"] and result.rows[0]["over"] == "last 4 values"
    assert any("nothing about other seeds" in note for note in result.notes)


def test_losses_are_better_when_lower(groups):
    rows = compare(select_runs(["a", "one"]), ["loss"]).rows
    assert rows[0]["metric"] == "train/loss" and rows[1]["best"] == 0.25
    # nine tenths of the way from 1 down to 0.25 is 0.325: 1/3 is not there, 1/4 is
    assert [row["steps_to_threshold"] for row in rows] == [None, 4000.0]


def test_different_tasks_are_not_held_against_each_other(add, groups):
    add("hop", [1, 2], env="Hopper-v5")
    result = compare(select_runs(["one", "hop"]))
    assert result.rows[1]["improvement"] is None
    assert any("different tasks" in note for note in result.notes)


def test_the_data_set_is_the_task(add, logs):
    add("off", [1], env="Hopper-v5", config={"data": {"init_args": {"dataset": "d4rl/hopper-medium-v2"}}})
    assert compare(select_runs(["off"])).rows[0]["task"] == "d4rl/hopper-medium-v2"


def test_names_groups_siblings_and_pipelines(add, logs):
    add("x-s0", [1])
    add("x-s10", [1])
    add("x-s2", [1])
    add("pipe", kind="pipeline")
    (logs / "pipe" / "metrics.csv").unlink()
    add("pipe/collect", [1])
    add("pipe/train", [2])
    (logs / "pipe" / "pipeline.json").write_text(json.dumps({"jobs": {"collect": {}, "train": {}}}))
    chosen = select_runs(["x", "x-s2", "pipe", str(logs / "x-s0")])
    assert [run.name for run in chosen["x"]] == ["x-s0", "x-s2", "x-s10"]
    assert [run.name for run in chosen["x-s2"]] == ["x-s2"]
    assert [run.name for run in chosen["pipe"]] == ["train"]
    assert [run.name for run in chosen["x-s0"]] == ["x-s0"]
    with pytest.raises(ConfigError, match="did you mean 'pipe'"):
        select_runs(["pipee"])


def test_an_artifact_of_the_own_pipeline_is_no_difference_of_seeds(add, logs):
    for seed in (0, 1):
        add(f"p-s{seed}", kind="pipeline")
        stages = dict.fromkeys(("dynamics", "mbpo", "gormpo"), 0)
        (logs / f"p-s{seed}" / "pipeline.json").write_text(json.dumps({"jobs": stages}))
        inside = {
            "class_path": "ModelRolloutData",
            "init_args": {"dynamics": f"{logs}/p-s{seed}/dynamics/artifact"},
        }
        for stage in ("mbpo", "gormpo"):
            add(
                f"p-s{seed}/{stage}",
                [1.0],
                config={"data": inside, "model": {"init_args": {"lr": len(stage)}}},
            )
    assert list(compare(select_runs(["p/mbpo", "p/gormpo"]), ["eval/return"]).settings) == ["model.lr"]


def test_time_is_made_of_the_rates(add, logs):
    folder = add("t", [1, 2, 3])  # 1000 steps at 500 a second, three times
    curve = read_curve(Run(folder), "eval/return", "time")
    assert (curve.clock, curve.x) == ("seconds", [2.0, 4.0, 6.0])
    with pytest.raises(DataError, match="no clock 'epoch'"):
        read_curve(Run(folder), "eval/return", "epoch")


def test_a_run_without_env_steps_counts_updates(add, logs):
    folder = add("t", [1, 2])
    (folder / "metrics.csv").write_text("env_step,update,eval/score\n0,10,1\n0,20,2\n")
    assert read_curve(Run(folder), "reward").clock == "update"


HOSTILE = [
    "env_step,update,eval/return\n1,1,5\n2,2,6\n3,3,7",  # cut in the middle of the last number
    "env_step,update,eval/return\n1,1,5\n2,2,6\n3,3",
    "env_step,update,eval/return\n1,1,5\n2,2,6\n3,3,nan\n4,4,inf\n5,5,x\n",
    "env_step,update,eval/return\n1,1,5,9,9\n2,2,6\n\n,,\n",
    "env_step,update,eval/return\n1,1,5\n\0\0\n2,2,6\n",
    "env_step,update,eval/return\r\n1,1,5\r\n2,2,6\r\n",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_metrics(add, logs, text):
    path = add("h", [1]) / "metrics.csv"
    path.write_bytes(text.encode())
    assert read_curve(Run(path.parent), "eval/return").y == [5.0, 6.0]
    assert metrics_file.newest(path)["eval/return"] == 6.0


def test_no_metrics_are_an_error_of_one_line(add, logs):
    folder = add("e", [])
    with pytest.raises(DataError, match="no value of 'eval/return'"):
        read_curve(Run(folder))
    (folder / "metrics.csv").write_bytes(b"")
    with pytest.raises(DataError, match="no metric"):
        read_curve(Run(folder))
    (folder / "metrics.csv").unlink()
    with pytest.raises(DataError, match="no metrics yet"):
        read_curve(Run(folder))


def test_newest_looks_further_back_for_rare_metrics(tmp_path, monkeypatch):
    monkeypatch.setattr(metrics_file, "WINDOWS", (64, 512))
    rows = ["env_step,train/loss,eval/return", "1,0.5,42", *(f"{i},{i}.25," for i in range(2, 200))]
    path = tmp_path / "metrics.csv"
    path.write_text("\n".join(rows) + "\n")
    assert metrics_file.newest(path) == {"env_step": 199.0, "train/loss": 199.25, "eval/return": 42.0}


NAMES = [
    "plain",
    "ünï ☃",
    "a,b",
    'q"uote',
    "p|pe",
    "<script>alert(1)</script>",
    "$x$ & 100% #_{}^~\\",
    "1e5",
    "-",
    "  s ",
]


def wild(names=NAMES):
    rows = [
        {"metric": "eval/return", "name": name, "task": "T-v1", "runs": i, "best": i / 3, "iqm": None,
         "median": 1e-17, "steps_to_threshold": 1e6, "reached": "1/2", "over": "runs"}
        for i, name in enumerate(names)
    ]  # fmt: skip
    return from_dicts(rows, COLUMNS)


def as_read_back(value):
    """What a CSV knows of a value: its text, a number by all its digits."""
    return "" if value is None else repr(value) if isinstance(value, float) else printable(str(value))


def test_csv_reads_back_exactly():
    table = wild()
    columns, *rows = csv.reader(io.StringIO(tables.to_csv(table), newline=""))
    assert columns == table.columns
    assert rows == [[as_read_back(value) for value in row] for row in table.rows]


def markdown_cells(text):
    """Header and rows of a Markdown table, split at the bars that are not escaped."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [re.findall(r"((?:\\.|[^\\|])*)\|", line[1:]) for line in (lines[0], *lines[2:])]
    return [[re.sub(r"\\(.)", r"\1", cell).strip() for cell in row] for row in cells]


TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(TEXTS, st.floats(allow_nan=True) | st.none() | st.integers(-(10**9), 10**9)), min_size=1
    )
)
def test_any_table_reads_back(rows):
    table = Table(["name", "best"], [list(row) for row in rows])
    written = tables.to_csv(table)
    assert printable(written.replace("\n", "")) == written.replace("\n", ""), "a terminal obeys nothing of it"
    _, *there = csv.reader(io.StringIO(written, newline=""))
    assert there == [[as_read_back(value) for value in row] for row in table.rows]
    written = tables.to_json({"rows": rows})
    assert printable(written.replace("\n", "")) == written.replace("\n", "")
    there = json.loads(written)["rows"]
    assert there == [
        [name, None if best != best or best in (math.inf, -math.inf) else best] for name, best in rows
    ]
    text = tables.to_markdown(table)
    columns, *cells = markdown_cells(text)
    assert tables.to_markdown(Table(columns, cells)) == text
    assert len(text.splitlines()) == len(rows) + 2
    assert len(aligned(table).splitlines()) == len(rows) + 1


def test_markdown_reads_back_as_shown():
    table = wild()
    columns, *rows = markdown_cells(tables.to_markdown(table))
    assert columns == table.columns
    assert [row[1] for row in rows] == [name.strip() for name in NAMES]
    assert "<script" not in tables.to_markdown(table).replace("\\<", "")


def test_a_number_that_is_none_is_no_value():
    assert Table(["a"], [[float("nan")], [float("inf")]]).rows == [[None], [None]]


def latex_with_booktabs() -> bool:
    if shutil.which("pdflatex") is None:
        return False
    return bool(subprocess.run(["kpsewhich", "booktabs.sty"], capture_output=True, check=False).stdout)


@pytest.mark.skipif(not latex_with_booktabs(), reason="no LaTeX with booktabs is installed here")
def test_latex_compiles(tmp_path: Path):
    wildest = [*NAMES, "[x]", "*", "中文", string.punctuation, "a\nb", "é", "\u202e", "😀"]
    table = wild(wildest)
    table.title, table.notes = "50 % of <all> & more", ["note_1 #2"]
    table.columns = table.columns[:8]
    table.rows = [row[1:9] for row in table.rows]  # the hostile names come first in a row
    body = tables.to_latex(table)
    packages = "\\usepackage{booktabs,graphicx}"
    text = f"\\documentclass{{article}}{packages}\\begin{{document}}\n{body}\\end{{document}}\n"
    (tmp_path / "t.tex").write_text(text)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "t.pdf").stat().st_size > 1000
    assert "Overfull" not in (tmp_path / "t.log").read_text(errors="replace"), "wider than the line"


@pytest.mark.parametrize("form", tables.FORMATS)
def test_export_command(groups, rl, logs, form):
    answer = rl("export", "a", "b", "--format", form, "--metrics", "reward,loss")
    assert answer.code == 0 and "lr" in answer.out if form not in ("csv",) else "train/loss" in answer.out
    path = logs.parent / "out" / f"t.{form}"
    assert rl("export", "a", "b", "--format", form, "--output", str(path)).code == 0
    assert path.read_text()
    if form == "json":
        found = json.loads(answer.out)
        assert [row["name"] for row in found["scores"]] == ["a", "b", "a", "b"]
        assert found["improvement"]["eval/return"]["b"]["a"] == pytest.approx(6 / 9)


def test_five_runs_have_an_interval_and_four_have_their_scores(add):
    for seed in range(5):
        add(f"five-s{seed}", [seed] * 10, group="five", seed=seed)
        if seed:
            add(f"four-s{seed}", [seed] * 3, group="four", seed=seed)
    result = compare(select_runs(["five", "four"]))
    five, four = result.rows
    assert five["iqm_low"] < five["iqm"] < five["iqm_high"] and four["iqm_low"] is None
    assert four["improvement"] is not None and four["improvement_low"] is None
    text = str(result)
    assert (
        "2.5 ± 1.291* " in text
        and "2 ± 1.581 " in text
        and "(1, 2, 3, 4)" in text
        and "below five runs" in text
    )
    with_interval, with_runs = result.bands["eval/return"]
    assert with_interval.low is not None and not with_interval.each
    assert with_runs.low is None and [row[0] for row in with_runs.each] == [1, 2, 3, 4]


def test_best_says_of_what(groups):
    assert "best: of each run its highest eval/return" in str(compare(select_runs(["one"])))
    assert "best: of each run its lowest train/loss" in str(compare(select_runs(["one"]), ["loss"]))


def test_a_paper_gets_label_spread_and_the_best_in_bold(groups):
    text = compare(select_runs(["a", "b"]), ["eval/return"]).export("latex")
    rows = [line.split(" & ") for line in text.splitlines() if line.startswith(("a &", "b &"))]
    assert r"\label{tab:eval-return}" in text and r"\caption{" in text and r"$\pm$" in rows[0][3]
    assert rows[1][3].startswith(r"\textbf{2.667 $\pm$") and not rows[0][3].startswith(r"\textbf")
    assert not rows[0][7].startswith(r"\textbf{") and rows[1][7].startswith(
        r"\textbf{"
    )  # a smaller gap is the better one
    losses = compare(select_runs(["a", "b"]), ["loss"]).export("latex")
    best = [line for line in losses.splitlines() if r"\textbf" in line]
    assert best and all(line.startswith(("a &", "b &")) for line in best)
