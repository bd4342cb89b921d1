"""metrics.csv: columns may come late, nothing is lost, the file is never started anew."""

import csv

from rl_lightning.loggers.metrics_csv import MetricsCSVLogger


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_new_column_widens_the_file_and_keeps_what_was_there(tmp_path):
    log = MetricsCSVLogger(str(tmp_path))
    log.log_metrics({"train/loss": 0.5, "env_step": 10, "update": 1})
    log.log_metrics({"env_step": 20, "update": 2, "train/loss": 0.25, "eval/return": 3.0})
    log.log_metrics({"env_step": 30, "update": 3, "a/late": 7})
    header = (tmp_path / "metrics.csv").read_text().splitlines()[0]
    assert header == "env_step,update,train/loss,eval/return,a/late"
    assert rows(log.path) == [
        {"env_step": "10", "update": "1", "train/loss": "0.5", "eval/return": "", "a/late": ""},
        {"env_step": "20", "update": "2", "train/loss": "0.25", "eval/return": "3", "a/late": ""},
        {"env_step": "30", "update": "3", "train/loss": "", "eval/return": "", "a/late": "7"},
    ]
    assert [p.name for p in tmp_path.iterdir()] == ["metrics.csv"]


def test_reopening_appends(tmp_path):
    MetricsCSVLogger(str(tmp_path)).log_metrics({"env_step": 1, "train/loss": 1.5})
    again = MetricsCSVLogger(str(tmp_path))
    again.log_metrics({"env_step": 2, "train/loss": 2.5})
    again.log_metrics({"env_step": 3, "train/new": 1.0})
    assert [row["env_step"] for row in rows(again.path)] == ["1", "2", "3"]
    assert [row["train/loss"] for row in rows(again.path)] == ["1.5", "2.5", ""]


def test_numbers_come_back_exactly(tmp_path):
    log = MetricsCSVLogger(str(tmp_path))
    values = [0.1, 1 / 3, 1e-30, 123456789.125, -0.0, float("nan"), float("inf"), 2**53]
    for value in values:
        log.log_metrics({"x": value})
    found = [float(row["x"]) for row in rows(log.path)]
    assert [repr(a) for a in found if a == a] == [repr(float(b) + 0.0) for b in values if b == b]
    assert sum(a != a for a in found) == 1


def test_columns_do_not_depend_on_the_order_in_which_metrics_arrive(tmp_path):
    for name, order in (("a", ("b", "a", "env_step")), ("b", ("env_step", "a", "b"))):
        (tmp_path / name).mkdir()
        MetricsCSVLogger(str(tmp_path / name)).log_metrics(dict.fromkeys(order, 1.0))
    assert (tmp_path / "a/metrics.csv").read_text() == (tmp_path / "b/metrics.csv").read_text()
