"""Where metrics, hyper-parameters and media go: CSV always, TensorBoard and W&B on request."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lightning.pytorch.loggers import Logger

from rl_lightning.errors import ConfigError
from rl_lightning.extras import pip_command
from rl_lightning.loggers.metrics_csv import MetricsCSVLogger
from rl_lightning.loggers.tensorboard_rows import TensorBoardRows
from rl_lightning.redaction import redact_words

HP_METRICS = ("hp_metric/best", "hp_metric/last10")


@dataclass
class LogConfig:
    """Dashboards beside metrics.csv, which is always written.

    Args:
        tensorboard: Write TensorBoard events into the run's folder.
        wandb: Log to Weights & Biases too.
        every: Emit metrics each time the clock passes a multiple of this; null: 200 times per run.
        wandb_project: W&B project; null: the task, a data set or an env.
        wandb_group: W&B group; null: the seed group, the pipeline, or the algorithm.
        wandb_entity: W&B team or user.
        wandb_mode: W&B mode, online, offline or disabled; keys come from the environment or netrc only.
        video_every: Record an episode each time the clock passes a multiple of this; null never.
        open_loop_every: Picture what a world model dreams each time the clock passes a multiple of this; null never.
    """

    tensorboard: bool = True
    wandb: bool = False
    every: int | None = None
    wandb_project: str | None = None
    wandb_group: str | None = None
    wandb_entity: str | None = None
    wandb_mode: str = "online"
    video_every: int | None = None
    open_loop_every: int | None = None


class Titles(NamedTuple):
    """How a run is called where several are looked at together.

    Args:
        task: The data set that it learns from, or the env.
        group: Of seeds, a pipeline, or the algorithm.
        name: Its own.
        tags: Its own.
        identity: Stays when it is resumed: what is logged then belongs to the same W&B run.
        clock: Its x-axis, env_step or update.
    """

    task: str
    group: str
    name: str
    tags: list[str]
    identity: str
    clock: str = "env_step"


def make_loggers(folder: Path, log: LogConfig, titles: Titles, purge: int | None = None) -> list[Logger]:
    """The loggers of a run, all writing below its folder; `purge` drops what TensorBoard has from that clock on."""
    loggers: list[Logger] = [MetricsCSVLogger(str(folder))]
    if log.tensorboard:
        try:
            loggers.append(TensorBoardRows(str(folder), name="", version="", purge_step=purge))
        except ModuleNotFoundError:
            raise ConfigError(
                "log.tensorboard needs it: pip install tensorboard, or do without: --log.tensorboard false"
            ) from None
    if log.wandb:
        loggers.append(_wandb(folder, log, titles))
    return loggers


def _wandb(folder: Path, log: LogConfig, titles: Titles) -> Logger:
    if log.wandb_mode not in ("online", "offline", "disabled"):
        raise ConfigError(f"log.wandb_mode is {log.wandb_mode!r}; choose online, offline or disabled")
    try:
        import wandb
        from lightning.pytorch.loggers import WandbLogger
    except ImportError:
        raise ConfigError(f"log.wandb needs W&B: {pip_command('wandb')}") from None
    logger = WandbLogger(
        name=titles.name,
        id=titles.identity,
        save_dir=str(folder),
        project=re.sub(r"[/\\#?%:]+", "-", log.wandb_project or titles.task)[:128],
        group=log.wandb_group or titles.group,
        entity=log.wandb_entity,
        tags=titles.tags,
        mode=log.wandb_mode,
        settings=wandb.Settings(silent=True, console="off", disable_git=True),
    )
    logger._wandb_init.pop("anonymous", None)  # W&B warns of it, whatever it says
    if log.wandb_mode != "disabled":
        with shown_command():  # W&B notes sys.argv when its run begins
            experiment = logger.experiment
        experiment.define_metric(titles.clock)
        experiment.define_metric("*", step_metric=titles.clock)
    vars(logger)["clock"] = titles.clock
    return logger


def close_loggers(loggers: list[Logger]) -> None:
    """Ends W&B's run: it keeps one per process, and the next stage would log into it."""
    for logger in loggers:
        if type(logger).__name__ == "WandbLogger" and vars(logger).get("clock") is not None:
            logger.experiment.finish()  # type: ignore[attr-defined]


@contextmanager
def shown_command() -> Iterator[None]:
    """While it lasts the command line of this process reads as the run's record has it."""
    argv = sys.argv
    sys.argv = [argv[0], *redact_words(argv[1:])]
    try:
        yield
    finally:
        sys.argv = argv


def log_hyperparams_to_all(loggers: list[Logger], config: dict[str, Any]) -> None:
    for logger in loggers:
        if isinstance(logger, TensorBoardRows):
            logger.log_hyperparams(
                config, dict.fromkeys(HP_METRICS, math.nan)
            )  # until there is an evaluation
        else:
            logger.log_hyperparams(config)


def log_scores(loggers: list[Logger], best: float, last10: float, step: int) -> None:
    """The scores of a run beside its hyper-parameters, in TensorBoard's table of runs."""
    for logger in loggers:
        if isinstance(logger, TensorBoardRows):
            logger.log_metrics(dict(zip(HP_METRICS, (best, last10), strict=True)), step)
