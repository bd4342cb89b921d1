"""Rows for Dreamer v1, v2, v3 and PlaNet, at sizes that learn in seconds."""

from functools import partial
from typing import Any

from contracts.artifacts import FOLDER, walks_file
from contracts.case import LAKE, TARGET, Case, Toy, env

from rl_lightning.algorithms import Dreamer, PlaNet
from rl_lightning.datamodules import SequenceData
from rl_lightning.functional.imagined_returns import StateReturns
from rl_lightning.models.rssm.decoders import ConvDecoder, MLPDecoder
from rl_lightning.models.rssm.encoders import ConvEncoder, MLPEncoder
from rl_lightning.models.rssm.heads import ContinueHead, MSEHead, TwoHotHead
from rl_lightning.models.rssm.latent_actors import ActorHead, OneHot, TanhNormal, TruncatedNormal
from rl_lightning.models.rssm.latents import (
    BalancedKL,
    CategoricalLatent,
    DynRepKL,
    FreeNatsKL,
    GaussianLatent,
)
from rl_lightning.models.rssm.parts import MultiDecoder
from rl_lightning.models.rssm.return_norm import PercentileNorm
from rl_lightning.models.rssm.world_model import LatentWorld, LatentWorldFactory
from rl_lightning.nn import MultiInput
from rl_lightning.nn.rssm_cores import BlockGRUCore, GRUCore, NormGRUCore
from rl_lightning.planning.planners import CEM
from rl_lightning.replay import PrioritizedWindows, SequenceReplay

WIDE = 32
V3: dict[str, Any] = {"norm": "rms", "activation": "silu"}


def world(version: int, **parts: Any) -> LatentWorldFactory:
    """What makes the world model of each version, small."""
    made: dict[str, Any] = {
        1: {
            "latent": GaussianLatent(8),
            "core": partial(GRUCore, deter=WIDE, hidden_dim=WIDE),
            "encoder": partial(MLPEncoder, hidden_dims=[WIDE]),
            "decoder": partial(MLPDecoder, hidden_dims=[WIDE]),
            "kl": FreeNatsKL(0.0, 0.1),
            "reward_head": partial(MSEHead, hidden_dims=[WIDE]),
            "continue_head": partial(ContinueHead, hidden_dims=[WIDE], loss_coef=10.0),
            "reward_coef": 10.0,
        },
        2: {
            "latent": CategoricalLatent(4, 4, unimix=0.0),
            "core": partial(NormGRUCore, deter=WIDE, hidden_dim=WIDE, norm="none", activation="elu"),
            "encoder": partial(MLPEncoder, hidden_dims=[WIDE]),
            "decoder": partial(MLPDecoder, hidden_dims=[WIDE]),
            "kl": BalancedKL(0.8, 0.0, 0.1),
            "reward_head": partial(MSEHead, hidden_dims=[WIDE]),
            "continue_head": partial(ContinueHead, hidden_dims=[WIDE], loss_coef=5.0),
            "reward_coef": 5.0,
        },
        3: {
            "latent": CategoricalLatent(4, 4),
            "core": partial(BlockGRUCore, deter=WIDE, hidden_dim=WIDE, blocks=4),
            "encoder": partial(MLPEncoder, hidden_dims=[WIDE], symlog=True, **V3),
            "decoder": partial(MLPDecoder, hidden_dims=[WIDE], symlog=True, loss_coef=1.0, **V3),
            "kl": DynRepKL(free_nats=0.05),
            "reward_head": partial(TwoHotHead, hidden_dims=[WIDE]),
            "continue_head": partial(ContinueHead, hidden_dims=[WIDE], **V3),
            **V3,
        },
    }[version]
    return partial(LatentWorld, hidden_dim=WIDE, **{**made, **parts})


def dreamer(version: int, discrete: bool = True, **parts: Any) -> Any:
    """Keyword arguments of each version, as its frozenlake.yaml has them."""
    shared = {"horizon": 5, "gamma": 0.95, "lr": 2e-3}
    own: dict[str, Any] = {
        1: {
            "actor": partial(
                ActorHead,
                hidden_dims=[WIDE],
                distribution=OneHot(0.0) if discrete else TanhNormal(),
                zero_init_last=False,
            ),
            "critic": partial(MSEHead, hidden_dims=[WIDE]),
            "returns": StateReturns(from_start=False),
            "actor_grad": "dynamics",
            "ent_coef": 1e-2,
            "target_reg_coef": 0.0,
            "exploration_noise": 0.2,
        },
        2: {
            "actor": partial(
                ActorHead,
                hidden_dims=[WIDE],
                distribution=OneHot(0.0) if discrete else TruncatedNormal(),
                zero_init_last=False,
            ),
            "critic": partial(MSEHead, hidden_dims=[WIDE]),
            "returns": StateReturns(),
            "actor_grad": "reinforce" if discrete else "both",
            "ent_coef": 1e-2,
            "tau": 1.0,
            "target_every": 20,
            "bootstrap_with_target": True,
            "target_reg_coef": 0.0,
        },
        3: {
            "actor": partial(ActorHead, hidden_dims=[WIDE], **V3),
            "critic": partial(TwoHotHead, hidden_dims=[WIDE]),
            "return_norm": PercentileNorm,
            "replay_value_coef": 0.3,
            "ent_coef": 3e-3,
        },
    }[version]
    return partial(Dreamer, **{"world_model": world(version), **shared, **own, **parts})


