"""Playing to record: whole episodes, handed to a module that keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rl_lightning import distributed
from rl_lightning.clock.run_clock import RunClock
from rl_lightning.datamodules.bases.env_data import EnvData
from rl_lightning.envs.own_envs import EnvLike
from rl_lightning.ranges import PositiveInt
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.rollout.episode_splitter import EpisodeSplitter, joined


class EpisodeRecorderData(EnvData):
    """Plays with the module's own policy and hands it every finished episode.

    Args:
        env: The environment and all that is wrapped around it.
        num_envs: Training envs of one process.
        steps_per_block: Steps of each env between two looks at what has ended.
        vectorization: sync (one after the other), async (a process each) or native (Atari's own C++ vector).
    """

    def __init__(
        self,
        env: EnvLike,
        num_envs: PositiveInt = 8,
        steps_per_block: PositiveInt = 100,
        vectorization: str = "sync",
    ) -> None:
        super().__init__(env, num_envs, vectorization)
        self.steps_per_block = steps_per_block

    def open(self, stage: str) -> None:
        fresh = self.collector is None
        super().open(stage)
        if stage == "fit" and fresh:
            self.cutter = EpisodeSplitter(self.num_envs)

    def batches(self) -> Iterator[Any]:
        episodes = self.cutter.add(self.collect(self.agent.act_fn(), self.steps_per_block))
        # Every rank keeps the episodes of all, so that any of them can hand the recording on.
        gathered = [rows for part in distributed.gather_objects(episodes) for rows in part]
        if gathered:
            yield joined(gathered)

    def forecast(self, clock: RunClock) -> tuple[int, int]:
        return self.steps_per_block * self.env_steps_per_vector_step, 1

    def save(self, store: SegmentStore) -> dict[str, Any]:
        return super().save(store) | {"cutter": self.cutter.state_dict()}

    def load(self, state: dict[str, Any], store: SegmentStore) -> None:
        super().load(state, store)
        self.cutter.load_state_dict(state["cutter"])
        for env in self.restarted:
            self.cutter.drop(env)
