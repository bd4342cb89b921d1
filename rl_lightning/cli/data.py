"""`rl data` and its verbs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rl_lightning.cli.flags import ParsedArgs, parse
from rl_lightning.cli.outputs import terminal_edge
from rl_lightning.errors import ConfigError, DataError
from rl_lightning.runs.store.names import did_you_mean


def data(words: list[str]) -> int:
    """recorded data: list, info, check, make, convert, get, publish

    usage: rl data VERB ...

      list [--all]                   what is there; --all: also what can be fetched
      info NAME                      shapes, metadata, reference returns, checksum
      check FILE                     which layout it has, what is missing, what that
                                     rules out, what is wrong
      make local/hopper-medium       plays a policy, or takes a run's replay
      make ogbench/cube-single-play  lets OGBench's scripted oracles act
      convert OLD NEW.hdf5           into what training reads; also JSON and pickles
      get d4rl/hopper-medium-v2      downloads, resumes, checks; nothing else does
      publish RUN --level medium     the run's actor, under 1 MB, for make

    Each has options of its own: rl data make --help

    NAME is d4rl/..., ogbench/..., minari/..., local/... (in $RL_DATA_DIR), or a
    path: .hdf5, .npz, .npy, .pt, .csv, .parquet, or a folder (LeRobot's, RLlib's,
    an .npz for each episode, an .npy for each array).

      rl data check demos.npz
      rl fit --config bc/hopper-medium --data.dataset demos.npz
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
    """usage: rl data list [--all] [--format text|json]

    What is in the data folder ($RL_DATA_DIR), in D4RL's own and in Minari's.

      --all       also what can be fetched by name
    """
    parsed = parse(words, takes=("format",), switches=("all",), command="data list")
    form = _format(parsed)
    from rl_lightning.analysis.dataset_tables import list_datasets

    print(list_datasets(form, parsed.has("all"), terminal_edge()))
    return 0


def _info(words: list[str]) -> int:
    """usage: rl data info NAME [--format text|json]

    Shapes, metadata, reference returns and checksum of a data set.
    """
    parsed = parse(words, takes=("format",), command="data info")
    name, form = _one(parsed, "info"), _format(parsed)
    from rl_lightning.analysis.dataset_tables import describe_dataset

    print(describe_dataset(name, form))
    return 0


def _check(words: list[str]) -> int:
    """usage: rl data check FILE

    Which layout a file has, what is missing and what that rules out; episodes,
    returns, ends, values, actions. Exit code 3 if something is wrong.
    """
    name = _one(parse(words, command="data check"), "check")
    from rl_lightning.analysis.dataset_tables import check_dataset

    text, sound = check_dataset(name)
    print(text)
    return 0 if sound else DataError.exit_code


def _convert(words: list[str]) -> int:
    """usage: rl data convert OLD NEW.hdf5 [options]

    Writes what training reads. OLD may also be JSON, or a pickle: arrays, numbers
    and containers are taken out of it by name, nothing in it is run.

      rl data convert dapg-door-v0.pickle door.hdf5
      rl data convert old.json new.hdf5 --env Pendulum-v1 --ends truncated

      --env ID               what it was recorded in: its bounds of actions
      --action_low X,..      the bounds themselves, one per dimension,
      --action_high X,..     which are mapped onto [-1, 1]
      --clip_actions         actions beyond the bounds, where the env clipped them
      --ends truncated|terminated   what its ends are, where nothing says so
      --max_episode_steps N  the time limit, where there are no timeouts
      --columns "observations=x,y actions=u rewards=r episode=trial"
                             of tables; of robomimic and LeRobot observations alone
      --mask NAME            the demonstrations of one of robomimic's masks
      --drop_nonfinite       without rows that have NaN, infinite or far-off numbers
      --import PACKAGE       of yours that registers the env
    """
    takes = ("action_low", "action_high", "env", "max_episode_steps", "ends", "columns", "mask", "import")
    parsed = parse(words, takes=takes, switches=("drop_nonfinite", "clip_actions"), command="data convert")
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
        _choice(parsed, "ends", ("truncated", "terminated"), None),
        parsed.has("clip_actions"),
        parsed.get("columns"),
        parsed.get("mask"),
    )
    print(f"{rows} rows -> {path}" + (f" ({dropped} bad rows left out)" if dropped else ""))
    return 0


