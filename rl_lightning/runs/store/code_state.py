"""Which code a run was made with: the commit, and what was changed since, without secrets and of bounded size."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path
from typing import Any

from rl_lightning.redaction import without_secrets

FILE = "changes.diff"
LIMIT = 1_000_000  # characters of changes.diff; what is longer is cut
UNTRACKED = 20  # names that run.json lists
PRIVATE = (
    "*.pem", "*.key", "*.p12", "*.pfx", "*.env", ".env*", ".netrc", ".pgpass", "id_*", "*credential*", "*secret*",
)  # fmt: skip


def code_state(folder: Path | None = None, package: Path | None = None) -> dict[str, Any] | None:
    """Commit and changes of the checkout that our code runs from, else of the current folder; None outside any.

    Args:
        folder: Of a run; the changes are written there as changes.diff. Null: nothing is written.
        package: Where our code lies; null: here.
    """
    root = _checkout(package or Path(__file__).resolve().parents[3])
    commit = None if root is None else _git(root, "rev-parse", "HEAD")
    if root is None or commit is None:
        return None
    hidden = [f":(exclude,icase,glob)**/{pattern}" for pattern in PRIVATE]
    changes = (
        _git(root, "diff", "HEAD", "--no-ext-diff", "--no-textconv", "--no-color", "--", ".", *hidden) or ""
    )
    new = (_git(root, "ls-files", "--others", "--exclude-standard") or "").splitlines()
    state: dict[str, Any] = {"commit": commit.strip(), "diff": ""}
    if new:
        state["untracked"] = new[:UNTRACKED] + (
            [f"and {len(new) - UNTRACKED} more"] if len(new) > UNTRACKED else []
        )
    if changes:
        state["diff"] = hashlib.sha256(changes.encode("utf-8", "replace")).hexdigest()[:16]
        if folder is not None:
            state |= _write(folder, without_secrets(changes))
    return state


def _write(folder: Path, text: str) -> dict[str, Any]:
    note = {"diff_file": FILE}
    if len(text) > LIMIT:
        note["diff_note"] = f"cut after {LIMIT} of {len(text)} characters"
        text = text[:LIMIT].rpartition("\n")[0] + f"\n# {note['diff_note']}\n"
    try:
        (folder / FILE).write_text(text, encoding="utf-8", errors="replace")
    except OSError:  # a full disk is told of by what cannot do without
        return {}
    return note


def _checkout(package: Path) -> Path | None:
    if (package / ".git").exists():
        return package
    top = _git(Path.cwd(), "rev-parse", "--show-toplevel")
    return Path(top.strip()) if top else None


def _git(folder: Path, *words: str) -> str | None:
    """What git says; it runs no program that a repository names, and waits for no lock."""
    command = ["git", "-C", str(folder), "-c", "core.fsmonitor=false", "-c", "core.quotePath=false", *words]
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(command, capture_output=True, timeout=10, check=False, env=environment)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None
