"""The installed version."""

from importlib import metadata


def version() -> str:
    try:
        return metadata.version("rl-lightning")
    except metadata.PackageNotFoundError:
        return "(not installed)"
