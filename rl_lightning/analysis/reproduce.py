"""`rl reproduce RUN`: runs it again and names the first metric that differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rl_lightning.analysis.run_differences import circumstances, continuations, first_difference, first_row
from rl_lightning.callbacks.run_controller import ClockLimit
from rl_lightning.errors import ConfigError
from rl_lightning.redaction import redact
from rl_lightning.runs.config.compose import Config, compose
from rl_lightning.runs.config.parsing import check_imports, parse_config
from rl_lightning.runs.engine.fit_session import FitSession
from rl_lightning.runs.engine.folder import start_record
from rl_lightning.runs.engine.run_start import RunStart, start_from
from rl_lightning.runs.pipeline.relocate_inputs import relocate_inputs
from rl_lightning.runs.request import Request
from rl_lightning.runs.store.artifact_hashes import check_artifacts
from rl_lightning.runs.store.names import slug
from rl_lightning.runs.store.run_folder import Run, claim
from rl_lightning.runs.store.run_record import FIRST_CONFIG

if TYPE_CHECKING:
    from rl_lightning.runs.config.build import RLCLI


class ReproducedSpan(NamedTuple):
    """How much of a run is made again, on its own clock.

    Args:
        clock: env_step or update.
        stop: Where the new run ends.
        reached: Where the old one did.
        continued: Where it was resumed with other settings first, and which; null if it never did.
    """

    clock: str
    stop: int
    reached: int
    continued: tuple[int, str] | None

    def below(self, now: int) -> int | None:
        """Rows before this are compared, given where the new run ended; null: all."""
        if self.continued is None and min(self.stop, now) >= self.reached:
            return None
        return min(self.stop, now)


class Reproduced(NamedTuple):
    """How it ended: an exit code, and what is to be said; null: what ended the training was said already."""

    code: int
    text: str | None


class Reproduction:
    """A run that is to be made again, with the settings it began with.

    Args:
        run: The run.
        request: Packages of the user's that its config may name.
        stop: Where the new run ends on the run's clock; 0: where the run is now.
    """

    def __init__(self, run: Run, request: Request, stop: int = 0) -> None:
        self.run, self.request, self.record = run, request, run.read()
        check_imports(self.record, request)
        self.cli: RLCLI = parse_config(settings(run, self.record), request)
        self.saved = self.cli.plain()
        self.start = start_of(run, self.record, self.cli)
        self.cli.build()
        self.span = span_of(run, self.record, self.cli.datamodule.clock_name, stop)

    @property
    def note(self) -> str:
        """How far it goes, and what can not be expected of it."""
        name = self.run.command_name
        if self.span.continued is None:
            return f"'{name}' is made again up to {self.span.clock} {self.span.stop}, where it is compared"
        return (
            f"'{name}' was continued {self.span.continued[1]}: exact reproduction is to be expected up to "
            f"there only, and it is made again up to there ({self.span.clock} {self.span.stop}), with the settings it "
            "began with"
        )

    def fit(self) -> Reproduced:
        """Trains again and compares."""
        again = claim(None, f"{slug(self.run.command_name)}-again")
        start_record(again, self.saved, self.request)
        training = FitSession(self.cli, again, redact(self.saved), start=self.start)
        training.trainer.callbacks.insert(0, ClockLimit(self.span.stop))  # type: ignore[attr-defined]
        code = training.fit()
        if code:
            return Reproduced(code, None)
        return compare_runs(self.run, again, self.record, self.span, self.cli.datamodule.clock.now)


def start_of(run: Run, record: dict[str, Any], cli: RLCLI) -> RunStart:
    """The weights that it began with: of the cycle before, or those that its config names; refused where they have
    changed since."""
    check_artifacts(record.get("artifacts"), cli.plain(), run.command_name)
    if before := record.get("warm_started_from"):
        return start_from(str(run.folder.parent / str(before) / "artifact"), "warm_start_optimizer")
    return start_from(cli.config.ckpt_path, cli.config.resume_mode)


def settings(run: Run, record: dict[str, Any]) -> Config:
    """Those that the run began with."""
    first = run.folder / FIRST_CONFIG
    config = compose([str(first if record.get("resumes") and first.is_file() else run.config_file)])
    if "stages" in config:
        stages = ", ".join(f"rl reproduce {run.command_name}/{stage['name']}" for stage in config["stages"])
        raise ConfigError(f"'{run.command_name}' is a pipeline; reproduce its stages one by one: {stages}")
    if config.get("threads") is None and record.get("threads"):
        config["threads"] = record["threads"]  # another number of threads rounds differently
    if choice := (record.get("matmul") or {}).get("choice"):
        config["matmul"] = choice  # and so does another library
    return relocate_inputs(config, run.folder)


def span_of(run: Run, record: dict[str, Any], clock: str, wanted: int) -> ReproducedSpan:
    """What can be compared: not past the first change of settings, and at least one row."""
    first = first_row(run.folder, clock)
    if first is None:
        raise ConfigError(f"run '{run.command_name}' has no metrics to compare with")
    reached = int(record.get(clock) or 0)
    stop, continued = wanted or reached, None
    changes = [int(item[clock]) for item in record.get("resumes") or []]
    if changes and min(changes) < (wanted or reached + 1):
        stop = min(changes)
        continued = (stop, continuations(record, clock)[changes.index(stop)])
    span = ReproducedSpan(clock, stop, reached, continued)
    below = span.below(stop)
    if below is not None and below <= first:
        hint = f"give --{clock}s {min(first + 1, reached)} or more"
        why = hint if continued is None else f"the run was continued before it, {continued[1]}"
        raise ConfigError(
            f"nothing to compare up to {clock} {below}: the first row of '{run.command_name}' is at {clock} {first}; "
            f"{why}"
        )
    return span


def compare_runs(run: Run, again: Run, record: dict[str, Any], span: ReproducedSpan, now: int) -> Reproduced:
    """Whether the two are the same, as far as both go."""
    below = span.below(now)
    difference, rows = first_difference(
        run.folder / "metrics.csv", again.folder / "metrics.csv", span.clock, below
    )
    played, episodes = first_difference(
        run.folder / "eval.jsonl", again.folder / "eval.jsonl", span.clock, below
    )
    first = difference if difference is not None else played
    if first is not None:
        head = f"'{run.command_name}' was not reproduced: {first}; {first.row} rows before it are equal"
        lines = [f"  {line}" for line in circumstances(record, again.read(), span.clock)]
        return Reproduced(1, "\n".join([head, *lines]))
    if rows + episodes == 0:
        raise ConfigError(
            f"nothing was compared: '{again.name}' ended at {span.clock} {now}, before its first row"
        )
    part = "" if span.continued is None else f" up to {span.clock} {span.continued[0]}"
    same = f"no metric differs in {rows} rows, no result in {episodes} episodes"
    return Reproduced(0, f"'{run.command_name}' was reproduced{part}: {same}")
