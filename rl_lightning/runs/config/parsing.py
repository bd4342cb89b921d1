"""The strict parse of a composed config, and what it may import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rl_lightning.errors import ConfigError
from rl_lightning.runs.config.compose import Config
from rl_lightning.runs.request import Request

if TYPE_CHECKING:
    from rl_lightning.runs.config.build import RLCLI


def parse_config(config: Config, request: Request) -> RLCLI:
    """The strict parse; from here on torch is loaded."""
    from rl_lightning.runs.config.build import RLCLI, allow_imports

    allow_imports(request.imports)
    cli = RLCLI(config, request.overrides, request.given)
    if request.small:
        from rl_lightning.runs.config.debug_caps import apply_debug_caps

        apply_debug_caps(cli.config, request.overrides)
    return cli


def check_imports(record: dict[str, Any], request: Request) -> None:
    """A run folder never decides what is imported: the user does, and is told what the run had."""
    missing = [name for name in record.get("imports") or [] if name not in request.imports]
    if missing:
        flags = " ".join(f"--import {name}" for name in missing)
        raise ConfigError(f"this run was made with code of yours; if you trust it, add: {flags}")
