"""Rows for the stages of World Models, each fed by small products of the stages before it."""

from functools import partial
from typing import Any

import torch
from contracts.artifacts import FOLDER, product
from contracts.case import Case, env

from rl_lightning.algorithms import MDNRNN, VAE, EvolveController, Record
from rl_lightning.artifacts import Provided
from rl_lightning.behaviors.behavior_policies import BrownianActions
from rl_lightning.datamodules import EvolveData, RecordedData, RecordingData
from rl_lightning.envs.make import make_envs
from rl_lightning.evolution.cmaes import CMAES
from rl_lightning.evolution.fitness import DreamFitness, RealFitness
from rl_lightning.models.world_models.episode_store import Recording
from rl_lightning.models.world_models.vision_memory import DreamWorld
from rl_lightning.rollout.collect import Collector
from rl_lightning.rollout.episode_splitter import EpisodeCutter, joined

DODGE = env("rl/Dodge-v0")
SIZES: dict[str, Any] = {"latent": 4, "depth": 2}
MEMORY: dict[str, Any] = {"hidden": 6, "mixtures": 2}


def recorded(steps: int = 120) -> str:
    envs = make_envs(DODGE, 2)
    spec = envs.env_spec
    collector, policy = Collector(envs, 0), BrownianActions()
    collector.carry = policy.initial_carry(spec, 2)
    played = collector.collect(policy.build(spec), steps, torch.Generator().manual_seed(0))
    rows = Recording.of(spec)
    rows.append(joined(EpisodeCutter(2).add(played)))
    envs.close()
    return product(FOLDER / "recording", {"recording": (rows, rows.provided(""))})


def dreamed() -> str:
    torch.manual_seed(0)
    world = DreamWorld({"channels": 1, **SIZES}, {"latent": 4, "action_dim": 3, **MEMORY})
    path = f"{type(world.vision).__module__}.{type(world.vision).__name__}"
    vision = (world.vision, Provided(path, world.vision.init_args(), ""))
    return product(FOLDER / "world", {"world": (world, world.provided("")), "vision": vision})


RECORDING, WORLD = recorded(), dreamed()
frames = partial(RecordedData, recording=RECORDING, env=DODGE, batch_size=8, updates_per_block=4)
evolve = partial(
    EvolveController, world=WORLD, **SIZES, **MEMORY, strategy=CMAES(population=6, sigma=0.5),
    reevaluate_every=3, reevaluate_rollouts=4,
)  # fmt: skip

ROWS = ("obs", "action", "reward", "terminated", "truncated", "is_first")
LEARNS: dict[str, Any] = {"length": 12}
PLAYS = {**LEARNS, "frozen": ("world.",), "counters": ("best",), "waits": 26, "copies": 4}

CASES = [
    Case(
        "record",
        partial(RecordingData, env=DODGE, num_envs=2, steps_per_block=16),
        Record,
        counters=tuple(f"recording.{name}" for name in ROWS),
        length=192,
    ),
    Case("vae", frames, partial(VAE, **SIZES), (("vision.",),), **LEARNS),
    Case(
        "mdn-rnn",
        partial(frames, length=6),
        partial(MDNRNN, vision=WORLD, **SIZES, **MEMORY),
        (("world.memory.",),),
        frozen=("world.vision.",),
        **LEARNS,
    ),
    Case(
        "evolve-dream",
        partial(EvolveData, env=DODGE, fitness=DreamFitness(RECORDING, rollouts=3, steps=8)),
        evolve,
        **PLAYS,
    ),
    Case(
        "evolve-real",
        partial(EvolveData, env=DODGE, fitness=RealFitness(rollouts=1, workers=1, max_steps=6)),
        partial(evolve, use_cell=True, controller_hidden=3),
        **{**PLAYS, "waits": 37},
    ),
]
