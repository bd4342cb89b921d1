"""Fetching D4RL's files: only when asked, into a temporary file, checked before it gets its name."""

from __future__ import annotations

import http.client
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path

from rl_lightning.datasets.data_files import D4RL_FILES, data_dir
from rl_lightning.datasets.formats.hdf5 import opened, read_columns
from rl_lightning.datasets.formats.raw import NEEDED, VALUED
from rl_lightning.datasets.load import file_digest
from rl_lightning.datasets.references import short_name
from rl_lightning.errors import DataError
from rl_lightning.io.atomic import atomic_path, write_text
from rl_lightning.io.text import file_size

SERVER = "https://rail.eecs.berkeley.edu/datasets/offline_rl"
CHUNK = 1 << 20
Progress = Callable[[int, int], None]  # bytes so far, bytes in all


def target_of(name: str) -> tuple[str, Path]:
    """URL and place of one of D4RL's data sets."""
    stem = short_name(name)
    if not name.startswith("d4rl/") or stem not in D4RL_FILES:
        if name.startswith("minari/"):
            hint = f"Minari fetches its own: minari download {name.removeprefix('minari/')}"
        elif name.startswith("local/"):
            hint = f"Local data are recorded: rl data make {name}"
        else:
            hint = f"There are d4rl/{', d4rl/'.join(list(D4RL_FILES)[:3])} ... ; see: rl data list --all"
        raise DataError(f"'{name}' is none of the files that can be fetched. {hint}")
    folder, file = D4RL_FILES[stem]
    return f"{SERVER}/{folder}/{file}", data_dir() / "d4rl" / file


def get_dataset(name: str, url: str | None, progress: Progress, tell: Callable[[str], None]) -> str:
    """Fetches one of D4RL's data sets where it is not here already; where it lies, as text.

    Args:
        name: Of the data set.
        url: Another server's file; null: D4RL's own.
        progress: Told of bytes as they come.
        tell: Told what is coming, once the server has answered.
    """
    own, path = target_of(name)
    source = url or own
    if path.is_file():
        known, digest = recorded_digest(path), file_digest(path)
        if known is not None and known != digest:
            raise DataError(
                f"{path}: its sha256 differs from when it was fetched: damaged. Delete it and fetch it again"
            )
        return f"{path} is here already (sha256 {digest})"

    def begin(size: int) -> None:
        tell(f"{source} ({file_size(size)})" if size else f"{source} (of unknown size)")

    digest = fetch(source, path, progress, begin=begin)
    return f"{path}: {file_size(path.stat().st_size)}, sha256 {digest} (kept in {path.name}.sha256)"


def fetch(
    url: str,
    path: Path,
    progress: Progress | None = None,
    timeout: float = 30.0,
    begin: Callable[[int], None] | None = None,
) -> str:
    """Downloads, checks and renames; returns the checksum, which is also written beside the file.

    Args:
        url: What is fetched.
        path: Its place.
        progress: Told of bytes as they come.
        timeout: Seconds of silence before it is given up.
        begin: Told of the size, once the server has answered.
    """
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise DataError(f"{url}: only http and https are fetched")
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        _download(url, temporary, progress, timeout, begin)
        check_whole(temporary)
        digest = file_digest(temporary)
        known = recorded_digest(path)
        if known is not None and known != digest:
            raise DataError(
                f"{url}: its sha256 is {digest[:16]}..., that of the last download was {known[:16]}...\n"
                f"Nothing was replaced. If the file was renewed on purpose, delete {path}.sha256 and fetch again"
            )
    write_text(Path(f"{path}.sha256"), f"{digest}  {path.name}\n")
    return digest


def _download(
    url: str,
    temporary: Path,
    progress: Progress | None,
    timeout: float,
    begin: Callable[[int], None] | None,
) -> None:
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer, temporary.open("wb") as file:
            size = int(answer.headers.get("Content-Length") or 0)
            free = shutil.disk_usage(temporary.parent).free
            if size > free:
                raise DataError(
                    f"{temporary.parent}: {free / 1e6:.0f} MB free, the file has {size / 1e6:.0f} MB"
                )
            if begin is not None:
                begin(size)
            done = 0
            while block := answer.read(CHUNK):
                file.write(block)
                done += len(block)
                if progress is not None:
                    progress(done, size)
    except urllib.error.HTTPError as error:
        raise DataError(f"{url}: the server says {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise DataError(f"{url}: cannot be fetched ({reason}); is there a network?") from None
    if size and done != size:
        raise DataError(f"{url}: {done} of {size} bytes arrived; nothing was kept. Try again")


def check_whole(path: Path) -> None:
    """Opens the file and reads its last column, which a file cut short does not have."""
    with opened(path) as file:
        missing = [key for key in (*NEEDED, *VALUED) if key not in file]
        if missing:
            raise DataError(f"{path}: the file that was fetched has no '{missing[0]}'; nothing was kept")
    read_columns(path, ("rewards", "terminals"))


def recorded_digest(path: Path) -> str | None:
    try:
        return Path(f"{path}.sha256").read_text().split()[0]
    except (OSError, IndexError):
        return None
