"""`rl export RUN --format onnx|safetensors`: a policy for those who do not have us."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import torch

from rl_lightning.analysis.export.greedy_policy import GreedyPolicy, observations
from rl_lightning.analysis.export.onnx_file import checked_onnx
from rl_lightning.analysis.export.play_script import why_no_script, write_script
from rl_lightning.errors import ConfigError, RLError
from rl_lightning.io.atomic import file_of_user
from rl_lightning.redaction import redact
from rl_lightning.runs.agents.agent import LoadedAgent

ROWS = 64  # observations that the parity check looks at


def export_policy(agent: LoadedAgent, kind: str, place: Path) -> str:
    """Writes a policy, and checks that it acts as ours does; what was written, as text.

    Args:
        agent: The agent.
        kind: onnx or safetensors.
        place: A folder for its files, or the one file that is to be written.
    """
    if place.suffix != f".{kind}" or place.is_dir():
        return _into_folder(agent, kind, place)
    with file_of_user(place), tempfile.TemporaryDirectory(dir=place.parent, prefix=".export-") as work:
        text = _into_folder(agent, kind, Path(work))
        os.replace(Path(work) / f"policy.{kind}", place)
    return "\n".join(
        [agent.title, str(place), *(line for line in text.splitlines() if line.startswith("checked:"))]
    )


def _into_folder(agent: LoadedAgent, kind: str, folder: Path) -> str:
    if folder.is_file():
        raise ConfigError(f"--output {folder}: is a file; a policy takes a folder")
    model, data = agent.cli.model, agent.cli.datamodule
    if model.evaluated_on == "rows":
        raise ConfigError(f"{type(model).__name__} does not act; there is no policy to export")
    about = description(data, agent.title)
    why = None
    if kind == "safetensors":
        folder.mkdir(parents=True, exist_ok=True)
        paths, checked = [write_weights(model, folder, about)], "read back bit for bit"
    else:
        rescale = getattr(vars(data).get("env"), "rescale_actions", True)
        policy = GreedyPolicy(model, data.spec, rescale).eval()
        about["noise_inputs"] = policy.noise
        path, checked = checked_onnx(policy, observations(data, ROWS), folder)
        why = why_no_script(data.spec, about)
        paths = [path] if why else [path, write_script(policy, folder, about)]
    (folder / "policy.json").write_text(json.dumps(redact(about), indent=2) + "\n")
    lines = [agent.title, *map(str, paths), f"checked: {checked}"]
    return "\n".join([*lines, *([f"no play.py: {why}; policy.json says what is known of it"] if why else [])])


def description(data: Any, title: str) -> dict[str, Any]:
    """What somebody who runs the policy has to know."""
    spec, env = data.spec, vars(data).get("env")
    transforms = [type(item).__name__ for item in getattr(env, "transforms", [])]
    return {
        "policy": title, "env": spec.env_id, "obs_shape": list(spec.obs_shape), "obs_dtype": spec.obs_dtype,
        "action": spec.action_kind, "action_shape": list(spec.action_shape), "action_mask": spec.action_mask,
        "transforms": transforms, "env_kwargs": dict(getattr(env, "kwargs", {}) or {}),
        "max_episode_steps": getattr(env, "max_episode_steps", None), "action_repeat": spec.action_repeat,
        "noise": getattr(env, "noise", None) is not None,
    }  # fmt: skip


def write_weights(model: Any, folder: Path, about: dict[str, Any]) -> Path:
    """All weights and buffers under their names, those of artifacts that the policy acts through too, and read
    again."""
    from safetensors.torch import load_file, save_file

    path = folder / "policy.safetensors"
    state = dict(model.state_dict())
    for part, module in model.borrowed().items():
        state |= {f"{part}.{name}": value for name, value in module.state_dict().items()}
    weights = {name: value.detach().cpu().contiguous().clone() for name, value in state.items()}
    save_file(weights, path, metadata={"format": "pt", "about": json.dumps(redact(about))})
    again = load_file(path)
    if again.keys() != weights.keys() or not all(torch.equal(again[key], weights[key]) for key in weights):
        raise RLError(f"{path}: what was written is not what is read")
    return path
