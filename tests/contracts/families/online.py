"""Rows for agents that learn from an env as they go."""

from functools import partial
from typing import Any

from contracts.case import CATCH, LAKE, RECALL, TARGET, Case, Toy, env

from rl_lightning.algorithms import DQN, PPO, QRDQN, SAC, TD3, DiscreteSAC, RandomPolicy
from rl_lightning.datamodules import OnlineData, OnPolicyData
from rl_lightning.envs.wrappers.transforms import FrameStack
from rl_lightning.nn import MLP, RNN, MultiInput, SimBa, SmallCNN, WindowTransformer
from rl_lightning.optim.schedules import Linear
from rl_lightning.replay import HER, PrioritizedReplay, Replay

SMALL = partial(MLP, hidden_dims=[32], activation="tanh")
PIXELS = partial(SmallCNN, channels=[8], hidden_dim=32)
PARTS = partial(MultiInput, encoders={"image": PIXELS}, trunk=SMALL)

on_policy = partial(OnPolicyData, num_envs=8, rollout_steps=16)
online = partial(
    OnlineData,
    num_envs=2,
    batch_size=32,
    buffer=partial(Replay, capacity=2000),
    learning_starts=64,
    train_every=8,
    utd_ratio=0.5,
)
ppo = partial(PPO, network=SMALL, lr=5e-3, n_epochs=4, minibatch_size=64, ent_coef=0.01)
dqn = partial(DQN, network=SMALL, lr=3e-3, gamma=0.9, target_every=20, epsilon_schedule=Linear(0.05, 0.5))
sac = partial(SAC, network=SMALL, critic_hidden_dims=[32], lr=5e-3, gamma=0.5, tau=0.05)

APART = {"optimizers": (("torso.", "value_torso.", "policy.", "value."),), "waits": 8, "copies": 2}
SHARED = {**APART, "optimizers": (("torso.", "policy.", "value."),)}
Q_ONLY: dict[str, Any] = {
    "optimizers": (("q.",),), "targets": ("q_target.",), "counters": ("since_copy",), "blocks": 6,
    "waits": 2, "copies": 3,
}  # fmt: skip
SOFT: dict[str, Any] = {
    "optimizers": (("actor.",), ("q.",), ("log_alpha",)), "targets": ("q_target.",), "counters": ("updates",),
    "waits": 3, "copies": 2,
}  # fmt: skip
catch = env("rl/Catch-v0", FrameStack(2), rows=5, columns=5)
masked = env("rl/Masked-v0", num_actions=4)
xor = env("rl/Xor-v0", screen_size=6)

