"""Phases of a stage: which hooks run, in which order, and for how long. A plain state machine, saved mid-cycle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rl_lightning.errors import ConfigError
from rl_lightning.io.nearness import nearest

TYPES = ("online", "offline", "eval_only")
ALIASES = {
    "duration_steps": "env_steps",
    "steps": "env_steps",
    "duration_updates": "updates",
    "duration_cycles": "cycles",
    "workflow_hooks": "hooks",
    "imagination_horizon": "horizon",
}


@dataclass(frozen=True)
class Hook:
    """One entry of a phase's cycle.

    Args:
        name: collect, evaluate, or the module's method that learns: update, update_world_model, ...
        every: Run it in each n-th cycle only.
        count: How often in a row; for updates, how many.
        after_updates: Run it only once the phase has made this many updates (a warm-up).
    """

    name: str
    every: int = 1
    count: int = 1
    after_updates: int = 0

    @property
    def is_update(self) -> bool:
        return self.name.startswith("update")


@dataclass(frozen=True)
class Phase:
    """A part of a stage. Whichever duration is reached first ends it; without one it lasts as long as the run.

    Args:
        name: What it is called in metrics and messages.
        type: online, offline (no collecting) or eval_only; decides the hooks where none are given.
        hooks: The cycle: names, or {name, every, count, after_updates}.
        env_steps: Duration in env steps of this phase.
        updates: Duration in updates of this phase.
        cycles: Duration in passes through the hooks.
        buffer: The named buffer that is filled and drawn from.
        controller: Who acts while collecting: agent, random, or a role of the module's own.
        collect_steps: Steps of each env in one collect; null: the data's own.
        deterministic_policy: Act greedily while collecting.
        exploration_noise: Standard deviation of noise added to continuous actions.
        horizon: Imagination horizon, for rules that imagine.
        eval_episodes: Episodes of this phase's evaluations; null: the run's.
        extra: Anything else that a rule wants to see.
    """

    name: str
    type: str = "online"
    hooks: tuple[Hook, ...] = ()
    env_steps: int | None = None
    updates: int | None = None
    cycles: int | None = None
    buffer: str = "replay"
    controller: str = "agent"
    collect_steps: int | None = None
    deterministic_policy: bool = False
    exploration_noise: float = 0.0
    horizon: int | None = None
    eval_episodes: int | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def ends(self) -> bool:
        """Whether it has a duration that its own hooks can reach."""
        collects = any(hook.name == "collect" for hook in self.hooks)
        learns = any(hook.is_update for hook in self.hooks)
        return bool(self.cycles or (self.env_steps and collects) or (self.updates and learns))


@dataclass(frozen=True)
class PhaseContext:
    """What an update rule may know of the phase it works in: `name`, `type`, its other settings, and what lies below
    `extra`, each as an attribute.

    Args:
        phase: As it was configured.
        progress: Fraction of it that was over when the block began.
    """

    phase: Phase
    progress: float

    def __getattr__(self, name: str) -> Any:
        phase = self.__dict__.get("phase")
        if phase is not None and name in Phase.__dataclass_fields__:
            return getattr(phase, name)
        if phase is not None and name in phase.extra:
            return phase.extra[name]
        known = [] if phase is None else [*Phase.__dataclass_fields__, *phase.extra]
        raise AttributeError(f"a phase has no '{name}'{_nearest(name, known)}; free keys go below extra:")


def parse_phases(entries: Sequence[dict[str, Any]], updates: Sequence[str]) -> list[Phase]:
    """Phases from YAML, checked strictly. `updates` are the module's own update hooks."""
    if not entries:
        raise ConfigError("phases: the list is empty")
    return [_phase(f"phases[{i}]", dict(entry), updates) for i, entry in enumerate(entries)]


def _phase(where: str, settings: dict[str, Any], updates: Sequence[str]) -> Phase:
    entry = _check_keys(where, settings)
    kind = entry.get("type", "online")
    if kind not in TYPES:
        raise ConfigError(f"{where}.type is {kind!r}; choose {', '.join(TYPES)}{_nearest(str(kind), TYPES)}")
    chosen = entry.pop("hooks", None)
    hooks = (
        default_hooks(kind, updates) if chosen is None else [chosen] if isinstance(chosen, str) else chosen
    )
    names = [*updates, "collect", "evaluate"]
    parsed = tuple(_hook(f"{where}.hooks", item, names) for item in hooks)
    if not parsed:
        raise ConfigError(f"{where}.hooks is empty")
    waits = [hook.after_updates for hook in parsed if hook.is_update]
    if waits and min(waits) > 0:
        raise ConfigError(f"{where}.hooks: every update waits for {min(waits)} others, so none is ever made")
    if kind == "offline" and any(hook.name == "collect" for hook in parsed):
        raise ConfigError(f"{where} is offline but collects; make it online, or drop the hook")
    if kind == "eval_only" and not any(entry.get(key) for key in ("env_steps", "updates", "cycles")):
        entry["cycles"] = 1
    return Phase(**{"name": kind, **entry}, hooks=parsed)


def _check_keys(where: str, entry: dict[str, Any]) -> dict[str, Any]:
    """The entry under our own names of its keys; unknown ones and senseless durations are refused."""
    for alias in ALIASES.keys() & entry.keys():
        if ALIASES[alias] in entry:
            raise ConfigError(f"{where}: both {alias} and {ALIASES[alias]} are given; they mean the same")
        entry[ALIASES[alias]] = entry.pop(alias)
    known = Phase.__dataclass_fields__
    for key in entry:
        if key not in known:
            raise ConfigError(f"{where} has no key '{key}'{_nearest(key, known)}; free keys go below extra:")
    for key in ("env_steps", "updates", "cycles", "collect_steps", "horizon", "eval_episodes"):
        if entry.get(key) is not None and (type(entry[key]) is not int or entry[key] < 1):
            raise ConfigError(f"{where}.{key} is {entry[key]!r}; it must be a positive number")
    return entry


