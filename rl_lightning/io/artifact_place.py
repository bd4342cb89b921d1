"""Where an artifact lies, however it is named: a run, RUN/STAGE, a folder or a file. Needs no torch."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from rl_lightning.errors import ResumeError
from rl_lightning.io.nearness import nearest

Artifact = str | Path  # what names one: a run, RUN/STAGE, or a path to any of its folders or files
ABOUT, FRAMES = "artifact.json", "frames.json"


def logs_root() -> Path:
    """Where runs live: RL_LOGS, or lightning_logs below the current folder."""
    return Path(os.environ.get("RL_LOGS") or "lightning_logs")


class ArtifactPlace(NamedTuple):
    """What a stage or run hands on.

    Args:
        path: Its folder, or the file of a checkpoint.
        config: config.yaml of the stage or run that left it.
    """

    path: Path
    config: Path

    @property
    def digest(self) -> str:
        """A hash of what it holds, frames among it."""
        return (
            self.weights_digest
            if self.path.is_file()
            else str(_about(self.path).get("digest", self.weights_digest))
        )

    @property
    def weights_digest(self) -> str:
        if self.path.is_dir():
            return str(_about(self.path).get("sha256", ""))
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def locate_artifact(name: str | Path, wanted: str = "") -> ArtifactPlace:
    """The artifact called so: by a run's name, RUN/STAGE, or a path to any of its folders or files.

    Args:
        name: What a user or a config calls it.
        wanted: What it must export, or frames; of a pipeline the last stage with such an artifact is taken.
    """
    there = find_artifact(name, wanted)
    if there is not None:
        return there
    runs = logs_root()
    if Path(name).expanduser().exists() or (runs / name).exists():
        raise ResumeError(
            f"{name}: no artifact of a stage: nothing that can be used here is finished or saved in it; give a run, "
            "RUN/STAGE, the folder of an artifact or a checkpoint"
        )
    names = [path.name for path in runs.iterdir() if path.is_dir()] if runs.is_dir() else []
    near = nearest(str(name), names, 1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    raise ResumeError(f"{name}: no artifact of a stage: neither a path nor a run below {runs}{hint}")


def find_artifact(name: str | Path, wanted: str = "") -> ArtifactPlace | None:
    """The same; None where there is none."""
    for place in (logs_root() / name, Path(name).expanduser()):
        if place.exists() and (there := _in(place, wanted)) is not None:
            return there
    return None


def _in(place: Path, wanted: str) -> ArtifactPlace | None:
    """What a file or folder holds: an artifact, a checkpoint, those of a run, or of a pipeline's stages."""
    if place.is_file():
        of_checkpoint = ArtifactPlace(place, _config_above(place)) if place.suffix == ".ckpt" else None
        return of_checkpoint or (_in(place.parent, wanted) if (place.parent / ABOUT).is_file() else None)
    for folder in (place, place / "artifact"):
        if (folder / ABOUT).is_file() or (wanted == "frames" and (folder / FRAMES).is_file()):
            return ArtifactPlace(folder, folder / "config.yaml")
    saved = [place / "model.ckpt", place / "checkpoints" / "best.ckpt"]
    saved += [path / "model.ckpt" for path in sorted((place / "checkpoints").glob("last-*"), reverse=True)]
    for file in saved:
        if file.is_file():
            return ArtifactPlace(file, _config_above(file))
    return _of_stages(place, wanted)


def _of_stages(pipeline: Path, wanted: str) -> ArtifactPlace | None:
    """The artifact of the last stage that is done and has what is wanted."""
    try:
        jobs = json.loads((pipeline / "pipeline.json").read_text(encoding="utf-8"))["jobs"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    folders = [pipeline / key / "artifact" for key in reversed(jobs)]
    folders = [folder for folder in folders if (folder / ABOUT).is_file() and _has(folder, wanted)]
    return ArtifactPlace(folders[0], folders[0] / "config.yaml") if folders else None


def _has(folder: Path, wanted: str) -> bool:
    if wanted == "frames":
        return (folder / FRAMES).is_file()
    return not wanted or wanted in (_about(folder).get("exports") or {})


def _about(folder: Path) -> dict[str, Any]:
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ResumeError(f"{folder}: no artifact of a stage ({error})") from None
    return about if isinstance(about, dict) else {}


def _config_above(checkpoint: Path) -> Path:
    """config.yaml of the run that a checkpoint belongs to."""
    above = [folder / "config.yaml" for folder in checkpoint.resolve().parents[:3]]
    return next((path for path in above if path.is_file()), above[-1])
