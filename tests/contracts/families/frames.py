"""Rows for what is learned from frames: a world, its reward head, and agents inside it."""

from functools import partial
from pathlib import Path
from typing import Any

import torch
from contracts.artifacts import FOLDER, artifact, walks_file
from contracts.case import Case, env

from rl_lightning.algorithms import DQN, PPO, NextFrame, RandomPolicy, RewardModel
from rl_lightning.behaviors.random_actor import random_actor
from rl_lightning.datamodules import (
    FrameCollectionData,
    FrameWindowData,
    RewardStepData,
    SimulatedData,
    SimulatedReplayData,
)
from rl_lightning.envs.make import EnvConfig, make_envs
from rl_lightning.envs.wrappers.transforms import FrameStack, GrayLevelIndex
from rl_lightning.functional.reward_classes import ClassBalancedFocal
from rl_lightning.models.frames.frame_world import NextFramePredictor
from rl_lightning.nn import PaletteCNN
from rl_lightning.nn.frames.reward_net import MeanRewardNet, SpatialRewardNet
from rl_lightning.replay import Replay
from rl_lightning.replay.frames.frame_artifacts import write_frames
from rl_lightning.replay.frames.frame_log import FrameLog
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.rollout.collect import Collector

SMALL = env("rl/Catch-v0", GrayLevelIndex(), FrameStack(2), rows=5, columns=5)
CBF = ClassBalancedFocal()
RECIPE = partial(
    NextFramePredictor,
    colors=3,
    embed_dim=3,
    base_channels=6,
    compress_steps=1,
    filter_double_steps=1,
    bottleneck_bits=16,
    latent_filters=(6, 6),
    latent_state_size=8,
)


def frames_artifact(folder: Path, config: EnvConfig = SMALL, steps: int = 200) -> str:
    """What a stage that collected by random actions leaves."""
    envs = make_envs(config, 2)
    collector = Collector(envs, 0)
    log = FrameLog(envs.env_spec)
    log.add(collector.collect(random_actor(envs.env_spec), steps, torch.Generator().manual_seed(0)))
    replay = folder / "checkpoints" / "replay" / "rank-0"
    spec = [list(part) if isinstance(part, tuple) else part for part in envs.env_spec]
    state = {"frames": {"log": log.save(SegmentStore(replay)), "previous": None, "spec": spec}}
    artifact = folder / "artifact"
    artifact.mkdir(parents=True)
    write_frames(artifact, folder / "checkpoints" / "last-1", [state])
    return str(artifact)


def world_artifact(folder: Path, config: EnvConfig = SMALL, **more) -> str:
    """What a stage that learned a (very poor) world leaves."""
    torch.manual_seed(0)
    spec = make_envs(config, 1).env_spec
    world = RECIPE(spec, reward_net=SpatialRewardNet, predict_termination=True, **more)
    world.latent_anneal.fill_(1.0)
    return artifact(folder, {"world": (world, world.exported(""))})


FRAMES = frames_artifact(FOLDER / "frames")
WORLD = world_artifact(FOLDER / "frame-world")
REMEMBERS = world_artifact(FOLDER / "frame-world-remembers", recurrent_state_size=2)
AGENT = {
    "network": partial(
        PaletteCNN, gray_levels=[0, 128, 255], channels=[6], kernel_sizes=[3], strides=[1], hidden_dim=16
    )
}
given = {"env": SMALL, "frames_from": FRAMES}
dream = {**given, "world_from": WORLD, "num_envs": 4, "horizon": 5}

within = partial(FrameWindowData, **given, sequence_length=3, batch_size=4, updates_per_block=4)
LEARNS: dict[str, Any] = {
    "optimizers": (("world.",),), "counters": ("gradient_steps", "world.latent_anneal"), "length": 32,
    # on frames this small attention looks at a single place
    "still": ("maps.weight", "maps.bias"),
}  # fmt: skip
REWARDS: dict[str, Any] = {"optimizers": (("reward_net.",),), "length": 32}
SHARED: dict[str, Any] = {"optimizers": (("torso.", "policy.", "value."),), "length": 24, "waits": 4}

CASES = [
    Case(
        "next-frame",
        within,
        partial(
            NextFrame,
            predictor=partial(RECIPE, reward_net=SpatialRewardNet, predict_termination=True),
            scheduled_sampling_decay_steps=4,
            eval_rows=16,
            reward_loss=CBF,
        ),
        **LEARNS,
        waits=519,
    ),
    Case(
        "next-frame-remembers",
        partial(
            within,
            event_fraction=0.5,
            rare_pixel_threshold=0.05,
            dataset=walks_file(FOLDER / "catch.hdf5", SMALL),
        ),
        partial(
            NextFrame,
            predictor=partial(RECIPE, reward_net=MeanRewardNet, recurrent_state_size=2),
            scheduled_sampling_decay_steps=4,
            eval_rows=16,
            rare_pixel_weight=3.0,
            rare_pixel_threshold=0.05,
        ),
        **LEARNS,
        waits=472,
    ),
    Case(
        "reward-head",
        partial(RewardStepData, **given, batch_size=8, updates_per_block=8),
        partial(RewardModel, world_from=WORLD, eval_rows=50),
        **REWARDS,
        waits=22,
    ),
    Case(
        "reward-head-remembers",
        partial(RewardStepData, **given, batch_size=8, updates_per_block=8),
        partial(
            RewardModel,
            world_from=REMEMBERS,
            eval_rows=50,
            reward_net=MeanRewardNet,
            reward_loss=CBF,
        ),
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
            n_epochs=2,
            deterministic_eval=True,
            eval_temperature=0.5,
        ),
        **SHARED,
        copies=2,
    ),
    Case(
        "ppo-simulated-remembers",
        partial(
            SimulatedData,
            **{**dream, "world_from": REMEMBERS},
            rollout_steps=4,
            truncation_value="world_model",
        ),
        partial(PPO, **AGENT, share_network=True, minibatch_size=8, n_epochs=1),
        **SHARED,
        copies=2,
    ),
    Case(
        "dqn-simulated",
        partial(
            SimulatedReplayData,
            **dream,
            batch_size=8,
            buffer=partial(Replay, capacity=500),
            learning_starts=16,
            train_every=4,
            utd_ratio=0.5,
        ),
        partial(DQN, **AGENT, target_every=5),
        (("q.",),),
        targets=("q_target.",),
        counters=("since_copy",),
        blocks=6,
        length=24,
        waits=2,
        copies=3,
    ),
    Case(
        "collect",
        partial(FrameCollectionData, env=SMALL, frames_from=FRAMES, num_envs=2, rollout_steps=8),
        partial(PPO, **AGENT, collect_temperature=0.5),
        updates=False,
        copies=2,
    ),
    Case(
        "explore",
        partial(FrameCollectionData, env=SMALL, rollout_steps=8),
        partial(RandomPolicy, max_action_repeat=3),
        updates=False,
    ),
]
