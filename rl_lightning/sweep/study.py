"""The trials of a sweep in an Optuna study: each is claimed once, finished once, and taken over if its worker dies.

All trials are made when the sweep begins and wait in the study, each with its `slot`; so their number never hangs on
who asks first. Workers take turns where they meet: by a lock on a file, or by one that the database server keeps.
"""

from __future__ import annotations

import re
import sqlite3
import time
import warnings
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rl_lightning.errors import ConfigError, DataError
from rl_lightning.extras import pip_command
from rl_lightning.io.lock import locked
from rl_lightning.redaction import scrub
from rl_lightning.sweep.definition import SweepDefinition
from rl_lightning.sweep.space import decode, encode
from rl_lightning.sweep.sweep_lock import locked_on_server, lost, myself, same

BEAT = 30.0


def optuna_module() -> Any:
    try:
        import optuna
    except ImportError:
        raise ConfigError(f"rl sweep needs Optuna: {pip_command('sweep')}") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", module="optuna")
    return optuna


@dataclass
class SweepTrial:
    """One claimed trial.

    Args:
        slot: Its number in the sweep.
        params: Value of every key that varies.
        handle: Optuna's trial.
        reported: Evaluations that Optuna knows of.
    """

    slot: int
    params: dict[str, Any]
    handle: Any
    reported: int = 0

    def report(self, value: float) -> None:
        self.reported += 1
        self.handle.report(value, self.reported)

    def should_prune(self) -> bool:
        return bool(self.handle.should_prune())


@dataclass(frozen=True)
class TrialRow:
    """What is known of a trial.

    Args:
        slot: Its number in the sweep.
        state: waiting, running, complete, pruned or fail.
        params: Value of every key that varies, as far as they are drawn.
        score: Of a complete trial.
        feasible: Fulfils all constraints.
        about: What its worker wrote down: seeds' scores, runs, the reason of a failure.
        seconds: How long it took.
    """

    slot: int
    state: str
    params: dict[str, Any]
    score: float | None
    feasible: bool
    about: dict[str, Any] = field(default_factory=dict)
    seconds: float | None = None


