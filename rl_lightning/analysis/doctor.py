"""Is this installation sound? Answered from package metadata alone, so that it works when imports do not."""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from rl_lightning import extras as wanted

MALICIOUS = {("lightning", "2.6.2"), ("lightning", "2.6.3")}
NEVER = {
    "gym": "gymnasium replaces it",
    "mujoco-py": "mujoco replaces it",
    "d4rl": "its files are read without it",
}


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Args:
        level: "ok", "note" or "bad".
        text: What was found.
        repair: What to type, if anything.
    """

    level: str
    text: str
    repair: str = ""


def report() -> list[Finding]:
    """Everything that can be said without importing a package."""
    return [*machine(), *required(), *extras(), *known_bad()]


def as_text(findings: Sequence[Finding]) -> str:
    """A line each, with what repairs it; and how many are to repair."""
    marks = {"ok": "  ok ", "note": " note", "bad": "  BAD"}
    lines = []
    for finding in findings:
        lines.append(f"{marks[finding.level]} {finding.text}")
        if finding.repair and finding.level != "ok":
            lines.append(f"       -> {finding.repair}")
    bad = sum(finding.level == "bad" for finding in findings)
    return "\n".join([*lines, f"{bad} to repair" if bad else "all is well"])


def machine() -> list[Finding]:
    total, free = memory()
    disk = shutil.disk_usage(Path.cwd()).free / 2**30
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    python = f"python {platform.python_version()} · {platform.system()} {platform.machine()}"
    findings = [
        Finding(
            "ok" if sys.version_info >= (3, 11) else "bad",
            python,
            "" if sys.version_info >= (3, 11) else "use Python 3.11 or newer",
        )
    ]
    findings.append(
        Finding(
            "ok", f"{cores} cores · {free:.1f} of {total:.1f} GB memory free · {disk:.0f} GB disk free here"
        )
    )
    findings.append(Finding("ok", f"device: {device()}"))
    return findings


def device() -> str:
    """What `accelerator: auto` will most likely choose, told by driver files and the torch build."""
    build = version("torch") or ""
    if Path("/proc/driver/nvidia/version").exists() or Path("/dev/nvidiactl").exists():
        return "NVIDIA GPU" + (" (but this torch is a CPU build)" if "+cpu" in build else "")
    if platform.system() == "Darwin" and platform.machine() == "arm64":
        return "Apple GPU (mps)"
    return "CPU (no GPU driver found)"


def memory() -> tuple[float, float]:
    """Total and available memory in GB."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        values = {line.split(":")[0]: int(line.split()[1]) / 2**20 for line in lines if line.endswith("kB")}
        return values["MemTotal"], values.get("MemAvailable", values["MemFree"])
    except (OSError, KeyError, ValueError):
        import psutil

        state = psutil.virtual_memory()
        return state.total / 2**30, state.available / 2**30


def required() -> list[Finding]:
    """Each dependency of the package itself: there, and within its bounds."""
    own = wanted.required()
    if not own:
        return [Finding("bad", "rl_lightning is not installed as a package", f"{wanted.pip()} install -e .")]
    lines = [_check(each, wanted.pip_install(wanted.plain(each))) for each in own]
    good = [line.text for line in lines if line.level == "ok"]
    return (
        [Finding("ok", " · ".join(good)), *(line for line in lines if line.level != "ok")] if good else lines
    )


def extras() -> list[Finding]:
    """Each extra: complete, or with the line that installs it."""
    findings = []
    for extra, needs in wanted.extra_requirements().items():
        lines = [_check(each, wanted.pip_command(extra)) for each in needs]
        wrong = [line for line in lines if line.level != "ok"]
        if not wrong:
            findings.append(Finding("ok", f"extra {extra}: {' · '.join(line.text for line in lines)}"))
        else:
            level = "bad" if any(_outdated(each) for each in needs) else "note"
            what = "; ".join(line.text for line in wrong)
            findings.append(Finding(level, f"extra {extra}: {what}", wanted.pip_command(extra)))
    return findings


def known_bad() -> list[Finding]:
    """Pairs and packages that are known to fail, with the cure."""
    findings = []
    mujoco, dm_control = version("mujoco"), version("dm_control")
    if mujoco and mujoco.split(".")[0] >= "4" and dm_control:
        findings.append(
            Finding(
                "bad",
                f"dm_control {dm_control} does not load with mujoco {mujoco}",
                wanted.pip_install("mujoco>=3.17,<4"),
            )
        )
    for package, release in MALICIOUS:
        if version(package) == release:
            text = f"{package} {release} was a malicious upload: change every secret this machine held"
            findings.append(Finding("bad", text, wanted.pip_install("lightning>=2.6.6,<2.7")))
    for package, reason in NEVER.items():
        if version(package):
            findings.append(
                Finding(
                    "note",
                    f"{package} {version(package)} is installed: {reason}",
                    f"{wanted.pip()} uninstall {package}",
                )
            )
    if wrong := wanted.misfit("metaworld"):
        text = f"{wrong}: none of its envs can be made"
        findings.append(Finding("note", text, "keep it in a venv of its own: pip install -e . metaworld"))
    if (mujoco or dm_control) and platform.system() == "Linux" and not has_egl():
        findings.append(
            Finding(
                "note",
                "no EGL: MuJoCo and dm_control cannot draw frames here (training from state works)",
                "apt-get install libegl1 libgl1-mesa-dri, then export MUJOCO_GL=egl",
            )
        )
    return findings


def has_egl() -> bool:
    folders = [Path("/usr/lib"), Path("/usr/lib64"), *Path("/usr/lib").glob("*-linux-gnu")]
    return any(next(folder.glob("libEGL.so*"), None) for folder in folders if folder.is_dir())


@functools.cache
def version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def installed(module: str) -> bool:
    """Whether a top-level module could be imported."""
    return importlib.util.find_spec(module) is not None


def _outdated(requirement: Requirement) -> bool:
    have = version(requirement.name)
    return have is not None and not requirement.specifier.contains(have, prereleases=True)


def _check(requirement: Requirement, repair: str) -> Finding:
    have = version(requirement.name)
    if have is None:
        return Finding("bad", f"{requirement.name} is missing", repair)
    if _outdated(requirement):
        return Finding("bad", f"{requirement.name} {have} does not fit {wanted.plain(requirement)}", repair)
    return Finding("ok", f"{requirement.name} {have}")
