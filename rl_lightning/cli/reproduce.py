"""`rl reproduce RUN`: runs it again and names the first metric that differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rl_lightning.cli.flags import parse
from rl_lightning.errors import ConfigError
from rl_lightning.experiments.record import FIRST_CONFIG
from rl_lightning.experiments.reproduce import circumstances, continuations, first_difference, first_row
from rl_lightning.experiments.runs import Run, claim, resolve
from rl_lightning.redaction import redact
from rl_lightning.runs.config.compose import Config, compose
from rl_lightning.runs.config.parsing import check_imports, parse_config
from rl_lightning.runs.engine.folder import start_record

if TYPE_CHECKING:
    from rl_lightning.runs.config.build import RLCLI


class Span(NamedTuple):
    """How much of a run is made again, on its own clock.

    Args:
        clock: env_step or update.
        stop: Where the new run ends.
        reached: Where the old one did.
        continued: Where it went on with other settings first, and which; null if it never did.
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


def reproduce(words: list[str]) -> int:
    parsed = parse(words, ("env_steps", "updates", "import"), (), command="reproduce")
    if len(parsed.words) != 1:
        raise ConfigError("rl reproduce takes one run; see them with: rl list")
    wanted = max(parsed.integer("env_steps", 0), parsed.integer("updates", 0))
    run = resolve(parsed.words[0])
    record, request = run.read(), parsed.request()
    check_imports(record, request)
    cli = parse_config(settings(run, record), request)
    saved = cli.plain()
    cli.build()
    span = span_of(run, record, cli.datamodule.clock, wanted)
    if span.continued is not None:
        print(
            f"'{run.name}' was continued {span.continued[1]}: exact reproduction is to be expected up to there only, "
            "and it is made again up to there, with the settings it began with",
            flush=True,
        )
    again = claim(None, f"{run.name}-again")
    start_record(again, saved, request)
    code = train_until(cli, again, span.stop)
    return code or compare(run, again, record, span, cli.datamodule.schedule.now)


def settings(run: Run, record: dict[str, Any]) -> Config:
    """Those that the run began with."""
    first = run.folder / FIRST_CONFIG
    config = compose([str(first if record.get("resumes") and first.is_file() else run.config_file)])
    if "stages" in config:
        stages = ", ".join(f"rl reproduce {run.name}/{stage['name']}" for stage in config["stages"])
        raise ConfigError(f"'{run.name}' is a pipeline; reproduce its stages one by one: {stages}")
    if config.get("threads") is None and record.get("threads"):
        config["threads"] = record["threads"]  # another number of threads rounds differently
    from rl_lightning.pipeline.moved import at_home

    return at_home(config, run.folder)


def span_of(run: Run, record: dict[str, Any], clock: str, wanted: int) -> Span:
    """What can be compared: not past the first change of settings, and at least one row."""
    first = first_row(run.folder, clock)
    if first is None:
        raise ConfigError(f"run '{run.name}' has no metrics to compare with")
    reached = int(record.get(clock) or 0)
    stop, continued = wanted or reached, None
    changes = [int(item[clock]) for item in record.get("resumes") or []]
    if changes and min(changes) < (wanted or reached + 1):
        stop = min(changes)
        continued = (stop, continuations(record, clock)[changes.index(stop)])
    span = Span(clock, stop, reached, continued)
    below = span.below(stop)
    if below is not None and below <= first:
        hint = f"give --{clock}s {min(first + 1, reached)} or more"
        why = hint if continued is None else f"the run was continued before it, {continued[1]}"
        raise ConfigError(
            f"nothing to compare up to {clock} {below}: the first row of '{run.name}' is at {clock} {first}; {why}"
        )
    return span


def train_until(cli: RLCLI, again: Run, stop: int) -> int:
    from rl_lightning.callbacks.control import StopAt
    from rl_lightning.runs.engine.training import Training

    training = Training(cli, again, redact(cli.plain()))
    training.trainer.callbacks.insert(0, StopAt(stop))  # type: ignore[attr-defined]
    return training.fit()


def compare(run: Run, again: Run, record: dict[str, Any], span: Span, now: int) -> int:
    """Says whether the two are the same, as far as both go."""
    below = span.below(now)
    difference, rows = first_difference(
        run.folder / "metrics.csv", again.folder / "metrics.csv", span.clock, below
    )
    played, episodes = first_difference(
        run.folder / "eval.jsonl", again.folder / "eval.jsonl", span.clock, below
    )
    first = difference if difference is not None else played
    if first is not None:
        print(f"'{run.name}' was not reproduced: {first}; {first.row} rows before it are equal")
        for line in circumstances(record, again.read(), span.clock):
            print(f"  {line}")
        return 1
    if rows + episodes == 0:
        raise ConfigError(
            f"nothing was compared: '{again.name}' ended at {span.clock} {now}, before its first row"
        )
    part = "" if span.continued is None else f" up to {span.clock} {span.continued[0]}"
    print(
        f"'{run.name}' was reproduced{part}: no metric differs in {rows} rows, no result in {episodes} episodes"
    )
    return 0
