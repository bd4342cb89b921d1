"""`rl reproduce RUN`: runs it again and names the first metric that differs."""

from __future__ import annotations

from rl_lightning.cli.compose import compose
from rl_lightning.cli.fit import check_imports, parse_config, start_record
from rl_lightning.cli.flags import parse
from rl_lightning.errors import ConfigError
from rl_lightning.experiments.reproduce import circumstances, first_difference
from rl_lightning.experiments.runs import claim, redact, resolve


def reproduce(words: list[str]) -> int:
    parsed = parse(words, ("env_steps", "updates", "import"), (), command="reproduce")
    if len(parsed.words) != 1:
        raise ConfigError("rl reproduce takes one run; see them with: rl list")
    run = resolve(parsed.words[0])
    record, metrics = run.read(), run.folder / "metrics.csv"
    check_imports(record, parsed)
    config = compose([str(run.config_file)])
    if "stages" in config:
        stages = ", ".join(f"rl reproduce {run.name}/{stage['name']}" for stage in config["stages"])
        raise ConfigError(f"'{run.name}' is a pipeline; reproduce its stages one by one: {stages}")
    if not metrics.is_file():
        raise ConfigError(f"run '{run.name}' has no metrics to compare with")
    from rl_lightning.pipeline.moved import at_home

    if config.get("threads") is None and record.get("threads"):
        config["threads"] = record["threads"]  # another number of threads rounds differently
    cli = parse_config(at_home(config, run.folder), parsed)
    from rl_lightning.callbacks.control import StopAt
    from rl_lightning.cli.training import Training

    again = claim(None, f"{run.name}-again")
    start_record(again, cli, cli.plain(), parsed)
    cli.build()
    training = Training(cli, again, redact(cli.plain()))
    stop = parsed.integer("env_steps", 0) or parsed.integer("updates", 0)
    reached = max(int(record.get("env_step") or 0), int(record.get("update") or 0))
    training.trainer.callbacks.insert(0, StopAt(stop or reached))  # type: ignore[attr-defined]
    code = training.fit()
    if code:
        return code
    now = cli.datamodule.schedule.now
    below = now if now < reached else None
    difference, rows = first_difference(metrics, again.folder / "metrics.csv", below)
    played, episodes = first_difference(run.folder / "eval.jsonl", again.folder / "eval.jsonl", below)
    if difference is None and played is None:
        print(
            f"'{run.name}' was reproduced: no metric differs in {rows} rows, no result in {episodes} episodes"
        )
        return 0
    first = difference if difference is not None else played
    assert first is not None
    print(f"'{run.name}' was not reproduced: {first}; {first.row} rows before it are equal")
    for line in circumstances(record, again.read()):
        print(f"  {line}")
    return 1
