"""What a run begins with: nothing, a checkpoint to resume exactly, or another run's weights."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

from rl_lightning.checkpoints.checkpoint_store import CheckpointStore, verify
from rl_lightning.errors import ResumeError
from rl_lightning.io.artifact_place import locate_artifact, logs_root
from rl_lightning.io.checkpoint_files import read_file
from rl_lightning.runs.store.run_folder import Run, resolve

MODES = ("exact", "warm_start", "warm_start_optimizer")


class RunStart(NamedTuple):
    """Where a run starts.

    Args:
        generation: Folder to resume exactly from.
        weights: State dict to begin with.
        optimizers: Optimizer states to begin with.
        reset_lr: Take the config's learning rates instead of the checkpoint's.
    """

    generation: Path | None = None
    weights: dict[str, Any] | None = None
    optimizers: list[dict[str, Any]] | None = None
    reset_lr: bool = False


def newest(run: Run) -> Path:
    """The newest whole generation of a run; damaged ones are told of."""
    folder, wrong = CheckpointStore(run.folder / "checkpoints").newest_valid()
    for line in wrong:
        print(f"note: passed over {line}", file=sys.stderr)
    return folder


def start_from(source: str | None, mode: str, reset_lr: bool = False) -> RunStart:
    """The start that `ckpt_path` and `resume_mode` ask for. A path, or the name of a run."""
    if source is None:
        return RunStart()
    if mode == "exact":
        path = Path(source).expanduser()
        return RunStart(_generation(path if path.exists() else resolve(source).folder), reset_lr=reset_lr)
    if mode == "warm_start":
        return RunStart(weights=_weights(locate_artifact(source).path))
    state = _state_with_optimizers(source)
    if state.get("optimizer_states") is None:
        raise ResumeError(f"{source} holds weights but no optimizers; use --resume_mode warm_start")
    return RunStart(weights=state["state_dict"], optimizers=state["optimizer_states"])


def _generation(path: Path) -> Path:
    folder = path.parent if path.is_file() else path
    if not (folder / "meta.json").is_file():
        if path.is_file() or not (folder / "checkpoints").is_dir():
            raise ResumeError(
                f"{path} is not a checkpoint to resume exactly from; use --resume_mode warm_start for its weights alone"
            )
        return newest(Run(folder))
    verify(folder)
    return folder


def _weights(place: Path) -> dict[str, Any]:
    """Those of an artifact's folder or of a checkpoint's file."""
    if place.is_dir():
        from rl_lightning.runs.pipeline.stage_artifact import read_artifact

        return dict(read_artifact(place)[0])
    return dict(_checkpoint(place)["state_dict"])


def _checkpoint(file: Path) -> dict[str, Any]:
    if (file.parent / "meta.json").is_file():
        verify(file.parent, replay=False)
    state = read_file(file)
    if not isinstance(state, dict) or not isinstance(state.get("state_dict"), dict):
        raise ResumeError(f"{file}: holds no weights of a model")
    return state


def _state_with_optimizers(source: str) -> dict[str, Any]:
    """Of a run, its newest checkpoint: the best one is of weights alone, and so is an artifact."""
    path = Path(source).expanduser()
    path = path if path.exists() else logs_root() / source
    stage = path.resolve().parent if (path / "artifact.json").is_file() else path
    if (stage / "checkpoints").is_dir():
        return _checkpoint(newest(Run(stage)) / "model.ckpt")
    place = locate_artifact(source).path
    return _checkpoint(place) if place.is_file() else {}


def load_weights(model: Any, weights: dict[str, Any]) -> None:
    """Puts weights into a model, or says in a line what does not fit."""
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise ResumeError(f"the weights do not fit this model: {lines[-1]}") from None
