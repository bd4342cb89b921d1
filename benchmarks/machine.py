"""What the figures were taken on, without naming the machine."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path


def cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def cpu_flags() -> str:
    """The vector extensions that matter to matrix products."""
    info = Path("/proc/cpuinfo")
    flags = set(info.read_text().split()) if info.exists() else set()
    known = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
    return ", ".join(flag for flag in known if flag in flags) or "unknown"


def load() -> float:
    """Processes that ran or waited in the last minute: figures taken above about 1 are rough."""
    return os.getloadavg()[0]


def describe(threads: int) -> list[str]:
    names = ("torch", "lightning", "gymnasium", "mujoco", "numpy")
    return [
        f"CPU: {cpu_model()}, {os.cpu_count()} cores, {cpu_flags()}",
        f"Python {platform.python_version()}, " + ", ".join(f"{name} {version(name)}" for name in names),
        f"Threads: {threads} in every process",
    ]