XOR = env("rl/Xor-v0", screen_size=8)
PICTURES = env("rl/Catch-v0", rows=8, columns=8)
windows = partial(
    SequenceData,
    num_envs=4,
    batch_size=8,
    sequence_length=8,
    buffer=partial(SequenceReplay, capacity=5000),
    learning_starts=80,
    train_every=4,
    train_ratio=32.0,
)
CONV = {
    "encoder": partial(ConvEncoder, depth=4, multipliers=[1, 2], norm="layer", activation="silu"),
    "decoder": partial(
        ConvDecoder, depth=4, multipliers=[2, 1], sigmoid=True, loss_coef=1.0, norm="layer", activation="silu"
    ),
}

PARTS = {
    "encoder": partial(
        MultiInput,
        encoders={
            "image": CONV["encoder"],
            "proprio": partial(MLPEncoder, hidden_dims=[WIDE], symlog=True, **V3),
        },
    ),
    "decoder": partial(
        MultiDecoder,
        decoders={
            "image": CONV["decoder"],
            "proprio": partial(MLPDecoder, hidden_dims=[WIDE], symlog=True, **V3),
        },
    ),
}

LEARNS: dict[str, Any] = {
    "optimizers": (("world_model.",), ("actor.",), ("critic.",)),
    "targets": ("critic_target.",),
    "counters": ("updates",),
    "length": 192,
    "waits": 4,
    "copies": 5,
}
SCALED = {**LEARNS, "counters": ("updates", "scale.quantiles"), "waits": 18}

CASES = [
    Case("dreamer-v1", partial(windows, env=LAKE, pretrain=5), dreamer(1), toy=Toy(1300, 0.95, slow=True), **LEARNS),
    Case(
        "dreamer-v2",
        partial(windows, env=LAKE, pretrain=20),
        dreamer(2),
        toy=Toy(1400, 0.95, slow=True),
        **{**LEARNS, "waits": 5},
    ),
    Case("dreamer-v3", partial(windows, env=LAKE, pretrain=5), dreamer(3), toy=Toy(1200, 0.95), **SCALED),
    Case(
        "dreamer-v3-pixels-latents",
        partial(
            windows, env=PICTURES, pretrain=4, burn_in=2, store_latents=True, batch_size=4,
            buffer=partial(SequenceReplay, capacity=400, windows=PrioritizedWindows), train_ratio=4.0,
        ),
        dreamer(3, world_model=world(3, **CONV)),
        **{**SCALED, "waits": 19},
    ),
    Case(
        "dreamer-v3-recorded",
        partial(
            windows, env=LAKE, pretrain=4, train_ratio=8.0,
            dataset={walks_file(FOLDER / f"walks-{n}.hdf5", LAKE): float(n) for n in (1, 2)},
            dataset_fraction=0.5, store_latents=True, burn_in=1,
            buffer=partial(SequenceReplay, capacity=2000, windows=PrioritizedWindows),
        ),
        dreamer(3),
        **{**SCALED, "waits": 19},
    ),
    Case(
        "dreamer-v3-parts",
        partial(windows, env=XOR, pretrain=4, train_ratio=8.0),
        dreamer(3, world_model=world(3, **PARTS)),
        **SCALED,
    ),
    Case(
        "dreamer-v1-continuous",
        partial(windows, env=TARGET, pretrain=4, train_ratio=8.0),
        dreamer(1, discrete=False),
        **LEARNS,
    ),
    Case(
        "dreamer-v2-both",
        partial(windows, env=TARGET, pretrain=20, train_ratio=8.0),
        dreamer(2, discrete=False),
        **{**LEARNS, "waits": 5},
    ),
    Case(
        "dreamer-v3-multi-discrete",
        partial(windows, env=env("tests/Match-v0"), pretrain=4, train_ratio=8.0),
        dreamer(3),
        **SCALED,
    ),
    Case(
        "planet",
        partial(windows, env=TARGET, pretrain=3, train_ratio=8.0),
        partial(PlaNet, world_model=world(1), planner=CEM(3, 16, 4, 2, exploration_noise=0.3)),
        optimizers=(("world_model.",),),
        length=192,
        onnx=False,
        waits=2,
        copies=5,
    ),
]  # fmt: skip
