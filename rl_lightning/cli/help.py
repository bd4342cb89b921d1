"""What --help prints. Options of classes come from their source, so that nothing has to be imported."""

from __future__ import annotations

import shutil
import textwrap

from rl_lightning.cli.desk_help import TEXTS as DESK

OVERVIEW = """\
rl: train, evaluate and look after reinforcement learning runs

usage: rl COMMAND [options]

  fit        train              rl fit --config ppo/cartpole
  resume     go on with a run   rl resume ppo-cartpole-1
  reproduce  run it again, name the first metric that differs
  validate   evaluate as in training
  test       evaluate the best checkpoint on fresh seeds
  predict    write a run's actions to .npz
  play       episodes, statistics and an mp4
  plot       learning curve as PNG and in the terminal
  list       runs, or: rl list groups | pipelines | configs | algorithms | envs
  show       one run: scores, what differs from its config, checkpoints, how to go on
  compare    runs or groups of seeds side by side, with intervals; --plot draws them
  export     the same as LaTeX, CSV, JSON or Markdown; or a policy as ONNX
  report     the same as one page to send, with curves, videos and configs
  cleanup    make room: drop checkpoints of runs that are neither good nor recent
  data       recorded data: list, info, check, make, convert, get, publish
  sweep      many settings of one config, by grid or Optuna
  watch      a run's curve and status while it trains
  tensorboard   on 127.0.0.1
  doctor     what is installed, what does not fit, and the line that repairs it

rl COMMAND --help says more. Options may be written with - or _. Runs live in ./lightning_logs (or $RL_LOGS).
Exit codes: 0 done, 1 our bug, 2 usage or config, 3 data, 4 checkpoint, 5 diverged, 6 environment,
130 Ctrl-C, 143 SIGTERM."""

_CONFIG = """
options for the config, laid over it in this order:
  --config NAME|FILE      a shipped name (rl list configs) or a YAML file; several overlay left to right
  --KEY.SUBKEY VALUE      any field: --model.lr 3e-4, --data.num_envs 16, --data.env.id Acrobot-v1
  --model CLASS           another class; it forgets the arguments of the old one (data keep their env)
  --import PACKAGE        import a package of yours from here; its classes may then be named (repeatable)
"""

FIT = (
    """\
usage: rl fit --config NAME [options]

Trains. One folder per run; Ctrl-C saves; `rl resume` goes on.

  rl fit --config ppo/cartpole
  rl fit --config ppo/cartpole --config network/gru --model.lr 3e-4 --name gru
  rl fit --config sac/hopper --seeds 0-4 --jobs 2
"""
    + _CONFIG
    + """
options of the command:
  --seeds 0-4 | 1,2,5     one run per seed, as a group; mean and interval at the end
  --jobs N                how many of them at a time (default 1)
  --debug                 some 200 steps with tiny sizes, anomaly detection and checks; full tracebacks
  --dry_run               resolved config, shapes, memory, parameters, and the time from a probe of seconds
  --print_config          the resolved config as YAML; trains nothing
  --render human          watch it, where there is a display
  --ckpt_path RUN|PATH    start from a checkpoint, a product or a run
  --resume_mode MODE      exact (default), warm_start (weights), warm_start_optimizer (weights and optimizers)
  --from STAGE            of a pipeline: do this stage and those after it again
  --only STAGE            of a pipeline: this stage alone
  --stages.NAME.KEY VALUE of a pipeline: any field of one stage
  --seed_everything N     seed (default 0; short: --seed)
  --threads N             CPU threads for torch
"""
)