CASES = [
    Case("ppo-discrete", partial(on_policy, env=LAKE), ppo, toy=Toy(1000, 0.95), **APART),
    Case(
        "ppo-continuous",
        partial(on_policy, env=TARGET),
        partial(ppo, log_std_init=-0.5, normalize_obs=True),
        toy=Toy(3000, 3.2),
        counters=("norm.mean", "norm.var", "norm.count"),
        **{**APART, "waits": 9},
    ),
    Case(
        "ppo-multi-discrete",
        partial(on_policy, env=env("tests/Match-v0")),
        ppo,
        toy=Toy(1500, 3.6),
        **{**APART, "copies": 3},
    ),
    Case("ppo-masked", partial(on_policy, env=masked), ppo, toy=Toy(2500, 10.0), **{**APART, "copies": 3}),
    Case(
        "ppo-gru",
        partial(on_policy, env=RECALL),
        partial(ppo, network=partial(RNN, hidden_dim=16)),
        toy=Toy(2000, 0.9),
        **{**APART, "waits": 48},
    ),
    Case(
        "ppo-transformer",
        partial(on_policy, env=RECALL),
        partial(
            ppo,
            network=partial(WindowTransformer, context_length=3, embed_dim=16, num_heads=2, num_layers=1),
            share_network=True,
        ),
        toy=Toy(2000, 0.9),
        **SHARED,
    ),
    Case(
        "ppo-pixels",
        partial(on_policy, env=CATCH),
        partial(ppo, network=PIXELS, share_network=True),
        toy=Toy(4000, 0.5),
        **SHARED,
    ),
    Case(
        "ppo-parts",
        partial(on_policy, env=xor),
        partial(ppo, network=PARTS, normalize_obs=True),
        toy=Toy(4000, 0.9),
        counters=("norm.mean", "norm.var", "norm.count"),
        **{**APART, "waits": 9},
    ),
    Case("dqn", partial(online, env=LAKE), dqn, toy=Toy(600, 0.95), **Q_ONLY),
    Case(
        "dqn-dueling-n-step-prioritized",
        partial(online, env=LAKE, buffer=partial(PrioritizedReplay, capacity=2000)),
        partial(dqn, double_q=True, dueling=True, n_step=3),
        toy=Toy(600, 0.95),
        **Q_ONLY,
    ),
    Case("dqn-masked", partial(online, env=masked), dqn, toy=Toy(1000, 11.0), **{**Q_ONLY, "copies": 4}),
    Case(
        "dqn-pixels",
        partial(online, env=catch, buffer=partial(PrioritizedReplay, capacity=1000)),
        partial(dqn, network=PIXELS),
        toy=Toy(1500, 0.5),
        **Q_ONLY,
    ),
    Case(
        "dqn-parts-normalized",
        partial(online, env=env("rl/Xor-v0", FrameStack(2), screen_size=6)),
        partial(dqn, network=PARTS, normalize_obs=True),
        toy=Toy(4500, 0.9, slow=True),
        **{**Q_ONLY, "counters": ("since_copy", "norm.mean", "norm.var", "norm.count")},
    ),
    Case(
        "qrdqn",
        partial(online, env=LAKE, buffer=partial(PrioritizedReplay, capacity=2000)),
        partial(
            QRDQN,
            network=SMALL,
            num_quantiles=8,
            lr=3e-3,
            gamma=0.9,
            n_step=2,
            target_every=20,
            epsilon_schedule=Linear(0.05, 0.5),
        ),
        toy=Toy(600, 0.95),
        **Q_ONLY,
    ),
    Case("sac", partial(online, env=TARGET), sac, toy=Toy(800, 3.2), **SOFT),
    Case(
        "sac-parts",
        partial(online, env=env("rl/Xor-v0", screen_size=6, continuous=True)),
        partial(sac, network=PARTS, alpha=0.01),
        toy=Toy(3000, 0.9, slow=True),
        **{
            **SOFT,
            "optimizers": (("actor.",), ("q.", "encoder.")),
            "targets": ("q_target.", "encoder_target."),
            "frozen": ("log_alpha",),
        },
    ),
    Case(
        "sac-normalized",
        partial(online, env=TARGET),
        partial(
            sac,
            normalize_obs=True,
            network=partial(SimBa, hidden_dim=16),
            critic_hidden_dims=None,
            critic_network=partial(SimBa, hidden_dim=16),
        ),
        toy=Toy(800, 3.2),
        **{**SOFT, "counters": ("updates", "norm.mean", "norm.var", "norm.count")},
    ),
    Case(
        "sac-ensemble-subset",
        partial(online, env=TARGET, train_every=16),
        partial(
            sac,
            num_critics=5,
            num_target_critics=2,
            policy_delay=2,
            actor_steps=2,
            critic_dropout=0.01,
            critic_layer_norm=True,
        ),
        toy=Toy(800, 3.2),
        **{**SOFT, "waits": 6},
    ),
    Case(
        "sac-pixels",
        partial(online, env=env("tests/Target-v0", size=6)),
        partial(sac, network=PIXELS),
        toy=Toy(500, 3.0),
        **{
            **SOFT,
            "optimizers": (("actor.",), ("q.", "encoder."), ("log_alpha",)),
            "targets": ("q_target.", "encoder_target."),
        },
    ),
    Case(
        "sac-discrete",
        partial(online, env=LAKE),
        partial(DiscreteSAC, network=SMALL, lr=5e-3, alpha_lr=0.03, gamma=0.9, target_entropy_scale=0.3),
        toy=Toy(900, 0.95),
        **{**SOFT, "optimizers": (("torso.", "policy."), ("q.",), ("log_alpha",)), "waits": 4},
    ),
    Case(
        "td3",
        partial(online, env=TARGET),
        partial(TD3, hidden_dims=[32], lr=5e-3, gamma=0.5, tau=0.05, n_step=2),
        (("policy.",), ("q.",)),
        Toy(800, 3.2),
        targets=("q_target.", "policy_target."),
        counters=("updates",),
        waits=3,
        copies=2,
    ),
    Case(
        "dqn-her",
        partial(online, env=env("rl/BitFlip-v0", num_bits=4), buffer=partial(HER, capacity=2000)),
        dqn,
        toy=Toy(1200, -2.0),
        **Q_ONLY,
    ),
    Case(
        "td3-her-final",
        partial(
            online,
            env=env("rl/BitFlip-v0", num_bits=2, continuous=True),
            buffer=partial(HER, capacity=300, goal_selection_strategy="final"),
        ),
        partial(TD3, hidden_dims=[32], lr=5e-3, gamma=0.5, tau=0.05, exploration_noise=0.3),
        (("policy.",), ("q.",)),
        targets=("q_target.", "policy_target."),
        counters=("updates",),
        waits=3,
        copies=2,
    ),
    Case("random", partial(online, env=LAKE), RandomPolicy),
]
