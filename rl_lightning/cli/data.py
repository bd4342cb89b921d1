"""`rl data` and its verbs."""

from __future__ import annotations

from pathlib import Path

from rl_lightning.cli.flags import ParsedArgs, parse
from rl_lightning.cli.outputs import terminal_edge
from rl_lightning.errors import ConfigError, DataError
from rl_lightning.runs.store.names import did_you_mean


def data(words: list[str]) -> int:
    """recorded data: list, info, check, make, convert, get, publish

    usage: rl data list | info | check | make | convert | get | publish ...

    Recorded experience, by name: d4rl/hopper-medium-v2, minari/mujoco/hopper/medium-v0, local/hopper-medium, or a path
    of an .hdf5, .npz or .pt file. Data live in $RL_DATA_DIR (rl data list says where); D4RL's own folder is looked in,
    too.

      rl data list                            what is there: rows, episodes, mean return, MB
      rl data info local/hopper-medium        shapes, metadata, reference returns, checksum
      rl data check d4rl/hopper-medium-v2     episodes, returns, ends, NaNs, jumps, shifted next rows, actions, rule
      rl data make local/hopper-medium --rows 100000
      rl data make local/hopper-medium-replay --run sac-hopper-1
      rl data convert old.npz new.hdf5        also from .json, and from .pkl that holds nothing but plain arrays
      rl data get d4rl/hopper-medium-v2       downloads; nothing else here ever does
      rl data publish sac-hopper-1 --level medium

    levels of make: random, medium, expert, medium-expert, medium-replay; -narrow (little noise) and -sparse (few rows
    of high reward) may follow. Envs: hopper, halfcheetah, walker2d, pendulum; others with --env.

      --format text|json      of list and info
      --all                   list: also what can be fetched
      --rows N                make: rows to record (default 100000, narrow 30000; of a replay: all)
      --seed N                make: (default 0)
      --run RUN               make: record from a run, or take its replay where the name says replay
      --checkpoint NAME       make, publish: best, last or step-N (default best; of a replay: last)
      --env ID                make: the env, where the name does not say it; convert: of the data, with its bounds
      --import PACKAGE        make, convert, publish: a package of yours that the env or the run needs
      --num_envs N            make: envs that play at a time
      --greedy                make: the policy's mode instead of samples
      --force                 make: replace a data set of that name
      --drop_nonfinite              convert: leave out rows with NaN, infinite or far-off numbers
      --max_episode_steps N   convert: time limit of a file that does not say where episodes were cut
      --action_low X[,X...]   convert: with --action_high, the bounds that are mapped onto [-1, 1], one per dimension
      --action_high X
      --url URL               get: another server
      --level NAME            publish: what the policy is called
      --output FILE           publish: (default <data folder>/policies/<env>-<level>.safetensors)
      --episodes N            publish: played to measure its return (default 20)
    """
    actions = {
        "list": _list, "info": _info, "check": _check, "make": _make, "convert": _convert, "get": _get,
        "publish": _publish,
    }  # fmt: skip
    if not words or words[0] not in actions:
        wrong = f"rl data has no '{words[0]}'" if words else "rl data what?"
        hint = (did_you_mean(words[0], actions) if words else "") or f"; one of: {', '.join(actions)}"
        raise ConfigError(f"{wrong}{hint}")
    return actions[words[0]](words[1:])


def _list(words: list[str]) -> int:
    parsed = parse(words, takes=("format",), switches=("all",), command="data")
    form = _format(parsed)
    from rl_lightning.analysis.dataset_tables import list_datasets

    print(list_datasets(form, parsed.has("all"), terminal_edge()))
    return 0


def _info(words: list[str]) -> int:
    parsed = parse(words, takes=("format",), command="data")
    name, form = _one(parsed, "info"), _format(parsed)
    from rl_lightning.analysis.dataset_tables import describe_dataset

    print(describe_dataset(name, form))
    return 0


def _check(words: list[str]) -> int:
    name = _one(parse(words, command="data"), "check")
    from rl_lightning.analysis.dataset_tables import check_dataset

    text, sound = check_dataset(name)
    print(text)
    return 0 if sound else DataError.exit_code


