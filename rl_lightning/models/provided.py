"""What a finished stage hands on: a module that later stages rebuild from its product, by name."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from safetensors.torch import load_file
from torch import nn

from rl_lightning.envs.registry import ALLOWED_IMPORTS
from rl_lightning.errors import ConfigError, ResumeError


class Provided(NamedTuple):
    """A module inside an algorithm, and how to make it again without the algorithm."""

    class_path: str  # where its class lives
    init_args: dict[str, Any]  # plain values; the class called with them gives the empty module
    prefix: str  # of its weights in the algorithm's state dict, e.g. "best."


def load_provided(path: str | Path, name: str) -> nn.Module:
    """The module called `name` of a product, in eval mode, its weights frozen."""
    folder = Path(path).expanduser()
    folder = folder / "product" if (folder / "product" / "product.json").is_file() else folder
    try:
        about = json.loads((folder / "product.json").read_text())
    except (OSError, ValueError) as error:
        raise ResumeError(f"{folder}: no product of a stage ({error})") from None
    offered = about.get("provides") or {}
    if name not in offered:
        there = ", ".join(offered) or "nothing that another stage can use"
        raise ConfigError(f"{folder} provides {there}; a {name} is needed here")
    described = Provided(**offered[name])
    found = find_class(described.class_path, str(folder))
    if not issubclass(found, nn.Module):
        raise ResumeError(f"{folder}: {described.class_path} is no module")
    model = found(**described.init_args)
    weights = load_file(folder / "weights.safetensors")
    own = {k.removeprefix(described.prefix): v for k, v in weights.items() if k.startswith(described.prefix)}
    try:
        model.load_state_dict(own)
    except RuntimeError as error:
        line = (str(error).splitlines()[1:2] or [str(error)])[0].strip()
        raise ResumeError(f"{folder}: its {name} does not fit {described.class_path}\n{line[:200]}") from None
    return model.eval().requires_grad_(False)


def find_class(class_path: str, where: str) -> type[Any]:
    """Only classes of this package, or of one that the user imported, are ever made from a file's word."""
    module, _, name = class_path.rpartition(".")
    root = module.split(".")[0]
    if root not in {"rl_lightning", *(given.split(".")[0] for given in ALLOWED_IMPORTS)}:
        raise ConfigError(f"{where} was made with {class_path}; allow it with: --import {root}")
    found = getattr(importlib.import_module(module), name, None)
    if not isinstance(found, type):
        raise ResumeError(f"{where}: {class_path} is no class")
    return found
