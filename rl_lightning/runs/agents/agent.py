"""An agent as a run left it: model and data built from the run's config, weights from a checkpoint."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rl_lightning.errors import ResumeError
from rl_lightning.runs.config.compose import compose
from rl_lightning.runs.config.parsing import check_imports, parse_config
from rl_lightning.runs.pipeline.plan import set_key
from rl_lightning.runs.pipeline.relocate_inputs import relocate_inputs
from rl_lightning.runs.request import Request
from rl_lightning.runs.store.hub import PACKED
from rl_lightning.runs.store.run_folder import Run

if TYPE_CHECKING:
    from rl_lightning.runs.config.build import RLCLI


class LoadedAgent(NamedTuple):
    """A built model with its data, and where its weights came from."""

    cli: RLCLI
    run: Run | None
    title: str


def load_agent(
    run: Run | None, request: Request, which: str = "best", episodes: int | None = None
) -> LoadedAgent:
    """The agent of a run (its config, then the request's) with a checkpoint's weights; or a config's own.

    Args:
        run: The run, or the last stage of a pipeline; null: the overlays are the config.
        request: Overlays, overrides, imports and the checkpoint.
        which: The checkpoint where the request names none.
        episodes: Of each evaluation; null: as the run has it.
    """
    checkpoint = None
    if run is not None:
        check_imports(run.read(), request)
        checkpoint = run.checkpoint(request.checkpoint or which)
    base = [str(run.config_file)] if run is not None else []
    config = compose([*base, *request.overlays])
    if run is not None:
        config = unpacked(relocate_inputs(config, run.folder), run)
    cli = parse_config(config, request)
    if episodes:
        cli.config.run.eval_episodes = episodes
    cli.build()
    if checkpoint is not None:
        load_weights(cli.model, checkpoint)
    if run is not None and checkpoint is not None:
        file = checkpoint.parent.name if checkpoint.name == "model.ckpt" else checkpoint.name
        name = f"{run.command_name} · {file}"
    else:
        name = f"{request.overlays[-1]}, untrained"
    return LoadedAgent(cli, run, f"{name} · {type(cli.model).__name__} on {subject_of(cli.datamodule)}")


def subject_of(data: Any) -> str:
    """The env, or, where none is known, what was recorded."""
    return str(data.spec.env_id or getattr(data, "source", "") or "rows of its own")


def unpacked(config: dict[str, Any], run: Run) -> dict[str, Any]:
    """The config of a shared agent, with the artifacts that lie in its own folder."""
    packed = run.read().get("packed")
    config = copy.deepcopy(config)
    for dotted, name in packed.items() if isinstance(packed, dict) else ():
        if not re.fullmatch(r"[A-Za-z_][\w-]*", str(name)) or not str(dotted).startswith("model.init_args."):
            raise ResumeError(
                f"{run.folder}: its record packs '{name}' for '{dotted}', which is no artifact of its own"
            )
        set_key(config, str(dotted), str(run.folder / PACKED / name))
    return config


def load_weights(model: Any, path: Path) -> None:
    """Weights only: plain tensors, never code."""
    import pickle

    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        if path.suffix == ".safetensors":
            weights: Any = load_file(path)
        else:
            weights = torch.load(path, map_location="cpu", weights_only=True)["state_dict"]
    except (
        OSError,
        EOFError,
        RuntimeError,
        KeyError,
        TypeError,
        ValueError,
        SafetensorError,
        pickle.UnpicklingError,
    ) as error:
        if isinstance(error, pickle.UnpicklingError) and "Weights only" in str(error):
            raise ResumeError(f"{path}: holds more than weights and plain values; refused") from error
        raise ResumeError(f"{path}: is damaged or no checkpoint ({type(error).__name__})") from error
    try:
        model.load_state_dict(weights)
    except (RuntimeError, AttributeError, TypeError) as error:
        lines = [line.strip() for line in str(error).splitlines()[1:3]] or [str(error)]
        text = f"{path}: does not fit this {type(model).__name__}. Was the network or env changed?"
        raise ResumeError(f"{text}\n{lines[0][:200]}") from error
