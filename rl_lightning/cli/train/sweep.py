"""`rl sweep`."""

from __future__ import annotations

import math

from rl_lightning.cli.flags import ParsedArgs, check_whole, normalize, parse, seed_list
from rl_lightning.cli.outputs import terminal_edge
from rl_lightning.errors import ConfigError
from rl_lightning.runs.config import yaml_io

TAKES = (
    "config", "name", "trials", "jobs", "storage", "launcher", "launcher_options", "import", "hours", "export_best",
)  # fmt: skip


def sweep(words: list[str]) -> int:
    """many settings of one config, by grid or Optuna

    usage: rl sweep --config NAME|FILE [options]

    Trains one config with many settings: all points of a grid, or settings that Optuna draws. Ctrl-C saves, and the
    same command continues; several processes or machines may work on one sweep. Writes best.yaml, an ordinary config.
    What varies stands in a file of its own, or is typed beside an ordinary config.

      rl sweep --config sweep/ppo-cartpole
      rl sweep --config sweep/ppo-cartpole-optuna --trials 50 --jobs 2
      rl sweep --config sac/pendulum --grid.model.lr 1e-4,3e-4 --seeds 0-2 --env_steps 20000

      --grid.KEY A,B          values of a key; with several keys all combinations
      --space.KEY MAP         what Optuna draws a key from, e.g. '{type: log_uniform, low: 1e-5, high: 1e-2}'
      --seeds 0-4 | 1,2,5     of each setting, which is judged by their mean
      --KEY.SUBKEY VALUE      any field of the config, the same in all trainings: --model.gamma 0.98, --env_steps 20000
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
    varied, words = take_varied(normalize(words))
    parsed = parse(words, (*TAKES, "seeds"), ("list", "no_plots", "dry_run"), config=True, command="sweep")
    if parsed.has("list"):
        from rl_lightning.sweep.list_sweeps import list_sweeps

        print(list_sweeps(terminal_edge()))
        return 0
    from rl_lightning.sweep.run_sweep import describe, launch_sweep, run_sweep
    from rl_lightning.sweep.sweep_config import SweepOptions, read_sweep

    names = [*parsed.words, *parsed.all("config")]
    if not names:
        raise ConfigError("rl sweep takes a config: rl sweep --config sweep/ppo-cartpole")
    options = SweepOptions(
        config=names[0],
        overlays=names[1:],
        typed=varied | _fixed(parsed),
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


def take_varied(words: list[str]) -> tuple[dict[str, dict[str, object]], list[str]]:
    """What --grid.KEY and --space.KEY say, and the other words."""
    varied: dict[str, dict[str, object]] = {}
    rest: list[str] = []
    queue = list(words)
    while queue:
        word = queue.pop(0)
        kind, _, key = word.removeprefix("--").partition("=")[0].partition(".")
        if word.startswith("--sweep."):
            raise ConfigError(f"--sweep.{key}: what varies is written --grid.{key} A,B")
        if not word.startswith(("--grid.", "--space.")):
            rest.append(word)
            continue
        flag, equals, text = word.partition("=")
        if not equals:
            if not queue or queue[0].startswith("--"):
                raise ConfigError(f"{flag} needs a value, e.g. {flag} 1e-4,3e-4")
            text = queue.pop(0)
            check_whole(flag[2:], text, queue)
        listed = kind == "grid" and not text.startswith("[")
        varied.setdefault(kind, {})[key] = yaml_io.loads(f"[{text}]" if listed else text, flag)
    return varied, rest


def _fixed(parsed: ParsedArgs) -> dict[str, object]:
    """Seeds, and the settings of all trainings."""
    flags = [flag[2:].partition("=") for flag in parsed.config_flags]
    values: dict[str, object] = {key: yaml_io.loads(text, key) for key, _, text in flags}
    values |= parsed.options
    fixed: dict[str, object] = {"overrides": values} if values else {}
    seeds = parsed.get("seeds")
    return fixed | ({"seeds": seed_list(seeds)} if seeds else {})


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
