"""What a finished stage hands on: a module that later stages rebuild from its artifact, by name."""

from __future__ import annotations

import hashlib
import importlib
import json
import pickle
from pathlib import Path
from typing import Any, NamedTuple

import torch
import yaml
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from rl_lightning.errors import ConfigError, ResumeError
from rl_lightning.io.artifact_place import locate_artifact
from rl_lightning.io.trust import ALLOWED_IMPORTS


class Exported(NamedTuple):
    """A module inside an algorithm, and how to make it again without the algorithm."""

    class_path: str  # where its class lives
    init_args: dict[str, Any]  # plain values; the class called with them gives the empty module
    prefix: str  # of its weights in the algorithm's state dict, e.g. "best."


class Excerpt(nn.Module):
    """A module that takes, of the whole algorithm's weights, those that carry its own names."""

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        own = self.state_dict().keys()
        return super().load_state_dict({k: v for k, v in state_dict.items() if k in own}, strict, assign)


def load_exported(path: str | Path, name: str) -> nn.Module:
    """The module called `name` of an artifact, a run or a checkpoint, in eval mode, its weights frozen."""
    place = locate_artifact(path, name).path
    offered, weights = _checkpoint(place) if place.is_file() else _artifact(place)
    if name not in offered:
        there = ", ".join(offered) or "nothing that another stage can use"
        raise ConfigError(f"{place} exports {there}; a {name} is needed here")
    try:
        described = Exported(**offered[name])
        module_class = find_class(described.class_path, str(place))
        if not issubclass(module_class, nn.Module):
            raise ResumeError(f"{place}: {described.class_path} is not a module")
        model = module_class(**described.init_args)
    except (TypeError, ImportError) as error:
        raise ResumeError(f"{place}: its {name} cannot be made again ({error})") from None
    own = {k.removeprefix(described.prefix): v for k, v in weights.items() if k.startswith(described.prefix)}
    try:
        model.load_state_dict(own)
    except RuntimeError as error:
        line = (str(error).splitlines()[1:2] or [str(error)])[0].strip()
        raise ResumeError(f"{place}: its {name} does not fit {described.class_path}\n{line[:200]}") from None
    return model.eval().requires_grad_(False)


def exported_config(path: str | Path, group: str) -> dict[str, Any]:
    """What the stage that left an artifact was told of its `model` or `data`; nothing where the artifact does not
    say."""
    try:
        return dict(exported_file(path)[group]["init_args"])
    except (ResumeError, ValueError, KeyError, TypeError):
        return {}


def exported_file(path: str | Path) -> dict[str, Any]:
    """The whole config of the stage that left an artifact; nothing where there is none that can be read."""
    try:
        config = yaml.safe_load(locate_artifact(path).config.read_text())
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return config if isinstance(config, dict) else {}


def fingerprint(model: nn.Module) -> str:
    """Of a module's weights: tells whether an artifact is the one that a run was begun with."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _artifact(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        about = json.loads((folder / "artifact.json").read_text())
        with (folder / "weights.safetensors").open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if about.get("sha256", digest) != digest:
            raise ResumeError(
                f"{folder / 'weights.safetensors'}: damaged (its checksum differs from artifact.json)"
            )
        return about.get("exports") or {}, load_file(folder / "weights.safetensors")
    except (OSError, ValueError, SafetensorError) as error:
        raise ResumeError(f"{folder}: no artifact of a stage ({error})") from None


def _checkpoint(file: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
        return state.get("exports") or {}, state["state_dict"]
    except (OSError, EOFError, RuntimeError, KeyError, ValueError, pickle.UnpicklingError) as error:
        raise ResumeError(f"{file}: is damaged or no checkpoint ({type(error).__name__})") from None


def find_class(class_path: str, where: str) -> type[Any]:
    """Only classes of this package, or of one that the user imported, are ever made from a file's word."""
    module, _, name = class_path.rpartition(".")
    root = module.split(".")[0]
    if root not in {"rl_lightning", *(package.split(".")[0] for package in ALLOWED_IMPORTS)}:
        raise ConfigError(f"{where} was made with {class_path}; allow it with: --import {root}")
    member = getattr(importlib.import_module(module), name, None)
    if not isinstance(member, type):
        raise ResumeError(f"{where}: {class_path} is not a class")
    return member
