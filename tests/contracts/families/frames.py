"""Rows for what is learned from frames: a world, its reward head, and agents inside it."""

from functools import partial
from pathlib import Path
from typing import Any

import torch
from contracts.artifacts import FOLDER, product
from contracts.case import Case, env

from rl_lightning.algorithms import DQN, PPO, NextFrame, RandomPolicy, RewardHead
from rl_lightning.behaviors.random_actor import random_actor
from rl_lightning.datamodules import CollectFrames, FrameWindows, RewardSteps, SimulatedData, SimulatedReplay
from rl_lightning.envs.make import EnvConfig, make_envs
from rl_lightning.envs.wrappers.transforms import Indexed, Stack
from rl_lightning.models.frames.frame_world import NextFramePredictor
from rl_lightning.nn import PaletteCNN
from rl_lightning.replay import Replay
from rl_lightning.replay.frames.frame_artifacts import put_frames
from rl_lightning.replay.frames.frame_log import FrameLog
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.rollout.collect import Collector

SMALL = env("rl/Catch-v0", Indexed(), Stack(2), rows=5, columns=5)
RECIPE = partial(
    NextFramePredictor,
    colors=3,
    embedding=3,
    width=6,
    levels=1,
    doublings=1,
    bits=16,
    latent_filters=(6, 6),
    latent_width=8,
)


def frames_product(folder: Path, config: EnvConfig = SMALL, steps: int = 200) -> str:
    """What a stage that collected by random actions leaves."""
    envs = make_envs(config, 2)
    collector = Collector(envs, 0)
    log = FrameLog(envs.env_spec)
    log.add(collector.collect(random_actor(envs.env_spec), steps, torch.Generator().manual_seed(0)))
    replay = folder / "checkpoints" / "replay" / "rank-0"
    spec = [list(part) if isinstance(part, tuple) else part for part in envs.env_spec]
    state = {"frames": {"log": log.save(SegmentStore(replay)), "previous": None, "spec": spec}}
    product = folder / "product"
    product.mkdir(parents=True)
    put_frames(product, folder / "checkpoints" / "last-1", [state])
    return str(product)


def world_product(folder: Path, config: EnvConfig = SMALL, **more) -> str:
    """What a stage that learned a (very poor) world leaves."""
    torch.manual_seed(0)
    world = RECIPE(reward_head="spatial", ends=True, **more).build(make_envs(config, 1).env_spec)
    world.certain.fill_(1.0)
    return product(folder, {"world": (world, world.provided(""))})


FRAMES = frames_product(FOLDER / "frames")
WORLD = world_product(FOLDER / "frame-world")
REMEMBERS = world_product(FOLDER / "frame-world-remembers", state_size=2)
AGENT = {"network": PaletteCNN([0, 128, 255], [6], [3], [1], hidden=16)}
given = {"env": SMALL, "frames": FRAMES}
dream = {**given, "world": WORLD, "num_envs": 4, "horizon": 5}

within = partial(FrameWindows, **given, length=3, batch_size=4, updates_per_block=4)
LEARNS: dict[str, Any] = {
    "optimizers": (("world.",),), "counters": ("gradient_steps", "world.certain"), "length": 32,
    # on frames this small attention looks at a single place
    "still": ("maps.weight", "maps.bias"),
}  # fmt: skip
REWARDS: dict[str, Any] = {"optimizers": (("head.",),), "length": 32}
SHARED: dict[str, Any] = {"optimizers": (("torso.", "policy.", "value."),), "length": 24, "waits": 4}

CASES = [
    Case(
        "next-frame",
        within,
        partial(
            NextFrame,
            network=RECIPE(reward_head="spatial", ends=True),
            decay_steps=4,
            checked=16,
            reward_loss="cbf",
        ),
        **LEARNS,
        waits=519,
    ),
    Case(
        "next-frame-remembers",
        partial(within, turning=0.5, rare_share=0.05),
        partial(
            NextFrame,
            network=RECIPE(reward_head="mean", state_size=2),
            decay_steps=4,
            checked=16,
            rare_weight=3.0,
            rare_share=0.05,
        ),
        **LEARNS,
        waits=472,
    ),
    Case(
        "reward-head",
        partial(RewardSteps, **given, batch_size=8, updates_per_block=8),
        partial(RewardHead, world=WORLD, checked=50),
        **REWARDS,
        waits=22,
    ),
    Case(
        "reward-head-remembers",
        partial(RewardSteps, **given, batch_size=8, updates_per_block=8),
        partial(RewardHead, world=REMEMBERS, checked=50, head="mean", reward_loss="cbf"),
        **REWARDS,
        waits=14,
    ),
    Case(
        "ppo-simulated",
        partial(SimulatedData, **dream, rollout_steps=4),
        partial(
            PPO,
            **AGENT,
            share_network=True,
            minibatch_size=8,
            epochs=2,
            explore_in_evaluation=True,
            eval_temperature=0.5,
        ),
        **SHARED,
        copies=2,
    ),
    Case(
        "ppo-simulated-remembers",
        partial(SimulatedData, **{**dream, "world": REMEMBERS}, rollout_steps=4, bootstrap="world"),
        partial(PPO, **AGENT, share_network=True, minibatch_size=8, epochs=1),
        **SHARED,
        copies=2,
    ),
    Case(
        "dqn-simulated",
        partial(
            SimulatedReplay,
            **dream,
            batch_size=8,
            buffer=Replay(500),
            learning_starts=16,
            train_every=4,
            update_ratio=0.5,
        ),
        partial(DQN, **AGENT, target_every=5),
        (("q.",),),
        targets=("q_slow.",),
        counters=("since_copy",),
        blocks=6,
        length=24,
        waits=2,
        copies=3,
    ),
    Case(
        "collect",
        partial(CollectFrames, env=SMALL, frames=FRAMES, num_envs=2, rollout_steps=8),
        partial(PPO, **AGENT, temperature=0.5),
        updates=False,
        copies=2,
    ),
    Case(
        "explore",
        partial(CollectFrames, env=SMALL, rollout_steps=8),
        partial(RandomPolicy, hold=3),
        updates=False,
    ),
]
