"""What a finished stage leaves: weights and a description, in a folder that can be moved and named by hash."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import yaml
from safetensors.torch import load_file, save_file
from torch import Tensor

from rl_lightning.checkpoints.checkpoint_store import CheckpointStore, checksum
from rl_lightning.errors import ResumeError
from rl_lightning.io.atomic import sync_folder, write_json
from rl_lightning.io.checkpoint_files import read_file
from rl_lightning.redaction import redact
from rl_lightning.replay.frames.frame_artifacts import write_frames
from rl_lightning.runs.store.run_folder import Run, digest

WEIGHTS, ABOUT, CONFIG = "weights.safetensors", "artifact.json", "config.yaml"


def write_artifact(folder: Path, checkpoint: Path, config: dict[str, Any], about: dict[str, Any]) -> str:
    """Makes <folder>/artifact from a checkpoint, whole or not at all; returns its hash."""
    temporary, final = folder / ".artifact.tmp", folder / "artifact"
    temporary.mkdir(exist_ok=True)
    for stale in temporary.iterdir():  # of a process that was killed here
        stale.unlink()
    saved = read_file(checkpoint)
    state: dict[str, Tensor] = saved["state_dict"]
    save_file({name: tensor.contiguous().clone() for name, tensor in state.items()}, temporary / WEIGHTS)
    (temporary / CONFIG).write_text(yaml.safe_dump(redact(config), sort_keys=False))
    whole = checksum(temporary / WEIGHTS)
    described = {"checkpoint": checkpoint.name, "sha256": whole, "exports": saved.get("exports") or {}}
    frames = hand_on_frames(temporary, checkpoint)
    if frames is not None:
        whole = hashlib.sha256(f"{whole}{frames}".encode()).hexdigest()
    write_json(temporary / ABOUT, {**about, **described, "digest": whole})
    sync_folder(temporary)
    if final.exists():
        for stale in final.iterdir():
            stale.unlink()
        final.rmdir()
    os.replace(temporary, final)
    return whole


def hand_on_frames(target: Path, checkpoint: Path) -> str | None:
    """Every frame that was collected, whichever checkpoint has the best weights; a hash of them, if there are any."""
    generation = checkpoint.parent
    if not (generation / "meta.json").is_file():  # weights alone
        saved = CheckpointStore(generation).checkpoints()
        generation = saved[-1] if saved else generation
    return write_frames(target, generation, _data_states(generation))


def leave_artifact(run: Run, config: dict[str, Any]) -> None:
    """Of a finished run that is no stage: frames lie in no checkpoint's file, and a later stage shall take them."""
    about = {"stage": run.name, "cycle": 1, "run": run.name, "config": digest(config)}
    write_artifact(run.folder, run.checkpoint("best"), config, about)


def _data_states(generation: Path) -> list[dict[str, Any]]:
    """What the data of each rank saved beside a checkpoint; nothing beside one that holds weights alone."""
    files = sorted(generation.glob("rank-*.pt"), key=lambda path: int(path.stem.removeprefix("rank-")))
    return [read_file(path)["data"] for path in files]


def read_artifact(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any], dict[str, Any]]:
    """Weights, config and description of an artifact; its checksum is verified."""
    folder = Path(path)
    try:
        about = json.loads((folder / ABOUT).read_text())
        config = yaml.safe_load((folder / CONFIG).read_text())
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ResumeError(f"{folder}: no artifact of a stage ({error})") from None
    weights = folder / WEIGHTS
    if not weights.is_file() or checksum(weights) != about.get("sha256"):
        raise ResumeError(f"{weights}: missing or damaged (its checksum differs from {ABOUT})")
    return load_file(weights), config, about


def link_artifact(artifact: Path, shelf: Path, name: str, whole: str) -> None:
    """Links an artifact on the shelf under its name and hash; the link is relative, and never overwrites another's."""
    try:
        shelf.mkdir(parents=True, exist_ok=True)
        link = shelf / f"{name}-{whole[:12]}"
        if link.is_symlink():
            link.unlink()
        if not link.exists():
            link.symlink_to(os.path.relpath(artifact.resolve(), shelf.resolve()), target_is_directory=True)
    except (
        OSError
    ):  # a shelf that cannot be written (an installed package) is no reason to fail a finished stage
        return
