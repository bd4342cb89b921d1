"""What all DataModules with a live environment share: the envs, the collector and its generator."""

from __future__ import annotations

from typing import Any

from rl_lightning.behaviors.random_actor import random_actor, with_action_noise
from rl_lightning.clock.phases import Phase
from rl_lightning.datamodules.bases.rl_data import RLData
from rl_lightning.datasets.atari100k import game_of, human_normalized
from rl_lightning.envs.make import check_vectorization, make_envs, probe_spec
from rl_lightning.envs.own_envs import EnvLike, as_env_config
from rl_lightning.errors import ConfigError
from rl_lightning.observations import ObsLayout, ObsPart
from rl_lightning.ranges import PositiveInt
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.rollout.collect import ActFn, Collector
from rl_lightning.types import Steps

MOST_EVAL_ENVS = 16
LARGEST_PICTURE = 128  # side from which a picture is one that nobody made smaller


class EnvData(RLData):
    """Owns a vector of training envs, a vector of evaluation envs and the collector that walks the first.

    Args:
        env: The environment and all that is wrapped around it.
        num_envs: Training envs of one process.
        vectorization: sync (one after the other), async (a process each) or native (Atari's own C++ vector).
    """

    def __init__(self, env: EnvLike, num_envs: PositiveInt, vectorization: str) -> None:
        super().__init__()
        check_vectorization(vectorization)
        self.env = as_env_config(env)
        self.num_envs = num_envs
        self.vectorization = vectorization
        self.spec = probe_spec(self.env)
        self.collector: Collector | None = None
        self.restarted: list[int] = []  # envs that could not be restored and began a new episode
        self._eval_envs: Any = None

    def notes(self) -> list[str]:
        pictures = [part.shape for part in self._pictures() if max(part.shape[1:]) > LARGEST_PICTURE]
        if not pictures:
            return super().notes()
        _, height, width = pictures[0]
        preset = "env/atari" if self.env.id.startswith("ALE/") else "env/image"
        line = f"frames are {height} x {width} as the env draws them, which costs memory and time"
        return [*super().notes(), f"{line}; smaller ones: --config {preset}"]

    def _pictures(self) -> list[ObsPart]:
        if self.spec.is_pixels:
            return [ObsPart("obs", "picture", self.spec.obs_shape)]
        return [part for part in ObsLayout.of(self.spec.obs_parts).parts if part.kind == "picture"]

    def open(self, stage: str) -> None:
        if stage == "fit" and self.collector is None:
            self.collector = Collector(self.training_envs(), self.derive("envs"))
            self.collector.carry = self.agent.initial_carry(self.num_envs)
            self.explore = self.generator("explore")

    def training_envs(self) -> Any:
        """The vector that is trained in."""
        return make_envs(self.env, self.num_envs, self.vectorization)

    def actor(self, phase: Phase | None) -> ActFn:
        """Who acts while collecting in a phase."""
        if phase is None:
            return self.agent.act_fn()
        act = random_actor(self.spec) if phase.controller == "random" else self.agent.act_fn(phase.controller)
        return with_action_noise(act, phase.exploration_noise, self.spec) if phase.exploration_noise else act

    def collect(self, act: ActFn, steps: int, greedy: bool = False) -> Steps:
        """`steps` steps of every env; moves the clock."""
        assert self.collector is not None
        rows = self.collector.collect(act, steps, None if greedy else self.explore)
        ended = self.collector.drain()
        self.longest = max([self.longest, *(episode.length for episode in ended)])
        self.episodes += ended
        self.clock.env_step += steps * self.env_steps_per_vector_step
        return rows

    @property
    def env_steps_per_vector_step(self) -> int:
        """Env steps of one step of the vector."""
        return self.num_envs * self.spec.action_repeat * self.world_size

    def collect_hook(self, phase: Phase, collected: int) -> int:
        """A collect that reaches the budget ends there; with a larger one the rest of it follows."""
        wanted = (
            phase.collect_steps or self.default_collect_steps()
        ) - collected // self.env_steps_per_vector_step
        steps = self.clock.clip_steps(wanted, self.env_steps_per_vector_step)
        self.collect_in(phase, steps)
        return (wanted - steps) * self.env_steps_per_vector_step

    def default_collect_steps(self) -> int:
        """Steps of each env in one collect of a phase that does not say how many."""
        return 1

    def collect_in(self, phase: Phase, steps: int) -> None:
        """Collects and keeps `steps` steps of every env, as the phase says."""
        raise ConfigError(
            f"phase '{phase.name}': {type(self).__name__} has nowhere to keep what is collected"
        )

    def save(self, store: SegmentStore) -> dict[str, Any]:
        assert self.collector is not None
        state = {"explore": self.explore.get_state(), "collector": self.collector.state_dict()}
        return super().save(store) | state

    def load(self, state: dict[str, Any], store: SegmentStore) -> None:
        super().load(state, store)
        assert self.collector is not None
        self.explore.set_state(state["explore"])
        seed = self.derive(f"restart/{self.clock.env_step}")  # only envs that cannot be saved need it
        self.restarted = self.collector.load_state_dict(state["collector"], self.agent.device, seed)

    def eval_envs(self, episodes: int) -> Any:
        """Sync envs without what is meant for training only; the same ones serve every evaluation."""
        count = min(episodes, MOST_EVAL_ENVS)
        if self._eval_envs is None or self._eval_envs.num_envs != count:
            if self._eval_envs is not None:
                self._eval_envs.close()
            in_model = self.eval_model is not None
            self._eval_envs = (
                self.model_envs(count) if in_model else make_envs(self.env, count, "sync", training=False)
            )
        return self._eval_envs

    def scores(self, summary: dict[str, float]) -> dict[str, float]:
        """Of a game of Atari 100k: 0 for a random player, 1 for a human one."""
        game = game_of(self.spec.env_id)
        if game is None or self.eval_model is not None:
            return {}
        return {"eval/human_normalized_score": float(human_normalized(game, summary["eval/return"]))}

    def render_env(self) -> Any:
        if self.eval_model is not None:
            return self.filmed_model()
        return make_envs(self.env, 1, "sync", render_mode="rgb_array", training=False)

    def teardown(self, stage: str) -> None:
        for envs in (self.collector.envs if self.collector else None, self._eval_envs):
            if envs is not None:
                envs.close()
        self.collector = self._eval_envs = None
