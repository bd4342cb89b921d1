"""What `rl data get` can fetch by name: from where, in which order, and what is known of it beforehand."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rl_lightning.datasets.d4rl_files import D4RL_FILES, KNOWN
from rl_lightning.datasets.data_files import data_dir, ogbench_file
from rl_lightning.datasets.references import short_name
from rl_lightning.errors import DataError

D4RL_SERVER = "https://rail.eecs.berkeley.edu/datasets/offline_rl"
D4RL_MIRRORS = ("hub:imone/D4RL",)  # locomotion and AntMaze, by the same file names
OGBENCH_SERVER = "https://rail.eecs.berkeley.edu/datasets/ogbench"
HUB = "hub:"  # hub:USER/REPO/FILE, a file of a dataset repository
_HUB = re.compile(r"hub:([\w.-]+/[\w.-]+)(?:/(.+))?")


class RemoteFile(NamedTuple):
    """A file and the places that it is fetched from, tried in order."""

    name: str
    path: Path
    urls: tuple[str, ...]
    size: int | None = None
    sha256: str | None = None


def remote_file(name: str, url: str | None = None, mirrors: Sequence[str] = ()) -> RemoteFile:
    """What a name stands for.

    Args:
        name: `d4rl/...`, `ogbench/...`, or `hub:USER/REPO/FILE`.
        url: Another place of this very file, tried alone.
        mirrors: Servers with the same folders and file names, or hub:USER/REPO with the same file names; tried first.
    """
    folder, file, path, server, known_mirrors = _place(name)
    known = KNOWN.get(short_name(name)) if name.startswith("d4rl/") else None
    urls = (
        (url,)
        if url
        else tuple(_join(base, folder, file) for base in (*mirrors, server, *known_mirrors) if base)
    )
    for each in urls:
        check_url(each)
    return RemoteFile(name, path, urls, *(known or (None, None)))


def _place(name: str) -> tuple[str, str, Path, str, tuple[str, ...]]:
    """Folder and file on a server, place here, the server and its mirrors."""
    stem = short_name(name)
    if name.startswith("d4rl/") and stem in D4RL_FILES:
        folder, file = D4RL_FILES[stem]
        mirrors = D4RL_MIRRORS if folder.startswith(("gym_mujoco_v2", "ant_maze_v2")) else ()
        return folder, file, data_dir() / "d4rl" / file, D4RL_SERVER, mirrors
    if name.startswith("ogbench/") and re.fullmatch(r"ogbench/[a-z0-9-]+", name):
        file = ogbench_file(name)
        return "", file, data_dir() / "ogbench" / file, OGBENCH_SERVER, ()
    hub = _HUB.fullmatch(name)
    if hub is not None and hub[2] and ".." not in name:
        return "", hub[2], data_dir() / "hub" / hub[1] / hub[2], f"{HUB}{hub[1]}", ()
    raise DataError(f"'{name}' is none of the files that can be fetched. {_hint(name)}")


def _hint(name: str) -> str:
    if name.startswith("local/"):
        return f"Local data are recorded: rl data make {name}"
    return f"There are d4rl/{', d4rl/'.join(list(D4RL_FILES)[:3])} ... ; see: rl data list --all"


def _join(base: str, folder: str, file: str) -> str:
    parts = (
        (base.rstrip("/"), file) if base.startswith(HUB) or not folder else (base.rstrip("/"), folder, file)
    )
    return "/".join(parts)


def check_url(url: str) -> None:
    """Raises unless it is fetched by HTTP or from the Hub."""
    if url.startswith(HUB):
        if _HUB.fullmatch(url) is None or not hub_parts(url)[1]:
            raise DataError(f"{url}: a file of the Hub is hub:USER/REPO/FILE")
        return
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise DataError(f"{url}: only http and https are fetched, and hub:USER/REPO/FILE")


def hub_parts(url: str) -> tuple[str, str]:
    """Repository and file; the file is "" where the whole repository is meant."""
    match = _HUB.fullmatch(url)
    return (match[1], match[2] or "") if match else ("", "")
