"""From the name of a data set to its file: one data folder, and D4RL's own beside it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import NamedTuple

from rl_lightning.datasets.d4rl_files import D4RL_FILES
from rl_lightning.datasets.formats.run_replay import PREFIX as REPLAY_PREFIX
from rl_lightning.datasets.formats.run_replay import find_replay, is_run
from rl_lightning.datasets.references import short_name
from rl_lightning.errors import DataError
from rl_lightning.io.artifact_place import logs_root
from rl_lightning.io.nearness import nearest

READABLE = (".hdf5", ".h5", ".npz", ".pt", ".parquet", ".csv", ".npy")
CONVERTIBLE = (".json", ".jsonl", ".pkl", ".pickle")
FOLDER_MARKS = ("meta/info.json",)  # of data sets that are folders
# its families with oracles; the mazes were played by trained agents
OGBENCH_SCRIPTED = re.compile(r"(cube|scene|puzzle)(-.+)?-(play|noisy)-v\d+")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Source(NamedTuple):
    """Where a data set comes from."""

    kind: str  # d4rl, local, minari, ogbench, replay or file
    name: str  # as the user wrote it
    path: Path  # of the file; of minari the id


def data_dir() -> Path:
    """The one folder of data: RL_DATA_DIR, or the platform's place for them."""
    folder = os.environ.get("RL_DATA_DIR")
    if folder:
        return Path(folder).expanduser()
    if sys.platform == "darwin":
        base = Path("~/Library/Application Support").expanduser()
    elif os.name == "nt":
        base = Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local").expanduser()
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser()
    return base / "rl_lightning" / "data"


def d4rl_dir() -> Path:
    """Where the d4rl package keeps its files."""
    return Path(os.environ.get("D4RL_DATASET_DIR") or "~/.d4rl/datasets").expanduser()


def ogbench_file(name: str) -> str:
    """`cube-single-play-singletask-task2-v0` -> `cube-single-play-v0.npz`; a version may be left out."""
    stem = name.removeprefix("ogbench/")
    words = (stem if re.search(r"-v\d+$", stem) else f"{stem}-v0").split("-")
    return (
        "-".join(word for word in words if word != "singletask" and not re.fullmatch(r"task\d", word))
        + ".npz"
    )


def d4rl_file(name: str) -> str:
    """The file name of one of D4RL's data sets."""
    stem = short_name(name)
    return D4RL_FILES[stem][1] if stem in D4RL_FILES else _usual_file(stem)


def _usual_file(stem: str) -> str:
    first, _, rest = stem.partition("-")
    level, dash, version = rest.rpartition("-")
    return f"{first}_{level.replace('-', '_')}{dash}{version}.hdf5" if level else f"{stem}.hdf5"


def d4rl_places(name: str) -> list[Path]:
    """Where a D4RL file may lie, in the order it is looked for."""
    stem = short_name(name)
    files = dict.fromkeys((d4rl_file(name), _usual_file(stem), f"{stem}.hdf5"))
    folders = (data_dir() / "d4rl", data_dir(), d4rl_dir())
    return [folder / each for folder in folders for each in files]


def locate(name: str, missing_ok: bool = False) -> Source:
    """The source of a data set by its name or path; raises if it is not there, and says how to get it."""
    if not isinstance(name, str) or not name.strip() or "\0" in name:
        raise DataError(f"{name!r} is not a data set; see them with: rl data list")
    kind, slash, rest = name.partition("/")
    if slash and kind in ("d4rl", "local", "minari", "ogbench") and not Path(name).is_file():
        if not all(NAME.fullmatch(part) for part in rest.split("/")) or (kind != "minari" and "/" in rest):
            raise DataError(f"'{name}' is not the name of a data set; see them with: rl data list")
        return {"d4rl": _d4rl, "local": _local, "minari": _minari, "ogbench": _ogbench}[kind](
            name, rest, missing_ok
        )
    if name.startswith(REPLAY_PREFIX):
        return _replay(name)
    path = Path(name).expanduser()
    if path.is_dir() and is_run(path):
        return _replay(name)
    if path.is_dir():
        if not any((path / each).is_file() for each in FOLDER_MARKS) and not any(
            next(path.glob(f"*{suffix}"), None) for suffix in (".npz", ".npy", ".parquet", ".json", ".mp4")
        ):
            raise DataError(
                f"{name}: is a folder without a data set (LeRobot's meta/info.json, an .npz for each episode, an .mp4 "
                "and a table for each, an .npy for each array, RLlib's .json or .parquet); else a data set is one file "
                f"({', '.join(READABLE)}) or a name from rl data list"
            )
        return Source("file", name, path)
    if path.suffix.lower() in (*READABLE, *CONVERTIBLE) or path.is_file():
        if not path.is_file() and not missing_ok:
            raise DataError(f"{name}: no such file")
        return Source("file", name, path)
    raise DataError(f"no data set '{name}'{_nearest(name)}; see them with: rl data list")


