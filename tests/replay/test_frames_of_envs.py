"""Frames stored once, behind real envs that stack: what is sampled is what the agent saw."""

import contracts.toys  # noqa: F401
import numpy as np
import pytest
import torch

from rl_lightning.behaviors.random_actor import random_actor
from rl_lightning.envs.make import EnvConfig, make_envs
from rl_lightning.envs.wrappers.transforms import AtariPreprocessing, FrameStack
from rl_lightning.observations import ObsLayout
from rl_lightning.replay import Replay
from rl_lightning.replay.frames.frame_buffer import FrameBuffer
from rl_lightning.rollout.collect import Collector

FRAMES = EnvConfig("tests/Frames-v0", {"length": 7, "jitter": 5}, transforms=[FrameStack(3)])
CUT = EnvConfig("tests/Frames-v0", {"length": 7, "jitter": 5, "truncate": True}, transforms=[FrameStack(3)])
LIMIT = EnvConfig(
    "tests/Frames-v0", {"length": 9, "jitter": 5}, max_episode_steps=6, transforms=[FrameStack(2)]
)
PARTS = EnvConfig("rl/Xor-v0", {"questions": 7}, transforms=[FrameStack(3)])
PARTS_LIMIT = EnvConfig(
    "rl/Xor-v0", {"questions": 9, "screen_size": 5}, max_episode_steps=6, transforms=[FrameStack(2)]
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
@pytest.mark.parametrize(
    "config",
    [FRAMES, CUT, LIMIT, PARTS, PARTS_LIMIT],
    ids=["ends", "cut", "limit", "parts", "parts with a limit"],
)
def test_stacks_are_those_of_the_env(config, vectorization):
    same_as_played(config, vectorization, 40, [1, 13, 20, 30])


@pytest.mark.parametrize("vectorization", ["sync", "native"])
def test_stacks_are_those_of_atari_also_where_a_life_is_lost(vectorization):
    pytest.importorskip("ale_py")
    same_as_played(BREAKOUT, vectorization, 150, [40, 150])


def test_pictures_of_a_dict_are_stacked_and_stored_once():
    envs = make_envs(PARTS, 1, "sync")
    spec = envs.env_spec
    assert spec.num_stack == 3 and dict((name, shape) for name, _, shape in spec.obs_parts) == {
        "image": (3, 16, 16),
        "proprio": (3,),
    }
    collector, buffer = Collector(envs, seed=1), Replay(spec, 1, 40).store
    rows = collector.collect(random_actor(spec), 20, torch.Generator().manual_seed(0))
    images = ObsLayout.of(spec.obs_parts).split(torch.from_numpy(rows.obs[:, 0]))["image"]
    assert torch.equal(images[0, 0], images[0, 2])  # an episode's first picture fills its stack
    assert torch.equal(images[1:6, :2], images[:5, 1:]) and not torch.equal(images[1, 1], images[1, 2])
    assert isinstance(buffer, FrameBuffer)
    assert buffer.frame.shape[2:] == (12 + 16 * 16,)  # of 3 vectors and one picture, not of three
