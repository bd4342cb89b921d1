"""Phases of a stage, from YAML: checked before anything starts, logged as they change."""

from __future__ import annotations

import sys
from typing import Any

from lightning.pytorch import Callback, Trainer

from rl_lightning.behaviors.random_actor import check_noise
from rl_lightning.clock.phases import PhaseCursor, parse_phases
from rl_lightning.errors import ConfigError
from rl_lightning.trainer.access import clock_of


class Phases(Callback):
    """Runs a stage in phases: each a cycle of hooks with a duration.

    The schedule itself belongs to the data, because Lightning fetches a block before any callback could decide on it;
    this callback configures it, and tells of every change.

    Args:
        phases: The phases in order; keys as in docs/phases.md.
    """

    def __init__(self, phases: list[dict[str, Any]]) -> None:
        self.entries = phases
        self.shown = -1

    def setup(self, trainer: Trainer, pl_module: Any, stage: str) -> None:
        if stage != "fit":
            return
        phases = parse_phases(self.entries, pl_module.update_hooks())
        for phase in phases:
            if phase.controller not in ("agent", "random"):
                pl_module.actor_for_role(phase.controller)
            if phase.exploration_noise:
                check_noise(pl_module.spec, f"phase '{phase.name}': exploration_noise")
        schedule = clock_of(trainer)
        if schedule.phases is None:
            schedule.phases = PhaseCursor(phases)
        endless = [phase.name for phase in phases if not phase.ends]
        if endless and not schedule.run.limited:
            raise ConfigError(
                f"phase '{endless[0]}' has no end that its hooks reach, and the run has none: give the phase a "
                "duration, or the run --env_steps, --updates or --max_hours"
            )

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        self._tell(trainer)

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *args: Any) -> None:
        self._tell(trainer)

    def _tell(self, trainer: Trainer) -> None:
        schedule = clock_of(trainer)
        cursor = schedule.phases
        assert cursor is not None
        if cursor.index == self.shown or cursor.finished:
            return
        self.shown = cursor.index
        if trainer.is_global_zero:
            place = f"{schedule.clock_name} {schedule.now}"
            sys.stderr.write(
                f"phase {cursor.index + 1}/{len(cursor.phases)}: {cursor.phase.name} at {place}\n"
            )

    def state_dict(self) -> dict[str, Any]:
        return {"shown": self.shown}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.shown = state["shown"]