TEXTS = {
    "fit": FIT,
    "resume": """\
usage: rl resume RUN [--env_steps N] [options of rl fit]

Goes on with a run from its last checkpoint, in its own folder.

  rl resume ppo-cartpole-1 --env_steps 200000

  --checkpoint NAME       another checkpoint of the run, e.g. step-20000 (default last)
  --reset_lr              apply the config's learning rate instead of the checkpoint's
""",
    "reproduce": """\
usage: rl reproduce RUN [--env_steps N | --updates N]

Runs it again with the same config, seed and threads, and names the first metric or evaluation episode that differs, or
says that none does; if one does, also what else is different: versions, code, machine, data.

  rl reproduce ppo-cartpole-1 --env_steps 20000

  --env_steps N           stop there (default: where the run is now); --updates where that is the run's clock
""",
    "validate": """\
usage: rl validate RUN | --config NAME [options]

Evaluates a run's last checkpoint as training does (same seeds), or a config's untrained agent.

  rl validate ppo-cartpole-1 --episodes 50

  --checkpoint best|last|PATH   (default last)
  --episodes N                  (default: the run's eval_episodes)
"""
    + _CONFIG,
    "test": """\
usage: rl test RUN [options]

Evaluates a run's best checkpoint on 20 fresh seeds, none of which it was chosen by.

  rl test ppo-cartpole-1 --data.env.kwargs '{gravity: 12}'

  --checkpoint best|last|PATH   (default best)
  --episodes N                  (default 20)
  --noise                       also behind noisy sensors and actuators: a table of rates and scales
  --noise_rates 0.1,1  --noise_scales 0.01,0.05,0.1,0.3
"""
    + _CONFIG,
    "predict": """\
usage: rl predict RUN (--data FILE | --episodes N) [--output OUT.npz]

Writes the run's actions as evaluation plays them, in the env's own scale: for the array `obs` of an .npz file, for a
data set (local/hopper-medium, an .hdf5 file), or along episodes.

  rl predict ppo-cartpole-1 --data states.npz --output actions.npz
  rl predict ppo-cartpole-1 --episodes 5

  --checkpoint best|last|PATH   (default best)
  --output OUT.npz              (default <run>/predictions.npz)
""",
    "play": """\
usage: rl play RUN [options]

Plays a run's best checkpoint: mean, IQM and 95 % interval of the return; writes an mp4 of the first episode.

  rl play ppo-cartpole-1 --episodes 10
  rl play ppo-cartpole-1 --render human

  --checkpoint best|last|PATH   (default best)
  --episodes N                  (default 10)
  --seed N                      first seed of the episodes (default 1000)
  --render human                show it, where there is a display, instead of writing an mp4
  --output FILE.mp4             (default <run>/videos/play.mp4)
  --no_video                    statistics only
""",
    "plot": """\
usage: rl plot RUN... [options]

Learning curves of runs: a PNG, and the same in the terminal. The name of a group stands for all of its seeds.

  rl plot ppo-cartpole-1
  rl plot sac-hopper-1 sac-hopper-2 --metric train/q_loss --output q.png

  --metric NAME           (default eval/return)
  --output FILE.png       (default <run>/curve.png)
""",
    "data": """\
usage: rl data list | info | check | make | convert | get | publish ...

Recorded experience, by name: d4rl/hopper-medium-v2, minari/mujoco/hopper/medium-v0, local/hopper-medium, or a path of
an .hdf5, .npz or .pt file. Data live in $RL_DATA_DIR (rl data list says where); D4RL's own folder is looked in, too.

  rl data list                            what is there: rows, episodes, mean return, MB
  rl data info local/hopper-medium        shapes, metadata, reference returns, checksum
  rl data check d4rl/hopper-medium-v2     episodes, returns, ends, NaNs, jumps, shifted next observations, actions, rule
  rl data make local/hopper-medium --rows 100000
  rl data make local/hopper-medium-replay --run sac-hopper-1
  rl data convert old.npz new.hdf5        also from .json, and from .pkl that holds nothing but plain arrays
  rl data get d4rl/hopper-medium-v2       downloads; nothing else here ever does
  rl data publish sac-hopper-1 --level medium

levels of make: random, medium, expert, medium-expert, medium-replay; -narrow (little noise) and -sparse (few rows of
high reward) may follow. Envs: hopper, halfcheetah, walker2d, pendulum; others with --env.

  --format text|json      of list and info
  --all                   list: also what can be fetched
  --rows N                make: rows to record (default 100000, narrow 30000; of a replay: all)
  --seed N                make: (default 0)
  --run RUN               make: record from a run, or take its replay where the name says replay
  --checkpoint NAME       make, publish: best, last or step-N (default best; of a replay: last)
  --env ID                make: the env, where the name does not say it; convert: of the data, with its bounds
  --num_envs N            make: envs that play at a time
  --greedy                make: the policy's mode instead of samples
  --force                 make: replace a data set of that name
  --drop_bad              convert: leave out rows with NaN, infinite or far-off numbers
  --max_episode_steps N   convert: time limit of a file that does not say where episodes were cut
  --action_low X[,X...]   convert: with --action_high, the bounds that are mapped onto [-1, 1], one per dimension
  --action_high X
  --url URL               get: another server
  --level NAME            publish: what the policy is called
  --output FILE           publish: (default <data folder>/policies/<env>-<level>.safetensors)
  --episodes N            publish: played to measure its return (default 20)
""",
    "sweep": """\
usage: rl sweep --config NAME|FILE [options]

Trains one config with many settings: all points of a grid, or settings that Optuna draws. Ctrl-C saves, and the same
command goes on; several processes or machines may work on one sweep. Writes best.yaml, an ordinary config.

  rl sweep --config sweep/ppo-cartpole
  rl sweep --config sweep/ppo-cartpole-optuna --trials 50 --jobs 2

  --trials N              how many (Optuna; more than before goes on)
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
""",
    "watch": """\
usage: rl watch RUN [options]

A run while it trains: curve, clocks, speed, time left, alerts; a pipeline, a group of seeds or a sweep, too. Ctrl-C
ends the watching, not the run.

  rl watch ppo-cartpole-1
  rl watch ppo-cartpole-1 --metric train/loss

  --metric NAME           (default eval/return)
  --interval SECONDS      between two looks (default 2)
  --once                  look once
""",
    "tensorboard": """\
usage: rl tensorboard [RUN...] [--port N]

TensorBoard on 127.0.0.1, of some runs or of all.

  rl tensorboard
  rl tensorboard ppo-cartpole-1 --port 6007

  --port N                (default 6006)
""",
    "doctor": """\
usage: rl doctor [--deep]

Versions, device, cores, memory and extras, what is known not to fit together, and the line that repairs it.

  --deep      import, step and render an env of each suite (a minute)
""",
    **DESK,
}


