"""Frames on their way from stage to stage: an artifact names the segments of every collection so far, and holds
them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

from rl_lightning.errors import ConfigError, DataError, ResumeError
from rl_lightning.io.artifact_place import FRAMES, locate_artifact
from rl_lightning.replay.frames.frame_log import COLUMNS, FrameLog
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.types import EnvSpec


def read_frames_meta(artifact: str | Path) -> dict[str, Any]:
    """What an artifact says of its frames: the env's spec, and one entry per collection."""
    folder = locate_artifact(artifact, "frames").path
    try:
        about = json.loads((folder / FRAMES).read_text())
        assert isinstance(about["parts"], list) and isinstance(about["spec"], list)
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{folder}: holds no frames; give a finished run or stage that collects") from None
    except (OSError, ValueError, KeyError, TypeError, AssertionError) as error:
        raise ResumeError(f"{folder / FRAMES}: cannot be read ({error})") from None
    return {**about, "folder": folder}


def load_frames(artifact: str | Path, spec: EnvSpec) -> FrameLog:
    """All frames of an artifact, the oldest collection first; those of another env are refused."""
    about = read_frames_meta(artifact)
    check_spec(about, spec)
    log = FrameLog(spec, sum(int(part["count"]) for part in about["parts"]))
    for part in about["parts"]:
        one = FrameLog(spec, int(part["count"]))
        one.load(part, SegmentStore(about["folder"]))
        one.parts = one.parts or [0]
        log.extend(one)
    if not log.count:
        raise DataError(f"{about['folder']}: its collections are empty")
    return log


def check_spec(about: dict[str, Any], spec: EnvSpec) -> None:
    there, shape, frames = about["spec"][0], tuple(about["spec"][1]), int(about["spec"][8])
    if there != spec.env_id:
        raise ConfigError(f"{about['folder']}: frames of {there}; this run plays {spec.env_id}")
    if (shape, frames) != (tuple(spec.obs_shape), spec.num_stack):
        raise ConfigError(
            f"{about['folder']}: stacks of {frames} frames, {list(shape)} in all; "
            f"this run's env shows {spec.num_stack}, {list(spec.obs_shape)}"
        )


def write_frames(target: Path, generation: Path, states: list[dict[str, Any]]) -> str | None:
    """Links what a checkpoint's collections hold into an artifact's folder; returns a hash of all of it, if any.

    Args:
        target: The artifact's folder.
        generation: The checkpoint's folder, below checkpoints/.
        states: What the data of each rank saved.
    """
    own = [state["frames"] for state in states if "frames" in state]
    if not own:
        return None
    parts: list[dict[str, Any]] = []
    previous = own[0]["previous"]
    if previous is not None:
        about = read_frames_meta(previous)
        parts += about["parts"]
        for part in about["parts"]:
            for record in part["segments"]:
                _link(about["folder"] / record["file"], target)
    for rank, state in enumerate(own):
        folder = generation.parent / "replay" / f"rank-{rank}"
        for record in state["log"]["segments"]:
            _link(folder / record["file"], target)
        parts.append({**state["log"], "sha256": content_hash(state["log"], folder)})
    (target / FRAMES).write_text(json.dumps({"spec": own[0]["spec"], "parts": parts}, indent=1))
    together = json.dumps([own[0]["spec"], [part["sha256"] for part in parts]])
    return hashlib.sha256(together.encode()).hexdigest()


def content_hash(log: dict[str, Any], folder: Path) -> str:
    """Of the rows of a collection, however many segments they were saved in: a stop in between changes nothing."""
    store, hashes = SegmentStore(folder), {name: hashlib.sha256() for name in COLUMNS}
    for record in log["segments"]:
        for name, rows in store.read(record).items():
            hashes[name].update(rows.numpy().tobytes())
    whole = [log["count"], log["parts"], *(each.hexdigest() for each in hashes.values())]
    return hashlib.sha256(json.dumps(whole).encode()).hexdigest()


def _link(source: Path, folder: Path) -> None:
    """A second name for the same bytes; a copy where the disk knows no such thing."""
    target = folder / source.name
    if target.exists():
        return
    try:
        os.link(source, target)
    except OSError:
        try:
            shutil.copy2(source, target)
        except OSError as error:
            raise ResumeError(f"{source}: cannot be handed on ({error.strerror})") from None