def _get(words: list[str]) -> int:
    """usage: rl data get NAME [--mirror SERVER,...] [--url URL]

    NAME is d4rl/..., ogbench/..., minari/..., or hub:USER/REPO[/FILE]. Places are
    tried in order; a cut is resumed by the same command; size and sha256 are
    checked where they are known.

      rl data get d4rl/hopper-medium-v2 --mirror http://SERVER/offline_rl

      --mirror SERVER,...    tried first, with the same file names
      --url URL              another place of this very file, tried alone
    """
    parsed = parse(words, takes=("url", "mirror"), command="data get")
    name = _one(parsed, "get")
    from rl_lightning.datasets.remote_files import hub_parts

    if name.startswith("minari/"):
        from rl_lightning.datasets.formats.minari_reader import get_minari

        print(get_minari(name.removeprefix("minari/")))
        return 0
    if hub_parts(name)[0] and not hub_parts(name)[1]:
        from rl_lightning.datasets.hub_files import get_repository

        print(get_repository(name))
        return 0
    from rl_lightning.datasets.download import get_dataset
    from rl_lightning.runs.recording.bar import Bar

    mirrors = [each for each in (parsed.get("mirror") or "").split(",") if each]
    print(get_dataset(name, Bar("MB", 1e6), lambda text: print(text, flush=True), parsed.get("url"), mirrors))
    return 0


def _make(words: list[str]) -> int:
    """usage: rl data make local/ENV-LEVEL | ogbench/NAME [options]

    Records a data set. LEVEL is random, medium, expert, medium-expert,
    medium-replay; -narrow and -sparse may follow.

      rl data make local/hopper-medium --rows 100000
      rl data make local/mine --run sac-hopper-1 --checkpoint step-100000
      rl data make ogbench/cube-single-play --episodes 1000

      --rows N  --num_envs N  --seed N  --greedy
      --run RUN              that run's policy; of medium-replay its replay
      --checkpoint best|last|step-N
      --env ID               of a name of your own
      --episodes N           of OGBench's (1000); resumed where it stopped
      --force                replaces what is there
      --import PACKAGE       of yours that the env or the run needs
    """
    parsed = parse(
        words,
        takes=("rows", "seed", "run", "checkpoint", "env", "num_envs", "episodes", "import"),
        switches=("greedy", "force"),
        command="data make",
    )
    if len(parsed.words) == 1 and parsed.words[0].startswith("ogbench/"):
        return _make_ogbench(parsed)
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


def _make_ogbench(parsed: ParsedArgs) -> int:
    from rl_lightning.runs.recording.record_ogbench import EPISODES, record_ogbench

    seed, episodes = parsed.integer("seed", 0, least=0), parsed.integer("episodes", EPISODES)
    print(record_ogbench(parsed.words[0], episodes, seed, parsed.has("force")))
    return 0


def _publish(words: list[str]) -> int:
    """usage: rl data publish RUN --level NAME [options]

    The run's actor, under 1 MB, from which `rl data make` records.

      --level NAME           medium, expert or a word of yours
      --output FILE  --checkpoint best|last|step-N
      --episodes N           played to measure its return (20)
      --import PACKAGE       of yours that the run needs
    """
    parsed = parse(
        words, takes=("level", "output", "checkpoint", "episodes", "import"), command="data publish"
    )
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
    return _choice(parsed, "format", ("text", "json"), "text")


def _choice(parsed: ParsedArgs, key: str, values: tuple[str, ...], default: Any) -> Any:
    value = parsed.get(key) or default
    if value not in (*values, default):
        raise ConfigError(f"--{key} takes {' or '.join(values)}, not '{value}'")
    return value
