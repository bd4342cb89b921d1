"""Agents in the layout of Stable-Baselines3's zip, with networks that compute as its own do."""

from __future__ import annotations

import io
import json
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn


def linear(name: str, in_dim: int, out_dim: int) -> dict[str, Tensor]:
    return {f"{name}.weight": 0.5 * torch.randn(out_dim, in_dim), f"{name}.bias": 0.1 * torch.randn(out_dim)}


def stack(name: str, sizes: list[int], last: int | None = None) -> dict[str, Tensor]:
    """Linear layers at even places, as nn.Sequential numbers them between activations."""
    weights: dict[str, Tensor] = {}
    for i, (a, b) in enumerate(pairwise(sizes)):
        weights |= linear(f"{name}.{2 * i}", a, b)
    if last is not None:
        weights |= linear(f"{name}.{2 * (len(sizes) - 1)}", sizes[-1], last)
    return weights


def run(weights: dict[str, Tensor], name: str, x: Tensor, activation: Any, final: bool) -> Tensor:
    """Through a stack; `final`: an activation also follows the last layer."""
    count = sum(1 for key in weights if key.startswith(f"{name}.") and key.endswith(".weight"))
    for i in range(count):
        x = nn.functional.linear(x, weights[f"{name}.{2 * i}.weight"], weights[f"{name}.{2 * i}.bias"])
        if final or i + 1 < count:
            x = activation(x)
    return x


def ppo(obs: int, actions: int, continuous: bool, hidden: list[int]) -> dict[str, Tensor]:
    sizes = [obs, *hidden]
    weights = stack("mlp_extractor.policy_net", sizes) | stack("mlp_extractor.value_net", sizes)
    weights |= linear("action_net", hidden[-1], actions) | linear("value_net", hidden[-1], 1)
    return weights | ({"log_std": 0.1 * torch.randn(actions)} if continuous else {})


def sac(obs: int, actions: int, hidden: list[int], quantiles: int = 1) -> dict[str, Tensor]:
    weights = stack("actor.latent_pi", [obs, *hidden])
    weights |= linear("actor.mu", hidden[-1], actions) | linear("actor.log_std", hidden[-1], actions)
    return weights | critics(obs + actions, hidden, quantiles)


def critics(width: int, hidden: list[int], last: int = 1) -> dict[str, Tensor]:
    weights: dict[str, Tensor] = {}
    for place in ("critic", "critic_target"):
        for i in range(2):
            weights |= stack(f"{place}.qf{i}", [width, *hidden], last)
    return weights


def td3(obs: int, actions: int, hidden: list[int]) -> dict[str, Tensor]:
    actor = stack("actor.mu", [obs, *hidden], actions) | stack("actor_target.mu", [obs, *hidden], actions)
    return actor | critics(obs + actions, hidden)


def dqn(obs: int, actions: int, hidden: list[int]) -> dict[str, Tensor]:
    sizes = [obs, *hidden]
    return stack("q_net.q_net", sizes, actions) | stack("q_net_target.q_net", sizes, actions)


def write(path: Path, weights: Any, variables: Any = None, **settings: Any) -> Path:
    """The zip; `settings` are what JSON tells beside what is pickled."""
    data = {"policy_class": {":type:": "<class 'abc.ABCMeta'>", ":serialized:": "gAWVnothing"}, **settings}
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("data", json.dumps(data))
        for name, value in (("policy.pth", weights), ("pytorch_variables.pth", variables)):
            if value is not None:
                content = io.BytesIO()
                torch.save(value, content)
                file.writestr(name, content.getvalue())
        file.writestr("_stable_baselines3_version", "2.7.0")
    return path