def default_hooks(kind: str, updates: Sequence[str]) -> list[str]:
    """The usual cycle of a phase; `update` stands for the hooks of its halves."""
    if kind == "eval_only":
        return ["evaluate"]
    usual = ["update"] if "update" in updates else [*updates]
    return usual if kind == "offline" else ["collect", *usual]


def _hook(where: str, item: str | dict[str, Any], names: Sequence[str]) -> Hook:
    settings = {"name": item} if isinstance(item, str) else dict(item)
    for key in settings:
        if key not in Hook.__dataclass_fields__:
            raise ConfigError(f"{where}: a hook has no key '{key}'{_nearest(key, Hook.__dataclass_fields__)}")
    if settings.get("name") not in names:
        name = str(settings.get("name"))
        raise ConfigError(f"{where}: no hook '{name}'{_nearest(name, names)}; there are {', '.join(names)}")
    hook = Hook(**settings)
    for key, least in (("every", 1), ("count", 1), ("after_updates", 0)):
        value = getattr(hook, key)
        if type(value) is not int or value < least:
            raise ConfigError(f"{where}: {hook.name}.{key} is {value!r}; it must be at least {least}")
    return hook


def _nearest(name: str, names: Any) -> str:
    near = nearest(name, names, 1)
    return f"; did you mean '{near[0]}'?" if near else ""


class PhaseCursor:
    """Where a stage stands in its phases.

    Args:
        phases: The phases, in order.
    """

    def __init__(self, phases: Sequence[Phase]) -> None:
        self.phases = list(phases)
        self.index = 0
        self.position = 0  # hook of the cycle that is next
        self.repeat = 0  # how often it has run in a row
        self.part = 0  # env steps or updates that it has made, where a budget or cadence cut it short
        self.env_steps = self.updates = self.cycles = 0  # of this phase
        self.skipped = 0  # hooks in a row that could do nothing
        self.starved = 0  # updates in a row that had no data

    @property
    def finished(self) -> bool:
        return self.index >= len(self.phases)

    @property
    def phase(self) -> Phase:
        return self.phases[min(self.index, len(self.phases) - 1)]

    @property
    def progress(self) -> float:
        """Fraction of this phase that is over; 0 if it has no end of its own."""
        phase = self.phase
        pairs = (
            (self.env_steps, phase.env_steps),
            (self.updates, phase.updates),
            (self.cycles, phase.cycles),
        )
        return min(1.0, max([0.0, *(done / limit for done, limit in pairs if limit)]))

    def next_hook(self) -> Hook:
        """The hook that is due."""
        assert not self.finished
        if all(hook.after_updates > self.updates for hook in self.phase.hooks):
            raise ConfigError(f"phase '{self.phase.name}': no hook can ever run (see after)")
        self._skip_hooks_not_due()
        return self.phase.hooks[self.position]

    @property
    def last_update(self) -> bool:
        """No update follows the due hook in its cycle."""
        return not any(hook.is_update for hook in self.phase.hooks[self.position + 1 :])

    def _skip_hooks_not_due(self) -> None:
        """Moves past hooks that are not due in their cycle, at most to the phase's end."""
        while not self._over():
            hook = self.phase.hooks[self.position]
            if self.cycles % hook.every == 0 and self.updates >= hook.after_updates:
                return
            self._move()

    def room_for_updates(self, wanted: int) -> int:
        """At most `wanted`, and not past the phase's end."""
        return wanted if self.phase.updates is None else min(wanted, self.phase.updates - self.updates)

    def advance(
        self, env_steps: int = 0, updates: int = 0, skipped: bool = False, whole: bool = True
    ) -> bool:
        """Counts what the due hook did and moves on; True if the phase is over.

        A skipped hook counts nothing, and a cycle in which every hook was skipped is not a cycle. A hook that was cut
        short stays due and counts once it is whole: where it is cut changes nothing that a rule sees of the phase.
        """
        hook = self.phase.hooks[self.position]
        if not whole:
            self.part += updates if hook.is_update else env_steps
            return False
        self.env_steps += env_steps + (0 if hook.is_update else self.part)
        self.updates += updates + (self.part if hook.is_update else 0)
        self.part = 0
        self.skipped = self.skipped + 1 if skipped else 0
        self.starved = self.starved + 1 if skipped else self.starved if hook.name == "evaluate" else 0
        self.repeat += 1
        if hook.is_update or skipped or self.repeat >= hook.count:
            self._move()
            # here, so that a last hook that is not due cannot hide the end of the last cycle
            self._skip_hooks_not_due()
        if self._over():
            self.index += 1
            self.position = self.repeat = self.env_steps = self.updates = self.cycles = self.skipped = (
                self.starved
            ) = 0
            return True
        return False

    def _move(self) -> None:
        self.repeat = 0
        self.position += 1
        if self.position >= len(self.phase.hooks):
            self.position = 0
            if self.skipped < len(self.phase.hooks):
                self.cycles += 1

    def _over(self) -> bool:
        phase = self.phase
        pairs = (
            (self.env_steps, phase.env_steps),
            (self.updates, phase.updates),
            (self.cycles, phase.cycles),
        )
        return any(limit is not None and done >= limit for done, limit in pairs)

    def state_dict(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "phases"}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
