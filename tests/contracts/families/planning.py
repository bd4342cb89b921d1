"""Rows for the agents that plan: small networks, short plans."""

from functools import partial
from typing import Any

from contracts.case import TARGET, Case, env

from rl_lightning.algorithms import TDMPC, TDMPC2
from rl_lightning.datamodules import SequenceData
from rl_lightning.envs.make import EnvConfig
from rl_lightning.nn import MultiInput, SmallCNN
from rl_lightning.planning.planners import MPPI
from rl_lightning.replay.sequence import SequenceReplay
from rl_lightning.replay.window_samplers import PrioritizedWindows

PENDULUM = EnvConfig("Pendulum-v1", max_episode_steps=20)
SMALL: dict[str, Any] = {"horizon": 2, "num_samples": 16, "num_elites": 4, "iterations": 2, "num_pi_trajs": 3}
windows = partial(
    SequenceData,
    num_envs=2,
    batch_size=8,
    sequence_length=3,
    learning_starts=48,
    train_every=4,
    train_ratio=12.0,
)
SIGHT = partial(SmallCNN, channels=[4], hidden_dim=8)
inside = partial(SequenceReplay, capacity=2000, within_episode=True)
ranked = partial(SequenceReplay, capacity=2000, windows=PrioritizedWindows, within_episode=True)
tdmpc2 = partial(
    TDMPC2,
    latent_dim=8,
    simnorm_dim=4,
    encoder_hidden_dims=[8],
    hidden_dim=8,
    num_critics=3,
    num_bins=11,
    planner=MPPI(**SMALL),
)
tdmpc = partial(
    TDMPC,
    latent_dim=4,
    encoder_hidden_dim=8,
    hidden_dim=8,
    planner_warmup_updates=20,
    planner=MPPI(momentum=0.1, **SMALL),
)
LEARNS: dict[str, Any] = {"blocks": 6, "length": 144, "onnx": False, "waits": 8, "copies": 10}
V2 = (("model.dynamics.", "model.reward.", "model.q.", "model.encoder."), ("model.policy.",))
ENDS = ((*V2[0], "model.terminated."), V2[1])


CASES = [
    Case(
        "tdmpc2",
        partial(windows, env=PENDULUM, buffer=inside),
        tdmpc2,
        V2,
        targets=("q_target.",),
        **LEARNS,
    ),
    Case(
        "tdmpc2-episodic",
        partial(windows, env=TARGET, buffer=inside),
        partial(tdmpc2, episodic=True),
        ENDS,
        targets=("q_target.",),
        **LEARNS,
    ),
    Case(
        "tdmpc2-pixels",
        partial(windows, env=env("tests/Target-v0", size=6), buffer=inside),
        partial(tdmpc2, episodic=True, encoder=SIGHT, shift_pixels=1),
        ENDS,
        targets=("q_target.",),
        **{**LEARNS, "waits": 9},
    ),
    Case(
        "tdmpc2-parts",
        partial(windows, env=env("rl/Xor-v0", screen_size=6, continuous=True), buffer=inside),
        partial(
            tdmpc2,
            episodic=True,
            encoder=partial(MultiInput, encoders={"image": SIGHT}),
        ),
        ENDS,
        targets=("q_target.",),
        **LEARNS,
    ),
    Case(
        "tdmpc",
        partial(windows, env=PENDULUM, buffer=ranked),
        tdmpc,
        V2,
        targets=("target_model.",),
        counters=("updates",),
        **LEARNS,
    ),
]
