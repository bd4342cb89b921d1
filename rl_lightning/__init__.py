"""Reinforcement learning on Lightning. What is named here is imported when it is first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rl_lightning.api.desk import compare, find
    from rl_lightning.api.group import TrainedRuns
    from rl_lightning.api.policy import LoadedPolicy, load
    from rl_lightning.api.resume import resume
    from rl_lightning.api.run import TrainedRun, fit

    __version__: str

__all__ = [
    "LoadedPolicy",
    "TrainedRun",
    "TrainedRuns",
    "__version__",
    "compare",
    "find",
    "fit",
    "load",
    "resume",
]

_HOMES = {
    "fit": "run", "resume": "resume", "TrainedRun": "run", "load": "policy", "LoadedPolicy": "policy",
    "TrainedRuns": "group", "find": "desk", "compare": "desk",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from rl_lightning.version import version

        return version()
    if name in _HOMES:
        return getattr(importlib.import_module(f"rl_lightning.api.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'rl_lightning' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
