"""Records episodes of a fixed policy: the first stage of what learns from pictures alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rl_lightning.algorithms.acting import Acting
from rl_lightning.algorithms.model_module import ModelModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.artifacts import Provided
from rl_lightning.behaviors.behavior_policies import BrownianActions, DataPolicy
from rl_lightning.models.world_models.episode_store import Recording
from rl_lightning.types import Carry, EnvSpec


class Record(Acting, ModelModule):  # type: ignore[misc]  # as RLModule
    """Plays a policy that needs no training and keeps what it saw. The episodes are its product.

    Args:
        spec: What the env is like; filled in from the data.
        policy: Who plays; null: actions that drift.
    """

    def __init__(self, spec: EnvSpec, policy: DataPolicy | None = None) -> None:
        super().__init__(spec)
        self.policy = policy or BrownianActions()
        self._act = self.policy.build(spec)
        self.recording = Recording.of(spec)

    def initial_carry(self, count: int) -> Carry:
        return self.policy.initial_carry(self.spec, count)

    def act(
        self, obs: Tensor, carry: Carry, explore: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        return self._act(obs, carry, explore, mask)

    def update(self, batch: dict[str, Any]) -> Metrics:
        self.recording.append(batch)
        return {"train/rows": torch.tensor(float(len(self.recording)))}

    def assess(self, data: Any) -> dict[str, float]:
        """The score is the policy's return: what a learned controller must clear."""
        rows, episodes = self.recording, max(1, self.recording.episodes)
        score = float(rows.reward.double().sum()) / episodes
        length = (len(rows) - episodes) / episodes
        return {"eval/score": score, "eval/length": length, "eval/episodes": float(rows.episodes)}

    def provides(self) -> dict[str, Provided]:
        return {"recording": self.recording.provided("recording.")}

    def configure_optimizers(self) -> None:
        return None
