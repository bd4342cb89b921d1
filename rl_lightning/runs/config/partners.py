"""Algorithm and data of a config, looked at as classes: what does not belong together is refused before it is built."""

from __future__ import annotations

import importlib
import re
from typing import Any

from rl_lightning.datamodules.bases.rl_data import RLData
from rl_lightning.errors import ConfigError
from rl_lightning.runs.config.aliases import named_classes
from rl_lightning.runs.config.compose import Config, shipped
from rl_lightning.runs.config.swapped import known
from rl_lightning.trainer.contract import check_partners, partners_of

USUAL = ("OnPolicyData", "OnlineData", "OfflineData")  # named before those that need a model of the world


def check_classes(model: Any, data: Any) -> None:
    """Raises unless the data yield what the algorithm learns from.

    Args:
        model: The config's `model`, with its `class_path`.
        data: The config's `data`, likewise.
    """
    if model and data:
        learner = _class(model["class_path"])
        check_partners(learner, _class(data["class_path"]), _example)


def check_named(config: Config) -> None:
    """Raises where a config has an algorithm and no data for it, with the data that it learns from."""
    classes = named_classes(config)
    learner = known(classes["model"]) if "model" in classes and "data" not in classes else None
    if learner is None:
        return
    right = sorted(partners_of(learner, RLData), key=lambda name: (*USUAL, name).index(name))
    hint = f"; {learner.__name__} learns from {', '.join(right)}: --data {right[0]}" if right else ""
    raise ConfigError(f"the config has no data{hint}")


def _class(path: str) -> type:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _example(algorithm: str) -> str:
    """A shipped config of the algorithm, the first by name."""
    wanted = re.compile(rf"^model:\s*\{{?\s*(?:class_path:\s*)?{algorithm}\b", re.MULTILINE)
    examples = [
        name for name, path in sorted(shipped().items()) if wanted.search(path.read_text(encoding="utf-8"))
    ]
    preferred = [name for name in examples if name.endswith(("cartpole", "pendulum"))]
    return f" Try --config {(preferred or examples)[0]}" if examples else ""
