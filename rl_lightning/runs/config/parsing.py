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
    from rl_lightning.runs.config.build import RLCLI

    import_packages(request)
    cli = RLCLI(config, request.overrides, request.given)
    check_budget(cli)
    if request.small:
        from rl_lightning.runs.config.debug_caps import apply_debug_caps

        apply_debug_caps(cli.config, request.overrides)
    return cli


def import_packages(request: Request) -> None:
    """Makes the parser strict, and imports what the user named."""
    from rl_lightning.runs.config.build import allow_imports

    allow_imports(request.imports)


def check_budget(cli: RLCLI) -> None:
    """Env steps are no budget where none are taken."""
    from rl_lightning.runs.config.swapped import known

    data = known(cli.config.data.class_path)
    if cli.config.run.env_steps is not None and getattr(data, "clock_name", "") == "update":
        assert data is not None
        raise ConfigError(
            f"run.env_steps: {data.__name__} takes no env steps, its budget is in updates: --updates N"
        )


def check_imports(record: dict[str, Any], request: Request) -> None:
    """A run folder never decides what is imported: the user does, and is told what the run had."""
    missing = [name for name in record.get("imports") or [] if name not in request.imports]
    if missing:
        flags = " ".join(f"--import {name}" for name in missing)
        raise ConfigError(f"this run was made with code of yours; if you trust it, add: {flags}")
