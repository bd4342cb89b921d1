"""`rl fit`."""

from __future__ import annotations

from rl_lightning.cli.flags import normalize, parse, seed_list
from rl_lightning.cli.options import OWN_SWITCHES, OWN_VALUES
from rl_lightning.cli.process import say_loading
from rl_lightning.errors import ConfigError
from rl_lightning.runs.config.compose import compose
from rl_lightning.runs.engine.fit import given_name, stem_of
from rl_lightning.runs.engine.folder import is_first
from rl_lightning.runs.fit_config import fit_config, show_config
from rl_lightning.runs.store.run_folder import fresh_name


def fit(words: list[str]) -> int:
    """train              rl fit --config ppo/cartpole

    usage: rl fit --config NAME [options]

    Trains. One folder per run; Ctrl-C saves; `rl resume` continues.

      rl fit --config ppo/cartpole
      rl fit --config ppo/cartpole --config network/gru --model.lr 3e-4 --name gru
      rl fit --config sac/hopper --seeds 0-4 --jobs 2
      rl fit --config gormpo --task d4rl/hopper-medium-v2    options of its own: rl fit --config gormpo --help

    [CONFIG]

    options of the command:
      --seeds 0-4 | 1,2,5     one run per seed, as a group; mean and interval at the end
      --jobs N                how many of them at a time (default 1)
      --debug                 seconds: tiny sizes and networks, anomaly detection, checks, trace, profile; tracebacks
      --dry_run               own settings, shapes, memory, parameters, and the time from a probe of seconds
      --print_config          the resolved config as YAML, what differs from the defaults first; trains nothing
      --render human          watch it, where there is a display
      --ckpt_path RUN|PATH    start from a checkpoint, an artifact or a run
      --resume_mode MODE      exact (default), warm_start (weights), warm_start_optimizer (weights and optimizers)
      --from STAGE            of a pipeline: do this stage and those after it again
      --only STAGE            of a pipeline: this stage alone
      --stages.NAME.KEY VALUE of a pipeline: any field of one stage
      --seed_everything N     seed (default 0; short: --seed)
      --threads N             CPU threads for torch
      --matmul default|fast   products on a CPU: torch's own, or oneDNN's (default auto: what is quicker and as exact)
    """
    parsed = parse(words, OWN_VALUES, OWN_SWITCHES, config=True, command="fit")
    names = parsed.configs
    if not names and not any(flag.startswith("--model") for flag in parsed.config_flags):
        raise ConfigError("nothing to train: rl fit --config NAME, e.g. ppo/cartpole; see: rl list configs")
    config, request = compose(names, parsed.options), parsed.request(small=parsed.has("debug"))
    say_loading(" + ".join(names) or "rl fit")
    if parsed.has("dry_run") or parsed.has("print_config"):
        return show_config(config, request, names, sizes=not parsed.has("print_config"))
    if parsed.get("seeds"):
        from rl_lightning.runs.engine.group import run_group

        name = given_name(request, config)
        seeds, jobs = seed_list(parsed.get("seeds") or ""), parsed.integer("jobs", 1)
        group = name or fresh_name(stem_of(names, config))
        code = run_group(normalize(words), group, seeds, jobs)
        if "stages" in config:
            show_stages(group)
        return code
    code, run = fit_config(config, request, names)
    if "stages" in config and code == 0:
        show_stages(str(run.folder))
    return code


def show_stages(name: str) -> None:
    """The table that a pipeline ends with; of a group of seeds, once all of them have ended."""
    from rl_lightning.analysis.report.stage_table import pipeline_text

    if is_first():
        print(pipeline_text(name), flush=True)
