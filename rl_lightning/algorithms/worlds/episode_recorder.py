"""Records episodes of a fixed policy: the first stage of what learns from pictures alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rl_lightning.algorithms.acting import Acting
from rl_lightning.algorithms.model_module import ModelModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.artifacts import Exported
from rl_lightning.behaviors.behavior_policies import BehaviorFactory, BehaviorPolicy, BrownianActions
from rl_lightning.factories import make
from rl_lightning.models.world_models.episode_store import Recording
from rl_lightning.types import Carry, EnvSpec


class EpisodeRecorder(Acting, ModelModule):  # type: ignore[misc]  # as RLModule
    """Plays a policy that needs no training and keeps what it saw. The episodes are its artifact.

    Args:
        spec: What the env is like; filled in from the data.
        policy: Who plays.
    """

    def __init__(self, spec: EnvSpec, policy: BehaviorFactory = BrownianActions) -> None:
        super().__init__(spec)
        self.policy = make(policy, BehaviorPolicy, "policy", spec)
        self.recording = Recording.from_spec(spec)

    def initial_carry(self, count: int) -> Carry:
        return self.policy.initial_carry(count)

    def act(
        self, obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        return self.policy.act(obs, carry, generator, mask)

    def update(self, batch: dict[str, Any]) -> Metrics:
        self.recording.append(batch)
        return {"collect/transitions": torch.tensor(float(len(self.recording)))}

    def validate(self, data: Any) -> dict[str, float]:
        """The score is the policy's return: what a learned controller must clear."""
        rows, episodes = self.recording, max(1, self.recording.episodes)
        score = float(rows.reward.double().sum()) / episodes
        length = (len(rows) - episodes) / episodes
        return {"eval/score": score, "eval/length": length, "eval/episodes": float(rows.episodes)}

    def exports(self) -> dict[str, Exported]:
        return {"recording": self.recording.exported("recording.")}

    def configure_optimizers(self) -> None:
        return None
