"""One row per algorithm and variant; every contract in this folder runs over all of them.

A row is small enough to be fitted in well under a second, and big enough to learn its own env in a few.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import contracts.toys  # noqa: F401  (registers tests/...)
from contracts import dream_cases

from rl_lightning.algorithms import DQN, PPO, SAC, DiscreteSAC, RandomPolicy
from rl_lightning.datamodules import OnlineData, OnPolicyData
from rl_lightning.envs.make import EnvConfig
from rl_lightning.envs.wrappers.transforms import Stack
from rl_lightning.nn import MLP, RNN, SmallCNN, WindowTransformer
from rl_lightning.optim.schedules import Linear
from rl_lightning.replay import PrioritizedReplay, Replay


@dataclass(frozen=True)
class Case:
    """One algorithm on one env.

    Args:
        name: shown in test ids.
        data: makes the DataModule; keyword arguments override its own.
        model: makes the module from the spec; keyword arguments override its own.
        optimizers: for each optimizer in order, prefixes of the parameters it alone moves.
        slow: prefixes of parameters that follow others and belong to no optimizer.
        counters: buffers that an update changes.
        env_steps: budget within which the env is learned.
        score: mean evaluation return that counts as learned; None where nothing is learned.
    """

    name: str
    data: Callable[..., Any]
    model: Callable[..., Any]
    optimizers: tuple[tuple[str, ...], ...]
    env_steps: int
    score: float | None
    slow: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()

    def but(self, data: dict[str, Any] | None = None, model: dict[str, Any] | None = None) -> "Case":
        """The same row with some arguments replaced."""
        fields = {**vars(self), "data": partial(self.data, **data or {})}
        return Case(**{**fields, "model": partial(self.model, **model or {})})


def env(name: str, *transforms: Any, **kwargs: Any) -> EnvConfig:
    return EnvConfig(id=name, kwargs=kwargs, transforms=list(transforms))


LAKE, TARGET = env("rl/FrozenLake2x2-v0"), env("tests/Target-v0")
CATCH, RECALL = env("rl/Catch-v0", rows=5, columns=5), env("rl/Recall-v0", delay=1)
SMALL = MLP([32], "tanh")
PIXELS = SmallCNN([8], hidden=32)

on_policy = partial(OnPolicyData, num_envs=8, rollout_steps=16)
online = partial(
    OnlineData,
    num_envs=2,
    batch_size=32,
    buffer=Replay(2000),
    learning_starts=64,
    train_every=8,
    update_ratio=0.5,
)
ppo = partial(PPO, network=SMALL, lr=5e-3, epochs=4, minibatch_size=64, entropy_weight=0.01)
dqn = partial(DQN, network=SMALL, lr=3e-3, gamma=0.9, target_every=20, epsilon_schedule=Linear(0.05, 0.5))
sac = partial(SAC, network=SMALL, critic_hidden=[32], lr=5e-3, gamma=0.5, target_rate=0.05)

APART = ("torso.", "value_torso.", "policy.", "value.")  # PPO's two networks
SHARED = ("torso.", "policy.", "value.")
Q_ONLY = {"optimizers": (("q.",),), "slow": ("q_slow.",), "counters": ("since_copy",)}
THREE = (("actor.",), ("q.",), ("log_alpha",))
SOFT = {"optimizers": THREE, "slow": ("q_slow.",), "counters": ("updates",)}

CASES = [
    Case("ppo-discrete", partial(on_policy, env=LAKE), ppo, (APART,), 1000, 0.95),
    Case(
        "ppo-continuous", partial(on_policy, env=TARGET), partial(ppo, log_std_init=-0.5), (APART,), 3000, 3.2
    ),
    Case("ppo-multi-discrete", partial(on_policy, env=env("tests/Match-v0")), ppo, (APART,), 1500, 3.6),
    Case("ppo-masked", partial(on_policy, env=env("rl/Masked-v0", actions=4)), ppo, (APART,), 2500, 10.0),
    Case(
        "ppo-gru", partial(on_policy, env=RECALL), partial(ppo, network=RNN(hidden=16)), (APART,), 2000, 0.9
    ),
    Case(
        "ppo-transformer",
        partial(on_policy, env=RECALL),
        partial(ppo, network=WindowTransformer(3, 16, 2, 1), share_network=True),
        (SHARED,),
        2000,
        0.9,
    ),
    Case(
        "ppo-pixels",
        partial(on_policy, env=CATCH),
        partial(ppo, network=PIXELS, share_network=True),
        (SHARED,),
        4000,
        0.5,
    ),
    Case("dqn", partial(online, env=LAKE), dqn, env_steps=600, score=0.95, **Q_ONLY),
    Case(
        "dqn-dueling-n-step-prioritized",
        partial(online, env=LAKE, buffer=PrioritizedReplay(2000)),
        partial(dqn, double=True, dueling=True, n_step=3),
        env_steps=600,
        score=0.95,
        **Q_ONLY,
    ),
    Case(
        "dqn-masked",
        partial(online, env=env("rl/Masked-v0", actions=4)),
        dqn,
        env_steps=1000,
        score=11.0,
        **Q_ONLY,
    ),
    Case(
        "dqn-pixels",
        partial(online, env=env("rl/Catch-v0", Stack(2), rows=5, columns=5), buffer=PrioritizedReplay(1000)),
        partial(dqn, network=PIXELS),
        env_steps=1500,
        score=0.5,
        **Q_ONLY,
    ),
    Case("sac", partial(online, env=TARGET), sac, env_steps=800, score=3.2, **SOFT),
    Case(
        "sac-ensemble-subset",
        partial(online, env=TARGET, train_every=16),
        partial(sac, critics=5, critic_subset=2, actor_every=2),
        env_steps=800,
        score=3.2,
        **SOFT,
    ),
    Case(
        "sac-pixels",
        partial(online, env=env("tests/Target-v0", size=6)),
        partial(sac, network=PIXELS),
        (("actor.",), ("q.", "encoder."), ("log_alpha",)),
        env_steps=500,
        score=3.0,
        slow=("q_slow.", "encoder_slow."),
        counters=("updates",),
    ),
    Case(
        "sac-discrete",
        partial(online, env=LAKE),
        partial(DiscreteSAC, network=SMALL, lr=5e-3, alpha_lr=0.03, gamma=0.9, target_entropy_share=0.3),
        (("torso.", "policy."), ("q.",), ("log_alpha",)),
        env_steps=900,
        score=0.95,
        slow=("q_slow.",),
        counters=("updates",),
    ),
    *(Case(**fields) for fields in dream_cases.ROWS),
    Case("random", partial(online, env=LAKE), RandomPolicy, (), 500, None),
]
BY_NAME = {case.name: case for case in CASES}
LEARNERS = [case for case in CASES if case.score is not None]

# Rows whose run, stopped anywhere and resumed, must end as if it had never stopped (one for each kind of state:
# recurrent carry, ring, priorities, frames, temperature). The contract comes with `rl resume` and reads this list.
EXACT_RESUME = [
    "ppo-gru",
    "dqn-dueling-n-step-prioritized",
    "dqn-pixels",
    "sac",
    "sac-discrete",
    "dreamer-v3",
    "dreamer-v3-pixels-latents",
]