def overview() -> str:
    return OVERVIEW


def command(name: str, words: list[str] | None = None) -> str:
    """Help of one command; for fit also the options of the run group and of the classes that are named."""
    text = TEXTS[name].rstrip()
    if name == "fit":
        text += "\n" + class_help("RunConfig", "run", note=" (each also without `run.`)")
        text += "\n" + class_help("LogConfig", "log")
        for key, path in _named_classes(words or []).items():
            text += "\n" + class_help(path, key)
        text += "\n\nOptions of an algorithm: rl list algorithms NAME, or rl fit --config NAME --help"
    return text


def class_help(path: str, prefix: str, note: str = "") -> str:
    """The options of one of our classes, as flags below `prefix`."""
    from rl_lightning.experiments import catalog

    entry = catalog.find(path) or catalog.classes("cli").get(path)
    if entry is None:
        return ""
    options = [option for option in catalog.all_options(entry) if option.name != "spec"]
    if not options:
        return ""
    width = max(70, min(shutil.get_terminal_size((110, 20)).columns, 130))
    lines = [f"\n--{prefix}.* of {entry.name}{note}: {entry.doc}"]
    for option in options:
        default = "required" if option.default is None else f"default {option.default}"
        head = f"  --{prefix}.{option.name}  "
        body = f"{option.doc} ({option.type}, {default})".strip()
        lines.append(textwrap.fill(body, width, initial_indent=head.ljust(28), subsequent_indent=" " * 28))
    return "\n".join(lines)


def _named_classes(words: list[str]) -> dict[str, str]:
    """The model and data class of the configs and flags on a command line."""
    from rl_lightning.cli.flags import parse
    from rl_lightning.cli.options import OWN_SWITCHES, OWN_VALUES
    from rl_lightning.runs.config.compose import compose

    words = [word for word in words if word not in ("-h", "--help")]
    parsed = parse(words, OWN_VALUES, OWN_SWITCHES, config=True, command="fit")
    config = compose([*parsed.words, *parsed.all("config")])
    found = {key: str(config[key].get("class_path", "")) for key in ("model", "data") if key in config}
    for flag in parsed.config_flags:
        key, _, value = flag[2:].partition("=")
        if key in ("model", "data", "model.class_path", "data.class_path"):
            found[key.split(".")[0]] = value
    return found
