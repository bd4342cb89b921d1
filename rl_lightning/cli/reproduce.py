"""`rl reproduce RUN`: runs it again and names the first metric that differs."""

from __future__ import annotations

from rl_lightning.cli.compose import compose
from rl_lightning.cli.fit import check_imports, parse_config, start_record
from rl_lightning.cli.flags import parse
from rl_lightning.errors import ConfigError
from rl_lightning.experiments.reproduce import first_difference
from rl_lightning.experiments.runs import claim, redact, resolve


def reproduce(words: list[str]) -> int:
    parsed = parse(words, ("env_steps", "import"), (), command="reproduce")
    if len(parsed.words) != 1:
        raise ConfigError("rl reproduce takes one run; see them with: rl list")
    run = resolve(parsed.words[0])
    record, metrics = run.read(), run.folder / "metrics.csv"
    check_imports(record, parsed)
    config = compose([str(run.config_file)])
    if "stages" in config:
        raise ConfigError(
            f"'{run.name}' is a pipeline; reproduce its stages one by one, e.g. {run.folder}/<stage>"
        )
    if not metrics.is_file():
        raise ConfigError(f"run '{run.name}' has no metrics to compare with")
    if config.get("threads") is None and record.get("threads"):
        config["threads"] = record["threads"]  # another number of threads rounds differently
    cli = parse_config(config, parsed)
    from rl_lightning.callbacks.control import StopAt
    from rl_lightning.cli.training import Training

    again = claim(None, f"{run.name}-again")
    start_record(again, cli, cli.plain(), parsed)
    cli.build()
    training = Training(cli, again, redact(cli.plain()))
    stop = parsed.integer("env_steps", 0)
    reached = max(int(record.get("env_step") or 0), int(record.get("update") or 0))
    training.trainer.callbacks.insert(0, StopAt(stop or reached))  # type: ignore[attr-defined]
    code = training.fit()
    if code:
        return code
    difference, rows = first_difference(metrics, again.folder / "metrics.csv")
    if difference is None:
        print(f"'{run.name}' was reproduced: no metric differs in {rows} rows")
        return 0
    print(f"'{run.name}' was not reproduced: {difference}; {difference.row} rows before it are equal")
    return 1
