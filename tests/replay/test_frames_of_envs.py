"""Frames stored once, behind real envs that stack: what is sampled is what the agent saw."""

import contracts.toys  # noqa: F401
import numpy as np
import pytest
import torch

from rl_lightning.behaviors.random_actor import random_actor
from rl_lightning.envs.make import EnvConfig, make_envs
from rl_lightning.envs.wrappers.transforms import AtariPreprocessing, FrameStack
from rl_lightning.replay.frames.frame_buffer import FrameBuffer
from rl_lightning.rollout.collect import Collector

FRAMES = EnvConfig("tests/Frames-v0", {"length": 7, "jitter": 5}, transforms=[FrameStack(3)])
CUT = EnvConfig("tests/Frames-v0", {"length": 7, "jitter": 5, "truncate": True}, transforms=[FrameStack(3)])
LIMIT = EnvConfig(
    "tests/Frames-v0", {"length": 9, "jitter": 5}, max_episode_steps=6, transforms=[FrameStack(2)]
)
BREAKOUT = EnvConfig("ALE/Breakout-v5", transforms=[AtariPreprocessing(screen_size=36)])


def same_as_played(config: EnvConfig, vectorization: str, per_env: int, turns: list[int]) -> None:
    envs = make_envs(config, 2, vectorization)
    try:
        collector, buffer = Collector(envs, seed=1), FrameBuffer(envs.env_spec, 2, 2 * per_env)
        act, explore, played = random_actor(envs.env_spec), torch.Generator().manual_seed(0), []
        for steps in turns:
            rows = collector.collect(act, steps, explore)
            following = np.concatenate([rows.obs[1:], rows.last_obs[None]])
            for t, n, last in rows.ends:
                following[t, n] = last
            done = rows.terminated
            played += [(rows.obs[t, n], following[t, n], done[t, n]) for t in range(steps) for n in range(2)]
            buffer.add(rows)
        seen = {(obs.tobytes(), after.tobytes(), bool(end)) for obs, after, end in played}
        index = torch.arange(buffer.capacity)
        index = index[buffer.valid(index)]
        assert len(index) > per_env
        rows = buffer.gather(index, 1, 0.9)
        for obs, after, end in zip(
            rows.obs.numpy(), rows.next_obs.numpy(), rows.terminated.bool(), strict=True
        ):
            assert (obs.tobytes(), after.tobytes(), bool(end)) in seen
    finally:
        envs.close()


@pytest.mark.parametrize("vectorization", ["sync", "async"])
@pytest.mark.parametrize("config", [FRAMES, CUT, LIMIT], ids=["ends", "cut", "limit"])
def test_stacks_are_those_of_the_env(config, vectorization):
    same_as_played(config, vectorization, 40, [1, 13, 20, 30])


@pytest.mark.parametrize("vectorization", ["sync", "native"])
def test_stacks_are_those_of_atari_also_where_a_life_is_lost(vectorization):
    pytest.importorskip("ale_py")
    same_as_played(BREAKOUT, vectorization, 150, [40, 150])
