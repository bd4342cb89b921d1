"""Fetching data: only when asked, into a part file that is resumed after a cut, and checked before it gets its name."""

from __future__ import annotations

import json
import os
import re
import shutil
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl_lightning.datasets.formats.hdf5 import opened, read_columns
from rl_lightning.datasets.formats.npz import DAMAGES, damaged
from rl_lightning.datasets.formats.raw import NEEDED, VALUED
from rl_lightning.datasets.hub_files import fetch_from_hub
from rl_lightning.datasets.load import file_digest
from rl_lightning.datasets.remote_files import HUB, RemoteFile, remote_file
from rl_lightning.errors import DataError
from rl_lightning.io.atomic import file_of_user, sync_folder, write_json, write_text
from rl_lightning.io.lock import locked
from rl_lightning.io.text import file_size

if TYPE_CHECKING:
    import requests

CHUNK = 1 << 20
ATTEMPTS = 4  # of one place, each resuming what the last one got, as long as each gets something
TIMEOUT = 30.0  # seconds of silence before it is given up
Progress = Callable[[int, int], None]  # bytes so far, bytes in all
Tell = Callable[[str], None]


class CutShortError(Exception):
    """The connection ended before the file did; what came is kept to go on from."""


class RefusedError(Exception):
    """A place that does not have the file; the next one may."""


def get_dataset(
    name: str, progress: Progress, tell: Tell, url: str | None = None, mirrors: Sequence[str] = ()
) -> str:
    """Fetches a data set where it is not here already; where it lies, as text.

    Args:
        name: Of the data set.
        progress: Told of bytes as they come.
        tell: Told what is coming, and which place failed.
        url: Another place of the file, tried alone.
        mirrors: Servers that are tried first.
    """
    file = remote_file(name, url, mirrors)
    # another run may be fetching it
    with file_of_user(file.path), locked(file.path.parent / f".{file.path.name}.lock"):
        if file.path.is_file():
            return f"{file.path} is here already (sha256 {_unchanged(file)})"
        digest = fetch(file, progress, tell)
    return f"{file.path}: {file_size(file.path.stat().st_size)}, sha256 {digest} (kept in {file.path.name}.sha256)"


def _unchanged(file: RemoteFile) -> str:
    digest = file_digest(file.path)
    for expected, whose in (
        (file.sha256, "the one known"),
        (recorded_digest(file.path), "when it was fetched"),
    ):
        if expected not in (None, digest):
            raise DataError(
                f"{file.path}: its sha256 differs from {whose}: damaged. Delete it and fetch it again"
            )
    return digest


def fetch(file: RemoteFile, progress: Progress | None = None, tell: Tell | None = None) -> str:
    """The file from the first place that has it whole; returns its checksum, which is also written beside it."""
    file.path.parent.mkdir(parents=True, exist_ok=True)
    failures: list[str] = []
    for url in file.urls:
        try:
            part = _fetch_part(file, url, progress, tell)
            digest = check_part(file, part, url)
        except (RefusedError, CutShortError) as error:
            failures.append(str(error) if url == file.name else f"{url}: {error}")
            if tell is not None and len(file.urls) > 1:
                tell(failures[-1])
            continue
        os.replace(part, file.path)
        sync_folder(file.path.parent)
        write_text(Path(f"{file.path}.sha256"), f"{digest}  {file.path.name}\n")
        _note(part).unlink(missing_ok=True)
        return digest
    places = "no place has it" if len(failures) > 1 else failures[0].rstrip(".?")
    resumable = any(_resumable(file, url, part_of(file.path)) for url in file.urls)
    resumed = " What came is kept: the same command resumes it." if resumable else ""
    raise DataError(
        f"{file.name}: {places}.{resumed}\n"
        f"Another place: rl data get {file.name} --url URL, or --mirror SERVER; or put the file at {file.path}"
    )


def part_of(path: Path) -> Path:
    """Where a file grows until it is whole: a name that nothing reads."""
    return path.with_name(f"{path.name}.part")


def _note(part: Path) -> Path:
    """What is known of the file that a part is of."""
    return part.with_name(f"{part.name}.json")


def _fetch_part(file: RemoteFile, url: str, progress: Progress | None, tell: Tell | None) -> Path:
    part = part_of(file.path)
    if url.startswith(HUB):
        begin(file, url, 0, file.size or 0, tell)
        fetch_from_hub(url, part, RefusedError)
        return part
    for _ in range(ATTEMPTS):
        before = _resumable(file, url, part)
        try:
            _transfer(file, url, part, progress, tell)
            return part
        except CutShortError:
            after = _arrived(url, part)
            if after <= before and not after == 0 < before:  # a part that was thrown away is begun anew
                raise
    raise CutShortError(f"the connection was cut {ATTEMPTS} times")


def _arrived(url: str, part: Path) -> int:
    """Bytes of this place that are there."""
    return part.stat().st_size if part.exists() and _read_note(part).get("url") == url else 0


def _resumable(file: RemoteFile, url: str, part: Path) -> int:
    """Bytes to go on from. What nothing vouches for is not joined to other bytes."""
    return _arrived(url, part) if _read_note(part).get("validator") or file.sha256 else 0


