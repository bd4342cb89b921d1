"""Environments: one contract over every suite. `make.py` alone builds them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rl_lightning.envs.make import EnvConfig, make_env, make_envs, probe_spec
    from rl_lightning.envs.own_envs import as_env_config

__all__ = ["EnvConfig", "as_env_config", "make_env", "make_envs", "probe_spec"]


def __getattr__(name: str) -> Any:
    """Imported when asked for: listing envs does without Gymnasium's vectors."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "own_envs" if name == "as_env_config" else "make"
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