def _d4rl(name: str, rest: str, missing_ok: bool) -> Source:
    places = d4rl_places(rest)
    existing = next((path for path in places if path.is_file()), None)
    if existing is None and not missing_ok:
        folders = f"{data_dir() / 'd4rl'} and {d4rl_dir()}"
        if short_name(rest) in D4RL_FILES:
            hint = f"Fetch it with: rl data get {name}"
        else:
            hint = f"Put {places[0].name} there{_nearest(name)}"
        raise DataError(
            f"{name}: no file {places[0].name} in {folders}.\n{hint}\n"
            "or keep it elsewhere and set RL_DATA_DIR or D4RL_DATASET_DIR"
        )
    return Source("d4rl", name, existing or places[0])


def ogbench_places(name: str) -> list[Path]:
    """Where a file of OGBench's may lie, in the order it is looked for."""
    return [folder / ogbench_file(name) for folder in (data_dir() / "ogbench", ogbench_dir())]


def ogbench_dir() -> Path:
    """Where the ogbench package keeps its files."""
    return Path("~/.ogbench/data").expanduser()


def _ogbench(name: str, rest: str, missing_ok: bool) -> Source:
    places = ogbench_places(rest)
    existing = next((path for path in places if path.is_file()), None)
    if existing is None and not missing_ok:
        folders = " and ".join(str(path.parent) for path in places)
        scripts = (
            f"\nor make it with OGBench's own scripts: rl data make ogbench/{places[0].stem} --episodes 1000"
        )
        raise DataError(
            f"{name}: no file {places[0].name} in {folders}.\nFetch it with: rl data get {name}"
            + (scripts if OGBENCH_SCRIPTED.fullmatch(places[0].stem) else "")
        )
    return Source("ogbench", name, existing or places[0])


def _local(name: str, rest: str, missing_ok: bool) -> Source:
    folder = data_dir() / "local"
    paths = [folder / f"{rest}{suffix}" for suffix in READABLE]
    path = next((each for each in paths if each.is_file()), None)
    if path is None and not missing_ok:
        raise DataError(f"{name}: not in {folder}.\n{_how_to_make(name)}{_nearest(name)}")
    return Source("local", name, path or paths[0])


def _how_to_make(name: str) -> str:
    from rl_lightning.datasets.local_recipes import parse_recipe

    try:
        parse_recipe(name)
    except DataError:
        return f"Make it from a run of yours, with: rl data make {name} --run RUN"
    return f"Make it with: rl data make {name}"


def _minari(name: str, rest: str, missing_ok: bool) -> Source:
    return Source("minari", name, Path(rest))


def _replay(name: str) -> Source:
    run = name.removeprefix(REPLAY_PREFIX)
    folder = find_replay(run)
    if folder is None:
        raise DataError(
            f"{name}: no saved checkpoint of a run '{run}', neither below {logs_root()} nor as a path; see runs with: "
            "rl list"
        )
    return Source("replay", name, folder)


def _nearest(name: str) -> str:
    names = [f"d4rl/{each}" for each in D4RL_FILES]
    names += [f"local/{path.stem}" for path in (data_dir() / "local").glob("*") if path.suffix in READABLE]
    close = nearest(name, names, 2)
    return f"; did you mean {' or '.join(repr(each) for each in close)}?" if close else ""