def _read_note(part: Path) -> dict[str, Any]:
    try:
        note = json.loads(_note(part).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def _transfer(file: RemoteFile, url: str, part: Path, progress: Progress | None, tell: Tell | None) -> None:
    import requests  # sets filters of warnings for its process

    start = _resumable(file, url, part)
    headers = {"Accept-Encoding": "identity"}  # sizes are those of the file
    if start:
        headers["Range"] = f"bytes={start}-"
        validator = _read_note(part).get("validator")
        headers |= {"If-Range": validator} if validator else {}
    try:
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as answer:
            if answer.status_code == 416:  # the part is longer than the file
                part.unlink(missing_ok=True)
                raise CutShortError("the server cannot resume it")
            if answer.status_code not in (200, 206):
                raise RefusedError(f"the server says {answer.status_code} {answer.reason}")
            start, size = _promised(answer, start)
            _check_size(file, part, start, size)
            begin(file, url, start, size, tell)
            if not start:  # what came from elsewhere goes, now that this place delivers
                part.write_bytes(b"")
            write_json(_note(part), {"url": url, "validator": _validator(answer), "size": size})
            _write(answer, part, start, size, progress)
    except requests.RequestException as error:
        if arrived := _arrived(url, part):
            raise CutShortError(f"{arrived} bytes arrived, then the connection was cut") from None
        raise RefusedError(f"cannot be fetched ({_reason(error)}); is there a network?") from None


def _promised(answer: requests.Response, start: int) -> tuple[int, int]:
    """Where the bytes that come begin, and how many the whole file has; 0 where nobody says."""
    length = int(answer.headers.get("Content-Length") or 0)
    if answer.status_code == 200:
        return 0, length
    unit, _, rest = answer.headers.get("Content-Range", "").partition(" ")
    span, _, total = rest.partition("/")
    if unit != "bytes" or span.partition("-")[0] != str(start):
        raise RefusedError("the server sends another part than was asked for")
    return start, int(total) if total.isdigit() else start + length


def _check_size(file: RemoteFile, part: Path, start: int, size: int) -> None:
    if file.size is not None and size and size != file.size:
        raise RefusedError(f"has {size} bytes, the file {file.size}: another file")
    free = shutil.disk_usage(part.parent).free
    if size - start > free:
        raise DataError(f"{part.parent}: {file_size(free)} free, the file needs {file_size(size - start)}")


def begin(file: RemoteFile, url: str, start: int, size: int, tell: Tell | None) -> None:
    if tell is not None:
        whole = file_size(size) if size else "of unknown size"
        tell(f"{url} ({whole}{f', resumed at {file_size(start)}' if start else ''})")


def _validator(answer: requests.Response) -> str | None:
    """What tells this version of the file from another; a weak tag does not."""
    tag = answer.headers.get("ETag", "")
    return tag if tag.startswith('"') else answer.headers.get("Last-Modified")


def _write(answer: requests.Response, part: Path, start: int, size: int, progress: Progress | None) -> None:
    done = start
    with part.open("r+b" if start else "wb") as target:
        target.seek(start)
        for block in answer.iter_content(CHUNK):
            target.write(block)
            done += len(block)
            if progress is not None:
                progress(done, size)
        target.flush()
        os.fsync(target.fileno())
    if size and done != size:
        raise CutShortError(f"{done} of {size} bytes arrived")


def _reason(error: Exception) -> str:
    inner = error.args[0] if error.args else error
    text = str(getattr(inner, "reason", None) or inner)
    return re.sub(r"^\w+\(.*?\): ", "", text)[:120]


def check_part(file: RemoteFile, part: Path, url: str) -> str:
    """The checksum of a part that is the whole file; one that is not is thrown away."""
    try:
        size, digest = part.stat().st_size, file_digest(part)
        if file.size is not None and size != file.size:
            raise RefusedError(f"sent {size} bytes, the file has {file.size}: nothing was kept")
        for expected, whose in (
            (file.sha256, "the file's"),
            (recorded_digest(file.path), "the last download's"),
        ):
            if expected not in (None, digest):
                raise RefusedError(
                    f"sent a file of sha256 {digest[:16]}..., {whose} is {str(expected)[:16]}...: nothing was kept"
                )
        check_whole(part, file.path.suffix.lower())
    except (RefusedError, DataError) as error:
        part.unlink(missing_ok=True)
        _note(part).unlink(missing_ok=True)
        text = str(error).splitlines()[0].replace(f"{part}: ", "")
        raise RefusedError(text) from None
    return digest


def check_whole(path: Path, suffix: str) -> None:
    """Opens the file as what its name says, and looks at what one that is cut short does not have."""
    if suffix in (".hdf5", ".h5"):
        with opened(path) as file:
            flat = "data" not in file
            missing = [key for key in (*NEEDED, *VALUED) if key not in file] if flat else []
        if missing:
            raise DataError(f"{path}: it has no '{missing[0]}'; nothing was kept")
        if flat:
            read_columns(path, ("rewards", "terminals"))
    elif suffix == ".npz":
        try:
            with zipfile.ZipFile(path) as archive:
                broken = archive.testzip()
        except DAMAGES as error:
            raise damaged(path, error) from None
        if broken is not None:
            raise DataError(f"{path}: '{broken}' is damaged; nothing was kept")


def recorded_digest(path: Path) -> str | None:
    try:
        return Path(f"{path}.sha256").read_text().split()[0]
    except (OSError, IndexError):
        return None
