"""Reinforcement learning on Lightning. `load`, `find` and `compare` are imported when they are first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rl_lightning.api import compare, find, load

__all__ = ["compare", "find", "load"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from rl_lightning import api

        return getattr(api, name)
    raise AttributeError(f"module 'rl_lightning' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
