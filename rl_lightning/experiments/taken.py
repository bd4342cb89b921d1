"""Products of other stages that a config names, by the hash of their weights. Needs no torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rl_lightning.errors import ResumeError


def products_of(config: Any, key: str = "") -> dict[str, str]:
    """Dotted key of every product in a config, and its hash; `init_args` is left out of the key."""
    found: dict[str, str] = {}
    if isinstance(config, dict):
        for name, value in config.items():
            found |= products_of(value, key if name == "init_args" else f"{key}.{name}".lstrip("."))
    elif isinstance(config, list):
        for place, value in enumerate(config):
            found |= products_of(value, f"{key}.{place}")
    elif isinstance(config, str) and "/" in config and len(config) < 4096 and "\0" not in config:
        digest = _digest(Path(config).expanduser())
        found = {key: digest} if digest else {}
    return found


def _digest(place: Path) -> str:
    for folder in (place, place / "product"):
        try:
            return str(json.loads((folder / "product.json").read_text(encoding="utf-8"))["sha256"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return ""


def check_products(begun: Any, config: dict[str, Any], name: str) -> None:
    """Refuses to go on exactly from products other than those that a run was begun with.

    Args:
        begun: What the run's record says of them.
        config: The run's config, with paths as they are now.
        name: Of the run.
    """
    now = products_of(config)
    for key, digest in begun.items() if isinstance(begun, dict) else ():
        if key in now and now[key] != digest:
            raise ResumeError(
                f"run '{name}' was begun with another {key} ({str(digest)[:12]}, now {now[key][:12]}): it cannot go on "
                f"exactly.\nPut the old one back, or begin anew from its weights: "
                f"rl fit --config ... --ckpt_path {name} --resume_mode warm_start"
            )
