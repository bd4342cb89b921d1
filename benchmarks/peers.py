"""Other libraries, each in a venv of its own in a cache outside this repository."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SHARED = ["torch>=2.10,<2.14", "gymnasium[classic-control,mujoco]", "mujoco>=3.17,<4"]
PEERS = {
    "sb3": [*SHARED, "stable-baselines3"],
    "sheeprl": [*SHARED, "sheeprl"],
    "zuko": ["torch>=2.10,<2.14", "numpy", "zuko"],
}


def cache() -> Path:
    """$RL_BENCH_DIR, or a folder in the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("RL_BENCH_DIR") or Path(base) / "rl_lightning-bench")


def python_of(peer: str) -> Path | None:
    """The peer's interpreter, installed on first use; None where it does not install."""
    folder = cache() / peer
    python, stamp = folder / "bin" / "python", folder / ".installed"
    if stamp.exists():
        return python if stamp.read_text() == "ok" else None
    print(f"installing {peer} into a venv of its own", file=sys.stderr)
    folder.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    install = [str(python), "-m", "pip", "install", "--quiet", *PEERS[peer]]
    works = subprocess.run(install, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
    stamp.write_text("ok" if works else "does not install")
    return python if works else None


def versions(python: Path, packages: list[str]) -> str:
    """Installed versions, for the report."""
    code = "import sys; from importlib.metadata import version as v; print([f'{p} {v(p)}' for p in sys.argv[1:]])"
    found = subprocess.run([str(python), "-c", code, *packages], capture_output=True, text=True)
    return found.stdout.strip().strip("[]").replace("'", "")
