"""Options that belong to the command line itself, not to a model or its data."""

from __future__ import annotations

from dataclasses import dataclass

# Options of `rl fit` and its kin that take a value, and those that stand alone.
OWN_VALUES = ("config", "import", "seeds", "jobs", "render", "group", "ckpt_path", "checkpoint", "episodes", "output")
OWN_SWITCHES = ("dry_run", "print_config", "no_video")


@dataclass
class LogConfig:
    """Where metrics go besides metrics.csv, which is always written.

    Keys of services are read from their own environment variable or netrc file, never from a config.

    Args:
        tensorboard: Write TensorBoard events into the run's folder.
        wandb: Log to Weights & Biases too.
        project: Project in Weights & Biases; by default the env's id.
        group: Group in Weights & Biases; by default the group of seeds, else the algorithm.
        mode: "online", "offline" (sync later) or "disabled".
        entity: Team or user in Weights & Biases; by default yours.
    """

    tensorboard: bool = True
    wandb: bool = False
    project: str | None = None
    group: str | None = None
    mode: str = "offline"
    entity: str | None = None
