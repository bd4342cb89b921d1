"""One event per row holds what Lightning's logger writes as one event per metric."""

import math

import numpy as np
import torch
from lightning.pytorch.loggers import TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rl_lightning.loggers.make_loggers import log_hyperparams_to_all, log_scores
from rl_lightning.loggers.tensorboard_rows import TensorBoardRows

ROWS = [
    {"env_step": 100, "train/loss": 0.25, "eval/return": math.nan},
    {"env_step": 200, "train/loss": -1e30, "collect/return": math.inf},
    {"env_step": 300, "train/loss": torch.tensor(0.5), "eval/return": np.float32(3.0)},
]


def points(kind, folder, rows=ROWS, purge=None):
    logger = kind(str(folder), name="", version="", purge_step=purge)
    for row in rows:
        logger.log_metrics(row, step=int(row["env_step"]))
    logger.finalize("success")
    events = EventAccumulator(str(folder)).Reload()
    return {tag: [(e.step, repr(e.value)) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_the_same_points_as_lightnings_logger(tmp_path):
    ours = points(TensorBoardRows, tmp_path / "ours")
    assert ours == points(TensorBoardLogger, tmp_path / "theirs")
    assert ours["train/loss"][0] == (100, "0.25") and len(ours["env_step"]) == 3


def test_a_resumed_run_drops_what_it_writes_again(tmp_path):
    points(TensorBoardRows, tmp_path)
    again = points(TensorBoardRows, tmp_path, [{"env_step": 200, "train/loss": 7.0}], purge=200)
    assert again["train/loss"] == [(100, "0.25"), (200, "7.0")]


def test_the_table_of_runs_has_their_scores(tmp_path):
    """Best and last-10 stand beside the hyper-parameters; no -1 that nobody scored."""
    logger = TensorBoardRows(str(tmp_path), name="", version="")
    log_hyperparams_to_all([logger], {"model": {"lr": 0.1}})
    log_scores([logger], best=7.0, last10=5.5, step=300)
    logger.finalize("success")
    events = EventAccumulator(str(tmp_path)).Reload()
    assert {tag: events.Scalars(tag)[-1].value for tag in events.Tags()["scalars"]} == {
        "hp_metric/best": 7.0, "hp_metric/last10": 5.5,
    }  # fmt: skip
    assert all(math.isnan(events.Scalars(tag)[0].value) for tag in events.Tags()["scalars"])
