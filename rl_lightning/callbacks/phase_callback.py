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
        self._announce(trainer)

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *args: Any) -> None:
        self._announce(trainer)

    def _announce(self, trainer: Trainer) -> None:
        """Each phase once in a fit: where it begins, or how far into it a resumed run stands."""
        clock = clock_of(trainer)
        cursor = clock.phases
        assert cursor is not None
        if cursor.index == self.shown or clock.is_finished:  # where the run ends no phase begins
            return
        self.shown = cursor.index
        if trainer.is_global_zero:
            into = done_in_phase(cursor)
            place = f"{'resumed ' if into else ''}at {clock.clock_name} {clock.now}{into}"
            sys.stderr.write(f"phase {cursor.index + 1}/{len(cursor.phases)}: {cursor.phase.name} {place}\n")


def done_in_phase(cursor: PhaseCursor) -> str:
    """How far a phase is, in what ends it or, without an end of its own, in what it has done; empty where it begins."""
    phase = cursor.phase
    counts = {
        "env steps": (cursor.env_steps, phase.env_steps),
        "updates": (cursor.updates, phase.updates),
        "cycles": (cursor.cycles, phase.cycles),
    }
    if not any(done for done, _ in counts.values()):
        return ""
    ending = {name: pair for name, pair in counts.items() if pair[1] is not None}
    shown = ending or {name: pair for name, pair in counts.items() if pair[0]}
    parts = [f"{done}/{end} {name}" if end else f"{done} {name}" for name, (done, end) in shown.items()]
    return f" ({', '.join(parts)} done)"
