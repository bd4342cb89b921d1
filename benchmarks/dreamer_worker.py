"""Updates per second of Dreamer v3 at equal sizes, ours or sheeprl's; runs in the venv of whichever it times.

    python dreamer_worker.py ours|sheeprl reinforce|dynamics THREADS UPDATES

Both learn from the same kind of rows (16 windows of 64, 5 numbers seen, horizon 15), with layers, heads and fused Adams
of the same sizes, and by the same gradient of the actor. sheeprl takes it from the kind of action, so `reinforce` is
one of two discrete actions, which keeps no graph of what is imagined, and `dynamics` one continuous action, learned by
backpropagation through all 15 imagined steps.
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from typing import Any

BATCH, LENGTH, HORIZON, OBS = 16, 64, 15, 5
ACTIONS = {"reinforce": 2, "dynamics": 1}  # width of an action's row
DETER, HIDDEN, VARIABLES, CLASSES, UNITS = 512, 64, 32, 4, 64  # the 1M preset
WARM = 2


def model_of_ours(gradient: Any = "dynamics") -> tuple[Any, Any]:
    from rl_lightning.algorithms.worlds.dreamer import Dreamer
    from rl_lightning.models.rssm.decoders import MLPDecoder
    from rl_lightning.models.rssm.encoders import MLPEncoder
    from rl_lightning.models.rssm.heads import ContinueHead, TwoHotHead
    from rl_lightning.models.rssm.latent_actors import ActorHead
    from rl_lightning.models.rssm.latents import CategoricalLatent, DynRepKL
    from rl_lightning.models.rssm.return_norm import PercentileNorm
    from rl_lightning.models.rssm.world_model import LatentWorld
    from rl_lightning.nn.rssm_cores import NormGRUCore
    from rl_lightning.types import EnvSpec

    style: dict[str, Any] = {"norm": "layer", "activation": "silu"}
    world = partial(
        LatentWorld,
        latent=CategoricalLatent(VARIABLES, CLASSES),
        core=partial(NormGRUCore, deter=DETER, hidden_dim=HIDDEN),
        encoder=partial(MLPEncoder, hidden_dims=[UNITS] * 3, symlog=True, **style),
        decoder=partial(MLPDecoder, hidden_dims=[UNITS] * 3, symlog=True, loss_coef=1.0, **style),
        kl=DynRepKL(0.5, 0.1),
        reward_head=partial(TwoHotHead, hidden_dims=[UNITS] * 3, norm="layer"),
        continue_head=partial(ContinueHead, hidden_dims=[UNITS] * 3, discounted=False, **style),
        hidden_dim=HIDDEN,
        **style,
    )
    actor, critic = (
        partial(ActorHead, hidden_dims=[UNITS] * 3, **style),
        partial(TwoHotHead, hidden_dims=[UNITS] * 3, norm="layer"),
    )
    spec = EnvSpec("bench", (OBS,), action_shape=(1,), action_low=(-1.0,), action_high=(1.0,))
    if gradient == "reinforce":
        spec = EnvSpec("bench", (OBS,), action_kind="discrete", action_sizes=(2,))
    scale = PercentileNorm
    model = Dreamer(spec, world, actor, critic, actor_grad=gradient, return_norm=scale, horizon=HORIZON)
    return model, spec


def actions(gradient: str) -> Any:
    """Rows of actions [B, L, A]: one-hot, or between -1 and 1."""
    import torch

    if gradient == "dynamics":
        return torch.rand(BATCH, LENGTH, 1) * 2 - 1
    return torch.nn.functional.one_hot(torch.randint(2, (BATCH, LENGTH)), 2).float()


def ours(gradient: str, updates: int) -> float:
    import torch

    from rl_lightning.types import Sequences

    model, _ = model_of_ours(gradient)
    model.raw_optimizers()
    flags = torch.zeros(BATCH, LENGTH)
    first = torch.rand(BATCH, LENGTH) < 0.01
    obs, reward = torch.randn(BATCH, LENGTH, OBS), torch.randn(BATCH, LENGTH)
    action = (
        actions(gradient) if gradient == "dynamics" else actions(gradient).argmax(-1)
    )  # ours keeps the class
    batch = Sequences(obs, action, reward, flags, flags, first)
    return timed(lambda: model.update(batch), updates)


def sheeprl(gradient: str, updates: int) -> float:
    """Its own train(), on its own agent, without its loop around it."""
    import gymnasium
    import numpy as np
    import torch
    from hydra import compose, initialize_config_module
    from lightning.fabric import Fabric
    from sheeprl.algos.dreamer_v3 import dreamer_v3
    from sheeprl.algos.dreamer_v3.agent import build_agent
    from sheeprl.algos.dreamer_v3.utils import Moments
    from sheeprl.utils.utils import dotdict

    size = [
        f"algo.world_model.recurrent_model.recurrent_state_size={DETER}",
        f"algo.world_model.transition_model.hidden_size={HIDDEN}",
        f"algo.world_model.representation_model.hidden_size={HIDDEN}",
        f"algo.world_model.stochastic_size={VARIABLES}",
        f"algo.world_model.discrete_size={CLASSES}",
        f"algo.dense_units={UNITS}",
        "algo.mlp_layers=3",
        f"algo.horizon={HORIZON}",
        "algo.mlp_keys.encoder=[state]",
        "algo.mlp_keys.decoder=[state]",
        "algo.cnn_keys.encoder=[]",
        "algo.cnn_keys.decoder=[]",
        "env=gym",
        "env.id=Pendulum-v1",
        "metric.log_level=0",
    ]
    with initialize_config_module("sheeprl.configs", version_base="1.3"):
        from omegaconf import OmegaConf

        cfg = dotdict(OmegaConf.to_container(compose("config", ["exp=dreamer_v3", *size]), resolve=True))
    fabric = Fabric(accelerator="cpu", devices=1)
    space = gymnasium.spaces.Dict({"state": gymnasium.spaces.Box(-1.0, 1.0, (OBS,), np.float32)})
    width, continuous = (ACTIONS[gradient],), gradient == "dynamics"
    world, actor, critic, target, _ = build_agent(fabric, width, continuous, cfg, space)
    optimizers = [torch.optim.Adam(part.parameters(), 1e-4, fused=True) for part in (world, actor, critic)]
    wrapped = fabric.setup_optimizers(*optimizers)
    moments = Moments(0.99, 1.0, 0.05, 0.95)
    rows = {
        "state": torch.randn(LENGTH, BATCH, OBS),
        "actions": actions(gradient).transpose(0, 1),
        "rewards": torch.randn(LENGTH, BATCH, 1),
        "terminated": torch.zeros(LENGTH, BATCH, 1),
        "truncated": torch.zeros(LENGTH, BATCH, 1),
        "is_first": (torch.rand(LENGTH, BATCH, 1) < 0.01).float(),
    }

    def update() -> None:
        dreamer_v3.train(
            fabric, world, actor, critic, target, *wrapped, {k: v.clone() for k, v in rows.items()},
            None, cfg, continuous, width, moments,
        )  # fmt: skip

    return timed(update, updates)


def timed(update, updates: int) -> float:  # type: ignore[no-untyped-def]
    """Updates per second after a warm-up."""
    for _ in range(WARM):
        update()
    begin = time.perf_counter()
    for _ in range(updates):
        update()
    return updates / (time.perf_counter() - begin)


def main() -> None:
    import torch

    who, gradient, threads, updates = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    print(json.dumps({"ema_rate": (ours if who == "ours" else sheeprl)(gradient, updates)}))


if __name__ == "__main__":
    main()
