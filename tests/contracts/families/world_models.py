"""Rows for the stages of World Models, each fed by small artifacts of the stages before it."""

from functools import partial
from typing import Any

import torch
from contracts.artifacts import FOLDER, artifact
from contracts.case import Case, env

from rl_lightning.algorithms import MDNRNN, VAE, EpisodeRecorder, EvolutionaryController
from rl_lightning.artifacts import Exported
from rl_lightning.behaviors.behavior_policies import BrownianActions
from rl_lightning.datamodules import EpisodeRecorderData, EvolutionData, RecordedEpisodesData
from rl_lightning.envs.make import make_envs
from rl_lightning.evolution.cmaes import CMAES
from rl_lightning.evolution.fitness import DreamFitness, RealFitness
from rl_lightning.models.world_models.episode_store import Recording
from rl_lightning.models.world_models.vision_memory import VisionMemoryModel
from rl_lightning.rollout.collect import Collector
from rl_lightning.rollout.episode_splitter import EpisodeSplitter, joined

DODGE = env("rl/Dodge-v0")
SIZES: dict[str, Any] = {"latent_dim": 4, "depth": 2}
MEMORY: dict[str, Any] = {"hidden_dim": 6, "num_mixtures": 2}


def recorded(steps: int = 120) -> str:
    envs = make_envs(DODGE, 2)
    spec = envs.env_spec
    collector, policy = Collector(envs, 0), BrownianActions(spec)
    collector.carry = policy.initial_carry(2)
    played = collector.collect(policy.act, steps, torch.Generator().manual_seed(0))
    rows = Recording.from_spec(spec)
    rows.append(joined(EpisodeSplitter(2).add(played)))
    envs.close()
    return artifact(FOLDER / "recording", {"recording": (rows, rows.exported(""))})


def dreamed() -> str:
    torch.manual_seed(0)
    world = VisionMemoryModel({"channels": 1, **SIZES}, {"latent_dim": 4, "action_dim": 3, **MEMORY})
    path = f"{type(world.vision).__module__}.{type(world.vision).__name__}"
    vision = (world.vision, Exported(path, world.vision.init_args(), ""))
    return artifact(FOLDER / "world", {"world": (world, world.exported("")), "vision": vision})


RECORDING, WORLD = recorded(), dreamed()
frames = partial(RecordedEpisodesData, recording=RECORDING, env=DODGE, batch_size=8, updates_per_block=4)
evolve = partial(
    EvolutionaryController, world_from=WORLD, **SIZES, **MEMORY, strategy=partial(CMAES, popsize=6, sigma_init=0.5),
    reevaluate_every=3, reevaluate_rollouts=4,
)  # fmt: skip

ROWS = ("obs", "action", "reward", "terminated", "truncated", "is_first")
LEARNS: dict[str, Any] = {"length": 12}
PLAYS = {**LEARNS, "frozen": ("world.",), "counters": ("best",), "waits": 26, "copies": 4}

CASES = [
    Case(
        "record",
        partial(EpisodeRecorderData, env=DODGE, num_envs=2, steps_per_block=16),
        EpisodeRecorder,
        counters=tuple(f"recording.{name}" for name in ROWS),
        length=192,
    ),
    Case("vae", frames, partial(VAE, **SIZES), (("vision.",),), **LEARNS),
    Case(
        "mdn-rnn",
        partial(frames, sequence_length=6),
        partial(MDNRNN, vision=WORLD, **SIZES, **MEMORY),
        (("world.memory.",),),
        frozen=("world.vision.",),
        **LEARNS,
    ),
    Case(
        "evolve-dream",
        partial(EvolutionData, env=DODGE, fitness=DreamFitness(RECORDING, num_rollouts=3, max_steps=8)),
        evolve,
        **PLAYS,
    ),
    Case(
        "evolve-real",
        partial(EvolutionData, env=DODGE, fitness=RealFitness(num_rollouts=1, num_workers=1, max_steps=6)),
        partial(evolve, use_cell=True, controller_hidden_dim=3),
        **{**PLAYS, "waits": 37},
    ),
]
