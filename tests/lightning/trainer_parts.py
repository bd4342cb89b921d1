"""Five algorithms at sizes that a plain Trainer fits in a second: what a Lightning user would write, and no more."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from contracts.artifacts import FOLDER, target_file
from contracts.case import LAKE, TARGET
from contracts.families.dreamer import world
from contracts.families.online import SMALL
from lightning.pytorch import Trainer, seed_everything

from rl_lightning.algorithms import DQN, IQL, PPO, SAC, Dreamer
from rl_lightning.datamodules import OfflineData, OnlineData, OnPolicyData, SequenceData
from rl_lightning.models.rssm.latent_actors import ActorHead, OneHot
from rl_lightning.replay import Replay, SequenceReplay

QUIET: dict[str, Any] = {
    "accelerator": "cpu",
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}


class Part(NamedTuple):
    """One algorithm with its data.

    Args:
        data: Makes the DataModule; keywords are its own or the run's.
        model: Makes the module from a spec.
        per_update: Clock ticks of one update, once learning has begun.
        starts: Clock ticks before the first update.
    """

    data: Callable[..., Any]
    model: Callable[..., Any]
    per_update: int
    starts: int


def on_policy(**kwargs: Any) -> Any:
    settings = {"num_envs": 2, "rollout_steps": 8, "eval_every": 32, "eval_episodes": 2}
    return OnPolicyData(LAKE, **{**settings, **kwargs})


def online(env: Any, **kwargs: Any) -> Any:
    settings = {
        "batch_size": 8,
        "buffer": partial(Replay, capacity=500),
        "learning_starts": 16,
        "eval_every": 32,
    }
    return OnlineData(env, **{**settings, "eval_episodes": 2, **kwargs})


def offline(**kwargs: Any) -> Any:
    path = target_file(FOLDER / "trainer.npz")
    settings = {"batch_size": 8, "updates_per_block": 8, "eval_every": 32, "eval_episodes": 2}
    return OfflineData(path, TARGET, **{**settings, **kwargs})


def sequences(**kwargs: Any) -> Any:
    settings = {
        "batch_size": 2,
        "sequence_length": 4,
        "buffer": partial(SequenceReplay, capacity=500),
        "learning_starts": 16,
        "train_ratio": 4.0,
    }
    return SequenceData(LAKE, **{**settings, "eval_every": 32, "eval_episodes": 2, **kwargs})


def dreamer(spec: Any, **kwargs: Any) -> Any:
    return Dreamer(
        spec,
        world_model=world(3),
        actor=partial(ActorHead, hidden_dims=[16], distribution=OneHot()),
        horizon=3,
        **kwargs,
    )


PARTS = {
    "ppo": Part(on_policy, lambda spec, **k: PPO(spec, network=SMALL, minibatch_size=16, **k), 16, 0),
    "sac": Part(
        lambda **k: online(TARGET, **k),
        lambda spec, **k: SAC(spec, network=SMALL, critic_hidden_dims=[16], **k),
        1,
        16,
    ),
    "dqn": Part(lambda **k: online(LAKE, **k), lambda spec, **k: DQN(spec, network=SMALL, **k), 1, 16),
    "iql": Part(offline, lambda spec, **k: IQL(spec, hidden_dims=[16], **k), 1, 0),
    "dreamer": Part(sequences, dreamer, 2, 16),
}


def fit(
    name: str, model: Any = None, data: dict[str, Any] | None = None, ckpt_path: Any = None, **trainer: Any
) -> Any:
    """A plain Trainer's fit of fresh objects; returns the Trainer. The module is `trainer.lightning_module`."""
    seed_everything(0, verbose=False)
    part = PARTS[name]
    source = part.data(**data or {})
    model = (model or part.model)(source.spec)
    engine = Trainer(**{**QUIET, **trainer})
    engine.fit(
        model, datamodule=source, ckpt_path=ckpt_path, weights_only=None if ckpt_path is None else True
    )
    return engine
