"""What each extra of this package needs here, and a line that installs it from a checkout as well as from a wheel.

The line names the packages themselves: the name of this one is on no index.
"""

from __future__ import annotations

import functools
import os
import sys
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

DISTRIBUTION = "rl-lightning"
# dm_control asks for labmaze, which has wheels up to Python 3.12 and needs bazel above. Its tasks run without, so newer
# Pythons install it without its dependencies, which the extra lists itself.
BARE = {"dmc": [Requirement("dm_control>=1.0.50,<1.1")]} if sys.version_info >= (3, 13) else {}


@functools.cache
def requirements() -> tuple[Requirement, ...]:
    """Everything that this package's own metadata ask for, whatever the Python and the extra."""
    try:
        return tuple(Requirement(text) for text in metadata.requires(DISTRIBUTION) or ())
    except metadata.PackageNotFoundError:
        return ()


def required() -> list[Requirement]:
    """What the package itself needs on this Python."""
    return [each for each in requirements() if each.marker is None or each.marker.evaluate({"extra": ""})]


def extra_requirements() -> dict[str, list[Requirement]]:
    """What each extra that a user would ask for needs on this Python."""
    try:
        names = metadata.metadata(DISTRIBUTION).get_all("Provides-Extra") or []
    except metadata.PackageNotFoundError:
        return {}
    return {extra: _needs(extra) + BARE.get(extra, []) for extra in names if extra not in ("all", "dev")}


def _needs(extra: str) -> list[Requirement]:
    marked = [(each, each.marker) for each in requirements() if each.marker is not None]
    return [each for each, marker in marked if "extra" in str(marker) and marker.evaluate({"extra": extra})]


def plain(requirement: Requirement) -> str:
    """Without its marker, which has been looked at."""
    options = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{requirement.name}{options}{requirement.specifier}"


def pip_command(extra: str) -> str:
    """What to type so that an extra works."""
    line = pip_install(*map(plain, _needs(extra)))
    bare = [plain(each) for each in BARE.get(extra, [])]
    return f"{line} && {pip_install('--no-deps', *bare)}" if bare else line


def pip_install(*words: str) -> str:
    return " ".join([pip(), "install", *(word if word.startswith("-") else f"'{word}'" for word in words)])


def pip() -> str:
    """The pip of this very Python, which the word alone is not in an environment that is not activated."""
    here = Path(sys.prefix)
    if sys.prefix == sys.base_prefix or os.environ.get("VIRTUAL_ENV") == sys.prefix:
        return "pip"
    folder = os.path.relpath(here) if here.is_relative_to(Path.cwd()) else str(here)
    return f"{Path(folder, *Path(sys.executable).parts[-2:])} -m pip"


def misfit(package: str) -> str:
    """What an installed package asks for and finds in another version; empty where all fits."""
    try:
        name, needs = metadata.version(package), metadata.requires(package) or ()
    except metadata.PackageNotFoundError:
        return ""
    for need in map(Requirement, needs):
        if need.marker is not None and not need.marker.evaluate({"extra": ""}):
            continue
        try:
            have = metadata.version(need.name)
        except metadata.PackageNotFoundError:
            continue
        if not need.specifier.contains(have, prereleases=True):
            return f"{package} {name} needs {plain(need)}, and {have} is installed"
    return ""


def needs_mujoco_py(entry_point: str) -> bool:
    """Whether an env of Gymnasium-Robotics needs mujoco_py, which nobody can install any more."""
    return ":MujocoPy" in entry_point or entry_point.startswith("gymnasium_robotics.envs.mujoco.")
