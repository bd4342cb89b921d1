"""Where metrics, hyper-parameters and media go: CSV always, TensorBoard and W&B on request."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import Logger, TensorBoardLogger

from rl_lightning.callbacks.csv_logger import MetricsFile
from rl_lightning.errors import ConfigError


@dataclass
class LogConfig:
    """Dashboards beside metrics.csv, which is always written.

    Args:
        tensorboard: Write TensorBoard events into the run's folder.
        wandb: Log to Weights & Biases too.
        every: Emit metrics each time the clock passes a multiple of this; null: 200 times per run.
        project: W&B project; null: the task.
        group: W&B group; null: the seed group, or the algorithm.
        entity: W&B team or user.
        mode: W&B mode, online, offline or disabled; keys come from the environment or netrc only.
        videos: Record an episode each time the clock passes a multiple of this; null never.
        dreams: Picture what a world model dreams each time the clock passes a multiple of this; null never.
    """

    tensorboard: bool = True
    wandb: bool = False
    every: int | None = None
    project: str | None = None
    group: str | None = None
    entity: str | None = None
    mode: str = "online"
    videos: int | None = None
    dreams: int | None = None


def make_loggers(
    folder: Path, log: LogConfig, task: str, group: str, name: str, tags: list[str], purge: int | None = None
) -> list[Logger]:
    """The loggers of a run, all writing below its folder; `purge` drops what TensorBoard has from that clock on."""
    loggers: list[Logger] = [MetricsFile(str(folder))]
    if log.tensorboard:
        loggers.append(TensorBoardLogger(str(folder), name="", version="", purge_step=purge))
    if log.wandb:
        loggers.append(_wandb(folder, log, task, group, name, tags))
    return loggers


def _wandb(folder: Path, log: LogConfig, task: str, group: str, name: str, tags: list[str]) -> Logger:
    if log.mode not in ("online", "offline", "disabled"):
        raise ConfigError(f"log.mode is {log.mode!r}; choose online, offline or disabled")
    try:
        import wandb
        from lightning.pytorch.loggers import WandbLogger
    except ImportError:
        raise ConfigError("log.wandb needs W&B: pip install 'rl-lightning[wandb]'") from None
    logger = WandbLogger(
        name=name,
        save_dir=str(folder),
        project=(log.project or task).replace("/", "-"),
        group=log.group or group,
        entity=log.entity,
        tags=tags,
        mode=log.mode,  # type: ignore[arg-type]
        settings=wandb.Settings(silent=True, console="off", disable_git=True),
    )
    if log.mode != "disabled":
        logger.experiment.define_metric("env_step")
        logger.experiment.define_metric("*", step_metric="env_step")
    return logger


def log_hyperparams(loggers: list[Logger], config: dict[str, Any]) -> None:
    for logger in loggers:
        logger.log_hyperparams(config)