def _convert(words: list[str]) -> int:
    takes = ("action_low", "action_high", "env", "max_episode_steps", "import")
    parsed = parse(words, takes=takes, switches=("drop_nonfinite",), command="data")
    if len(parsed.words) != 2:
        raise ConfigError("rl data convert needs two files: rl data convert OLD.npz NEW.hdf5")
    low, high = (parsed.numbers(key, []) for key in ("action_low", "action_high"))
    if bool(low) != bool(high):
        raise ConfigError("--action_low and --action_high belong together")
    limit = parsed.number("max_episode_steps")
    if limit is not None and (limit < 1 or limit != int(limit)):
        raise ConfigError(f"--max_episode_steps is {limit:g}; it must be a whole number above 0")
    _import(parsed)
    from rl_lightning.datasets.formats.convert import convert

    path, rows, dropped = convert(
        parsed.words[0],
        Path(parsed.words[1]).expanduser(),
        (low, high) if low else None,
        parsed.has("drop_nonfinite"),
        parsed.get("env"),
        None if limit is None else int(limit),
    )
    print(f"{rows} rows -> {path}" + (f" ({dropped} bad rows left out)" if dropped else ""))
    return 0


def _get(words: list[str]) -> int:
    parsed = parse(words, takes=("url",), command="data")
    name = _one(parsed, "get")
    from rl_lightning.datasets.download import get_dataset
    from rl_lightning.runs.recording.bar import Bar

    print(get_dataset(name, parsed.get("url"), Bar("MB", 1e6), lambda text: print(text, flush=True)))
    return 0


def _make(words: list[str]) -> int:
    parsed = parse(
        words,
        takes=("rows", "seed", "run", "checkpoint", "env", "num_envs", "import"),
        switches=("greedy", "force"),
        command="data",
    )
    if len(parsed.words) != 1 or not parsed.words[0].startswith("local/"):
        raise ConfigError("rl data make needs a name of your own below local/, e.g. local/hopper-medium")
    _import(parsed)
    from rl_lightning.runs.recording.record_dataset import DatasetRequest, described, record_dataset

    wanted = DatasetRequest(
        name=parsed.words[0],
        rows=parsed.integer("rows", 0) or None,
        seed=parsed.integer("seed", 0, least=0),
        run=parsed.get("run"),
        checkpoint=parsed.get("checkpoint"),
        env=parsed.get("env"),
        num_envs=parsed.integer("num_envs", 0) or None,
        greedy=parsed.has("greedy"),
        force=parsed.has("force"),
        command=" ".join(parsed.raw),
        imports=tuple(parsed.all("import")),
    )
    print(described(wanted.name, *record_dataset(wanted)))
    return 0


def _publish(words: list[str]) -> int:
    parsed = parse(words, takes=("level", "output", "checkpoint", "episodes", "import"), command="data")
    if len(parsed.words) != 1 or not parsed.get("level"):
        raise ConfigError("rl data publish needs a run and a level: rl data publish RUN --level medium")
    from rl_lightning.runs.recording.publish_policy import PUBLISH_EPISODES, publish_policy, published_text

    path, about = publish_policy(
        parsed.words[0],
        str(parsed.get("level")),
        parsed.get("output"),
        parsed.get("checkpoint") or "best",
        parsed.integer("episodes", PUBLISH_EPISODES),
        tuple(parsed.all("import")),
    )
    print(published_text(path, about))
    return 0


def _import(parsed: ParsedArgs) -> None:
    """Packages of the user's, which register envs of their own."""
    if parsed.all("import"):
        from rl_lightning.runs.config.parsing import import_packages

        import_packages(parsed.request(verb="data"))


def _one(parsed: ParsedArgs, command: str) -> str:
    if len(parsed.words) != 1:
        raise ConfigError(f"rl data {command} needs one data set; see them with: rl data list")
    return parsed.words[0]


def _format(parsed: ParsedArgs) -> str:
    form = parsed.get("format") or "text"
    if form not in ("text", "json"):
        raise ConfigError(f"--format takes text or json, not '{form}'")
    return form
