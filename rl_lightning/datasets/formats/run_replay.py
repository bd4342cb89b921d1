"""The replay of a run as a data set: what its checkpoints hold, by the run's name or the folder's path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rl_lightning.datasets.formats.pictures import PICTURE
from rl_lightning.datasets.formats.raw import PARTS, Raw
from rl_lightning.datasets.formats.replay_rows import replay_rows
from rl_lightning.errors import DataError, ResumeError
from rl_lightning.io.artifact_place import logs_root
from rl_lightning.io.checkpoint_files import read_file, read_meta
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.types import EnvSpec

PREFIX = "replay/"  # of the name of a data set that is a run's replay


def find_replay(name: str) -> Path | None:
    """The folder of a checkpoint that says what a replay holds; None where there is none.

    Args:
        name: RUN, RUN/STAGE, either with a checkpoint behind it (RUN/step-20000), or a path to one of these folders.
    """
    place = Path(name)
    places = (
        logs_root() / place,
        logs_root() / place.parent / "checkpoints" / place.name,
        place.expanduser(),
    )
    for folder in places:
        if (folder / "meta.json").is_file():
            return folder
        checkpoints = folder if folder.name == "checkpoints" else folder / "checkpoints"
        saved = [path for path in checkpoints.glob("last-*") if (path / "meta.json").is_file()]
        if saved:
            return max(saved, key=lambda path: path.name)
    return None


def is_run(folder: Path) -> bool:
    """Whether a folder is a run's, or one of its checkpoints."""
    return (folder / "meta.json").is_file() or any(folder.glob("checkpoints/last-*/meta.json"))


def replay_spec(folder: Path) -> EnvSpec:
    """What the rows of a checkpoint are like."""
    try:
        name, *rest = read_meta(folder)["spec"]
        return EnvSpec._make((name, *(_frozen(value) for value in rest)))
    except (ResumeError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{folder}: says nothing of its replay ({str(error)[:120]})") from None


def _frozen(value: Any) -> Any:
    return tuple(_frozen(part) for part in value) if isinstance(value, list) else value


def read_run_replay(folder: Path) -> Raw:
    """The rows of all ranks, one after the other."""
    spec, parts = replay_spec(folder), []
    meta = read_meta(folder)
    try:
        for rank in range(meta["ranks"]):
            state = read_file(folder / f"rank-{rank}.pt")["data"]
            saved = (state.get("buffers") or {}).get("replay")
            if saved is None:
                raise DataError(
                    f"run '{run_of(folder)}' keeps no replay ({meta.get('algorithm')}); SAC, DQN, Dreamer and TD-MPC do"
                )
            store = SegmentStore(folder.parent / "replay" / f"rank-{rank}")
            parts.append(replay_rows(saved, store, spec, len(state["collector"]["obs"]), str(folder)))
    except ResumeError as error:
        raise DataError(str(error)) from None
    about = f"the replay buffer of run {run_of(folder)} at {meta['env_step']} env steps"
    raw = parts[0] if len(parts) == 1 else joined(parts)
    return raw._replace(metadata=spec_metadata(spec) | {"env_id": spec.env_id, "replay": about})


def run_of(checkpoint: Path) -> str:
    """The run that a checkpoint's folder belongs to."""
    return checkpoint.resolve().parent.parent.name


def replay_digest(folder: Path) -> str:
    """Tells one checkpoint from another: its description names every file with its hash."""
    import hashlib

    return hashlib.sha256((folder / "meta.json").read_bytes()).hexdigest()


def replay_header(folder: Path) -> tuple[EnvSpec, dict[str, Any]]:
    """Shapes and metadata; no rows are read."""
    spec = replay_spec(folder)
    return spec, spec_metadata(spec) | {"env_id": spec.env_id}


def joined(parts: list[Raw]) -> Raw:
    """Rows of several recordings of one env, one after the other."""
    for part in parts[:-1]:  # what follows is another episode
        part.arrays["timeouts"][-1] |= not part.arrays["terminals"][-1]

    def join(group: str) -> dict[str, np.ndarray]:
        first = getattr(parts[0], group)
        return {key: np.concatenate([getattr(part, group)[key] for part in parts]) for key in first}

    return Raw("", join("arrays"), join("infos"))


def spec_metadata(spec: EnvSpec) -> dict[str, Any]:
    """What the metadata of rows say of their env."""
    metadata: dict[str, Any] = {"max_episode_steps": spec.max_episode_steps}
    if spec.is_bytes:
        metadata[PARTS] = [[name, kind, list(shape)] for name, kind, shape in spec.obs_parts]
    elif spec.is_pixels:
        metadata[PICTURE] = list(spec.obs_shape)
    if spec.action_kind == "continuous":
        return metadata | {"action_low": list(spec.action_low), "action_high": list(spec.action_high)}
    return metadata | {"action_sizes": list(spec.action_sizes)}
