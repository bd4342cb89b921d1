"""Where frames come from that nothing here collects: an earlier stage's artifact, a recording, or both."""

from __future__ import annotations

from rl_lightning.datasets.in_memory import DatasetLike, look_at
from rl_lightning.envs.make import EnvConfig
from rl_lightning.errors import ConfigError
from rl_lightning.io.artifact_place import Artifact
from rl_lightning.models.frames.frame_world import frame_shape
from rl_lightning.replay.frames.frame_artifacts import load_frames
from rl_lightning.replay.frames.frame_log import FrameLog
from rl_lightning.replay.frames.recorded_frames import log_of_dataset
from rl_lightning.replay.recorded_sequences import check_recorded, read_recorded
from rl_lightning.types import EnvSpec


class AllFrames:
    """Frames that an earlier stage collected, recorded ones, or both, the recorded ones first.

    Args:
        env: What the frames are of.
        spec: Of it.
        artifact: Of the newest collection; null: nothing was collected.
        dataset: What was recorded; null: nothing.
    """

    def __init__(
        self, env: EnvConfig, spec: EnvSpec, artifact: Artifact | None, dataset: DatasetLike | None
    ) -> None:
        if artifact is None and dataset is None:
            raise ConfigError(
                "no frames: give data.frames_from, the artifact of a collection, or data.dataset, recorded episodes"
            )
        frame_shape(spec)
        self.palette, self.spec, self.artifact = env.palette, spec, artifact
        self.recorded = None if dataset is None else look_at(dataset)
        if self.recorded is not None:
            check_recorded(self.recorded, spec)

    def __str__(self) -> str:
        names = [] if self.recorded is None else [self.recorded.name]
        return " and ".join(names if self.artifact is None else [*names, str(self.artifact)])

    def read(self, learner: str) -> FrameLog:
        """All frames."""
        if self.recorded is None:
            assert self.artifact is not None
            return load_frames(self.artifact, self.spec)
        log = log_of_dataset(read_recorded(self.recorded, learner), self.spec, self.palette)
        if self.artifact is not None:
            log.extend(load_frames(self.artifact, self.spec))
        return log
