"""Artifacts of other stages that a config names, by the hash of what they hold. Needs no torch."""

from __future__ import annotations

from typing import Any

from rl_lightning.errors import ResumeError
from rl_lightning.io.artifact_place import find_artifact


def artifacts_of(config: Any, key: str = "", kind: str = "digest") -> dict[str, str]:
    """Dotted key of every artifact in a config, and its hash; `init_args` is left out of the key.

    Args:
        config: Where they are looked for.
        key: Of the config itself.
        kind: digest (of weights and frames), or sha256 (of the weights alone, as older records have it).
    """
    digests: dict[str, str] = {}
    if isinstance(config, dict):
        for name, value in config.items():
            digests |= artifacts_of(value, key if name == "init_args" else f"{key}.{name}".lstrip("."), kind)
    elif isinstance(config, list):
        for place, value in enumerate(config):
            digests |= artifacts_of(value, f"{key}.{place}", kind)
    elif isinstance(config, str) and _may_name(config, key):
        digest = _digest(config, key, kind)
        digests = {key: digest} if digest else {}
    return digests


def _may_name(text: str, key: str) -> bool:
    """Whether a value can be a path, or the name of a run: that of an env or a class is neither."""
    if not 0 < len(text) < 4096 or "\0" in text:
        return False
    words = key.split(".")
    return "/" in text or (words[0] in ("model", "data") and not {"env", "class_path"} & set(words))


def _digest(name: str, key: str, kind: str) -> str:
    try:
        place = find_artifact(name)
        if place is None or (
            place.path.is_file() and key == "ckpt_path"
        ):  # a run goes on after others began with it
            return ""
        return place.weights_digest if kind == "sha256" else place.digest
    except (OSError, ResumeError):
        return ""


def check_artifacts(recorded: Any, config: dict[str, Any], name: str) -> None:
    """Refuses an exact resume from artifacts other than those that a run was begun with.

    Args:
        recorded: What the run's record says of them.
        config: The run's config, with paths as they are now.
        name: Of the run.
    """
    now, weights = artifacts_of(config), artifacts_of(config, kind="sha256")
    for key, digest in recorded.items() if isinstance(recorded, dict) else ():
        if key in now and digest not in (now[key], weights[key]):
            raise ResumeError(
                f"run '{name}' was begun with another {key} ({str(digest)[:12]}, now {now[key][:12]}): it cannot "
                f"resume exactly.\nPut the old one back, or begin anew from its weights: "
                f"rl fit --config ... --ckpt_path {name} --resume_mode warm_start"
            )
