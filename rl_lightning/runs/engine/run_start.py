"""What a run begins with: nothing, a checkpoint to resume exactly, or another run's weights."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

from rl_lightning.checkpoints.checkpoint_store import CheckpointStore, read_file, verify
from rl_lightning.errors import ResumeError
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
    path = Path(source).expanduser()
    if not path.exists():
        path = resolve(source).folder
    if mode == "exact":
        return RunStart(_generation(path), reset_lr=reset_lr)
    state = _state(path, mode)
    optimizers = state.get("optimizer_states") if mode == "warm_start_optimizer" else None
    if mode == "warm_start_optimizer" and optimizers is None:
        raise ResumeError(f"{path} holds weights but no optimizers; use --resume_mode warm_start")
    return RunStart(weights=state["state_dict"], optimizers=optimizers)


def _generation(path: Path) -> Path:
    folder = path.parent if path.is_file() else path
    if not (folder / "meta.json").is_file():
        if not (folder / "checkpoints").is_dir():
            raise ResumeError(
                f"{path} is not a checkpoint to resume exactly from; use --resume_mode warm_start for its weights alone"
            )
        return newest(Run(folder))
    verify(folder)
    return folder


def _state(path: Path, mode: str) -> dict[str, Any]:
    """Weights (and more) of an artifact, a checkpoint file, a generation, or a run."""
    if (path / "artifact.json").is_file():
        from rl_lightning.runs.pipeline.stage_artifact import read_artifact

        stage = path.resolve().parent
        if mode == "warm_start_optimizer" and (stage / "checkpoints").is_dir():
            return dict(read_file(newest(Run(stage)) / "model.ckpt"))
        return {"state_dict": read_artifact(path)[0]}
    if (path / "meta.json").is_file():
        verify(path, replay=False)
        path = path / "model.ckpt"
    elif path.is_dir():
        run = Run(path)
        path = newest(run) / "model.ckpt" if mode == "warm_start_optimizer" else run.checkpoint("best")
    state = read_file(path)
    if not isinstance(state, dict) or not isinstance(state.get("state_dict"), dict):
        raise ResumeError(f"{path}: holds no weights of a model")
    return state


def load_weights(model: Any, weights: dict[str, Any]) -> None:
    """Puts weights into a model, or says in a line what does not fit."""
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise ResumeError(f"the weights do not fit this model: {lines[-1]}") from None
