"""Rows and stand-ins that the tests of the offline algorithms share."""

from types import SimpleNamespace
from typing import Any

import torch

from rl_lightning.types import EnvSpec, Transitions

SPEC = EnvSpec("e", (3,), action_kind="continuous", action_shape=(2,))


def rows(count: int = 16, seed: int = 0, gamma: float = 0.9, **fields: Any) -> Transitions:
    """Random rows of SPEC."""
    g = torch.Generator().manual_seed(seed)
    one = torch.ones(count)
    obs, next_obs = torch.randn(2, count, 3, generator=g)
    action = torch.rand(count, 2, generator=g) * 2 - 1
    made = Transitions(obs, action, one, next_obs, 0 * one, gamma * one, one, torch.arange(count))
    return made._replace(**fields)


def ready(model: Any) -> Any:
    """With its optimizers, made now."""
    model.raw_optimizers()
    return model


def fitted(model: Any, batch: Transitions) -> Any:
    """As at the start of a fit on these rows."""
    model.data_source = SimpleNamespace(train_rows=lambda: batch)
    model.on_fit_start()
    return model


def finite(metrics: dict[str, torch.Tensor]) -> bool:
    return all(torch.isfinite(value).all() for value in metrics.values())


def reloaded(model: Any, fresh: Any) -> Any:
    """A fresh module with the model's weights."""
    fresh.load_state_dict(model.state_dict())
    return fresh


def provided(model: Any) -> Any:
    """The policy that a later stage would load, by the words of `provides` alone."""
    import importlib

    part = model.exports()["policy"]
    module, _, name = part.class_path.rpartition(".")
    net = getattr(importlib.import_module(module), name)(**part.init_args)
    weights = {
        k.removeprefix(part.prefix): v for k, v in model.state_dict().items() if k.startswith(part.prefix)
    }
    net.load_state_dict(weights)
    return net.eval()
