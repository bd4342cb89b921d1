"""What is asked of the engine besides a composed config. The command line and Python fill it in alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Request:
    """How a run is to be made, resumed or loaded.

    Args:
        overrides: `--key=value`, laid over the config.
        options: Those that the config declares for itself; it is composed with them.
        overlays: Configs laid over a run's own.
        imports: Packages of the user's that the config may name.
        command: What was typed after the verb, for the record.
        verb: Of `rl`: fit, resume or reproduce.
        group: Group of seeds that the run belongs to.
        checkpoint: Which of a run's checkpoints; null: the newest, or the best where an agent is loaded.
        begin: Stage of a pipeline to begin with.
        only: The one stage to run.
        render: How an env draws itself while it trains.
        debug: Watch everything.
        small: Make it a run of seconds, as debugging does of new ones.
        debug_seconds: CPU time that such a run trains for.
        reset_lr: The config's learning rates, not the checkpoint's.
        given: Objects that Python hands over, by the dotted names of the arguments they are.
    """

    overrides: list[str] = field(default_factory=list)
    options: Mapping[str, Any] = field(default_factory=dict)
    overlays: list[str] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    verb: str = "fit"
    group: str | None = None
    checkpoint: str | None = None
    begin: str | None = None
    only: str | None = None
    render: str | None = None
    debug: bool = False
    small: bool = False
    debug_seconds: float = 2.0
    reset_lr: bool = False
    given: dict[str, Any] = field(default_factory=dict)
