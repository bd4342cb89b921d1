"""`rl sweep`."""

from __future__ import annotations

import math

from rl_lightning.cli.flags import ParsedArgs, parse
from rl_lightning.cli.outputs import terminal_edge
from rl_lightning.errors import ConfigError

TAKES = (
    "config", "name", "trials", "jobs", "storage", "launcher", "launcher_options", "import", "hours", "export_best",
)  # fmt: skip


def sweep(words: list[str]) -> int:
    """many settings of one config, by grid or Optuna

    usage: rl sweep --config NAME|FILE [options]

    Trains one config with many settings: all points of a grid, or settings that Optuna draws. Ctrl-C saves, and the
    same command continues; several processes or machines may work on one sweep. Writes best.yaml, an ordinary config.

      rl sweep --config sweep/ppo-cartpole
      rl sweep --config sweep/ppo-cartpole-optuna --trials 50 --jobs 2

      --trials N              how many (Optuna; more than before continues)
      --jobs N                trainings at a time in this process, or workers of a launcher
      --name NAME             of the sweep (default: its file's name)
      --storage URL           sqlite (default) and journal lie in the sweep's folder; or postgresql://..., mysql://...
      --launcher submitit     send the workers to a SLURM cluster
      --launcher_options MAP  any other option of submitit, e.g. '{slurm_setup: [module load cuda]}'
      --hours H               stop after so long; the same command goes on
      --export_best N         also best-2.yaml to best-N.yaml
      --import PACKAGE        as for rl fit
      --no_plots              draw nothing
      --dry_run               what would be trained; trains nothing
      --list                  the sweeps here
    """
    parsed = parse(words, TAKES, ("list", "no_plots", "dry_run"), command="sweep")
    if parsed.has("list"):
        from rl_lightning.sweep.list_sweeps import list_sweeps

        print(list_sweeps(terminal_edge()))
        return 0
    from rl_lightning.sweep.run_sweep import describe, launch_sweep, run_sweep
    from rl_lightning.sweep.sweep_config import SweepOptions, read_sweep

    names = [*parsed.words, *parsed.all("config")]
    if len(names) != 1:
        raise ConfigError("rl sweep takes one config: rl sweep --config sweep/ppo-cartpole")
    options = SweepOptions(
        config=names[0],
        name=parsed.get("name"),
        trials=parsed.integer("trials", 0) or None,
        jobs=parsed.integer("jobs", 0) or None,
        storage=parsed.get("storage"),
        launcher=_launcher(parsed),
        launcher_options=_launcher_options(parsed),
        imports=parsed.all("import"),
        hours=_hours(parsed),
        export_best=parsed.integer("export_best", 1),
        plots=not parsed.has("no_plots"),
    )
    definition = read_sweep(options)
    if parsed.has("dry_run"):
        print(describe(definition))
        return 0
    if options.launcher is not None:
        print(launch_sweep(definition, options))
        return 0
    return run_sweep(definition, options, lambda text: print(text, flush=True))


def _launcher(parsed: ParsedArgs) -> str | None:
    launcher = parsed.get("launcher")
    if launcher not in (None, "submitit"):
        raise ConfigError(f"--launcher takes submitit, not '{launcher}'")
    return launcher


def _launcher_options(parsed: ParsedArgs) -> dict[str, object]:
    if parsed.get("launcher") is None:
        return {}
    from rl_lightning.sweep.launcher import user_options

    return user_options(parsed.get("launcher_options"))


def _hours(parsed: ParsedArgs) -> float | None:
    text = parsed.get("hours")
    try:
        hours = None if text is None else float(text)
    except ValueError:
        hours = -1.0
    if hours is not None and not 0 < hours < math.inf:
        raise ConfigError(f"--hours takes a positive number, not '{text}'")
    return hours