class TrialLedger:
    """The study of one sweep.

    Args:
        definition: What the sweep is.
        folder: Its folder; its lock and, by default, its storage are there.
    """

    def __init__(self, definition: SweepDefinition, folder: Path) -> None:
        self.optuna = optuna_module()
        self.definition, self.folder = definition, folder
        self.local = definition.storage == "journal" or definition.storage.startswith("sqlite")
        self._me = myself()
        with locked(self._lock_file()):  # two processes must not make the tables at once
            self.storage = self._open_storage()
            self.study = self._patiently(self._open_study)
        self._patiently(self._begin)

    def _lock_file(self) -> Path:
        """Beside a database file that several folders may share; else in the sweep's folder."""
        file = re.match(r"sqlite[^:]*:///([^?]+)", self.definition.storage)
        return Path(f"{file.group(1)}.lock") if file else self.folder / ".lock"

    def _turn(self) -> AbstractContextManager[None]:
        """Inside, no other worker of this sweep claims, takes over or makes trials."""
        if self.local:
            return locked(self._lock_file())
        return locked_on_server(self.storage.engine, self.definition.name)

    def _begin(self) -> None:
        """Whoever comes first makes the trials; all others find them made."""
        with self._turn():
            self._check_identity()
            self._fill()

    def _open_storage(self) -> Any:
        storages, place = self.optuna.storages, self.definition.storage
        self.folder.mkdir(parents=True, exist_ok=True)
        if place == "journal":
            from optuna.storages.journal import JournalFileBackend

            return storages.JournalStorage(JournalFileBackend(str(self.folder / "journal.log")))
        if place == "sqlite":
            path = self.folder.resolve() / "study.db"
            own = {"creator": lambda: _connected(path)}
            return self._patiently(lambda: storages.RDBStorage(f"sqlite:///{path}", engine_kwargs=own))
        url = place
        options = {"connect_args": {"timeout": 100}} if url.startswith("sqlite") else {"pool_pre_ping": True}
        return self._patiently(lambda: storages.RDBStorage(url, engine_kwargs=options))

    def _patiently(self, action: Any) -> Any:
        """Tables that another machine makes at the same moment are there a second later."""
        for attempt in range(4):
            try:
                return action()
            except ConfigError:
                raise
            except Exception as error:  # every driver has errors of its own
                if isinstance(error, ImportError):
                    driver = f"the database needs a driver: {error}. {pip_command('sweep')}"
                    raise ConfigError(driver) from None
                if attempt == 3 or type(error).__name__ == "ArgumentError":
                    first = (str(error).splitlines() or [type(error).__name__])[0][:200]
                    raise DataError(f"the sweep's storage does not answer: {scrub(first)}") from error
                time.sleep(0.5 * 2**attempt)

    def _open_study(self) -> Any:
        return self.optuna.create_study(
            study_name=self.definition.name, storage=self.storage, sampler=self._sampler(0),
            pruner=self._pruner(), direction=self.definition.direction, load_if_exists=True,
        )  # fmt: skip

    def _check_identity(self) -> None:
        mine, theirs = self.definition.identity(), self.study.user_attrs.get("identity")
        if theirs is None:
            self.study.set_user_attr("identity", mine)
        elif mine != theirs:
            changed = [key for key in mine if mine[key] != theirs.get(key)]
            raise ConfigError(
                f"sweep '{self.definition.name}' was begun with another {', '.join(changed)}\n"
                "continue with the old YAML, or give the new one another --name"
            )

    def _fill(self) -> None:
        """A waiting trial for every slot that has none: at the beginning, or when more trials are asked for."""
        there = {trial.user_attrs.get("slot") for trial in self.study.get_trials(deepcopy=False)}
        points = self.definition.points
        for slot in range(self.definition.trials):
            if slot not in there:
                fixed = {} if points is None else {key: encode(value) for key, value in points[slot].items()}
                self.study.enqueue_trial(fixed, user_attrs={"slot": slot})

    def _sampler(self, number: int) -> Any:
        """Seeded by the trial's number: a resumed sweep does not draw the same values again."""
        options = dict(self.definition.sampler)
        seed = (int(options.get("seed", 0)) * 1_000_003 + number) % 2**31
        if self.definition.points is not None or options["name"] == "random":
            return self.optuna.samplers.RandomSampler(seed=seed)
        return self.optuna.samplers.TPESampler(
            n_startup_trials=int(options.get("n_startup_trials", 10)),
            n_ei_candidates=int(options.get("n_ei_candidates", 24)), seed=seed, constant_liar=True,
        )  # fmt: skip

    def _pruner(self) -> Any:
        pruners, options = self.optuna.pruners, self.definition.pruner
        if options["name"] == "median":
            return pruners.MedianPruner(
                n_startup_trials=int(options.get("n_startup_trials", 5)),
                n_warmup_steps=int(options.get("n_warmup_steps", 0)),
            )
        if options["name"] == "hyperband":
            return pruners.HyperbandPruner(
                min_resource=max(1, int(options.get("min_resource", 1))),
                max_resource=int(options["max_resource"]) if "max_resource" in options else "auto",
                reduction_factor=max(2, int(options.get("reduction_factor", 3))),
            )
        return pruners.NopPruner()

    def _trials(self, *states: str) -> list[Any]:
        """Trials of this sweep in order of their slots; of two with one slot only the older counts."""
        trials: dict[int, Any] = {}
        for trial in self.study.get_trials(deepcopy=False):
            slot = trial.user_attrs.get("slot")
            if isinstance(slot, int) and slot < self.definition.trials:
                trials.setdefault(slot, trial)
        return [t for _, t in sorted(trials.items()) if not states or t.state.name.lower() in states]

    def claim(self) -> SweepTrial | None:
        """The next trial that nobody works on, now ours; None if there is none."""
        running = self.optuna.trial.TrialState.RUNNING
        with self._turn():
            self._recover()
            for frozen in self._trials("waiting"):
                try:
                    if not self.storage.set_trial_state_values(frozen._trial_id, state=running):
                        continue
                except self.optuna.exceptions.UpdateFinishedTrialError:
                    continue
                self.storage.set_trial_user_attr(frozen._trial_id, "owner", myself())
                self.study.sampler = self._sampler(frozen.number)
                handle = self.optuna.trial.Trial(self.study, frozen._trial_id)
                params = {key: parameter.suggest(handle) for key, parameter in self.definition.space.items()}
                return SweepTrial(
                    int(frozen.user_attrs["slot"]), params, handle, len(frozen.intermediate_values)
                )
        return None

    def _recover(self) -> None:
        """Puts trials whose worker is gone back among those that wait."""
        waiting = self.optuna.trial.TrialState.WAITING
        for frozen in self._trials("running"):
            owner = frozen.user_attrs.get("owner")
            if not same(owner, self._me) and lost(owner):
                self.storage.set_trial_state_values(frozen._trial_id, state=waiting)

    def beat(self, trial: SweepTrial) -> None:
        """A sign of life, for other machines."""
        trial.handle.set_user_attr("owner", myself())

    def release(self, trial: SweepTrial) -> None:
        """Leaves a trial for whoever resumes the sweep; its runs have saved where they are."""
        with self._turn():
            self.storage.set_trial_state_values(
                trial.handle._trial_id, state=self.optuna.trial.TrialState.WAITING
            )

    def finish(
        self, trial: SweepTrial, state: str, score: float | None = None, about: dict[str, Any] | None = None,
        violations: dict[str, float] | None = None,
    ) -> bool:  # fmt: skip
        """Writes a trial's end down; False if somebody else had taken it over."""
        try:
            for key, value in (about or {}).items():
                trial.handle.set_user_attr(key, value)
            for name, amount in (violations or {}).items():
                trial.handle.set_constraint(name, amount)
            state_ = self.optuna.trial.TrialState[state.upper()]
            self.study.tell(trial.handle, score if state == "complete" else None, state=state_)
        except (ValueError, self.optuna.exceptions.UpdateFinishedTrialError):
            return False
        return True

    def rows(self) -> list[TrialRow]:
        """All trials of the sweep, in order."""
        return [self._row(frozen) for frozen in self._trials()]

    def _row(self, frozen: Any) -> TrialRow:
        started, ended = frozen.datetime_start, frozen.datetime_complete
        state = frozen.state.name.lower()
        return TrialRow(
            slot=int(frozen.user_attrs["slot"]),
            state=state,
            params={key: decode(value) for key, value in frozen.params.items()},
            score=frozen.value if state == "complete" else None,
            feasible=all(amount <= 0 for amount in frozen.constraints.values()),
            about={k: v for k, v in frozen.user_attrs.items() if k not in ("slot", "owner")},
            seconds=(ended - started).total_seconds() if started and ended else None,
        )


def _connected(path: Path) -> sqlite3.Connection:
    """A write-ahead log: a twentieth of the disk syncs, and whole after a kill."""
    connection = sqlite3.connect(path, timeout=100, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    return connection
