"""Which of our algorithms an agent of Stable-Baselines3 is, and its weights by our names.

Networks, scaling of actions and the order of critics' inputs are the same; where numbers mean something else they are
converted here, so that the same observation gives the same action. Only SAC's log standard deviation is bounded softly
with us and cut off with SB3: it is converted where the two touch, in the middle of the bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rl_lightning.errors import DataError
from rl_lightning.runs.imports.sb3_zip import SB3Agent

LOG_STD_BOUNDS = (-5.0, 2.0)  # of our squashed Gaussian

Weights = dict[str, Tensor]


class Converted(NamedTuple):
    """An agent in our words.

    Args:
        algorithm: Our class.
        model: Its options.
        data: Class and options of the data that it trains on, without the env.
        weights: By our names; what is left out stays as it is drawn.
        notes: What a user should know.
    """

    algorithm: str
    model: dict[str, Any]
    data: dict[str, Any]
    weights: Weights
    notes: list[str]


def convert(agent: SB3Agent, low: np.ndarray, high: np.ndarray) -> Converted:
    """The agent in our words.

    Args:
        agent: What the zip holds.
        low: Lower bounds of the env's continuous actions; empty where they are discrete.
        high: Upper bounds.
    """
    names = agent.weights.keys()
    if agent.settings.get("use_sde"):
        raise DataError("it explores by gSDE (use_sde), which no algorithm here does")
    if any("features_extractor.cnn" in name for name in names):
        raise DataError("it sees pictures; agents of flat observations can be taken")
    for key, take in _KINDS.items():
        if key in names:
            return take(agent, low, high)
    raise DataError("it is neither PPO, A2C, SAC, TQC, TD3 nor DQN with an MLP policy")


def _ppo(agent: SB3Agent, low: np.ndarray, high: np.ndarray) -> Converted:
    given, numbers = agent.weights, agent.settings
    policy, hidden = _stack(given, "mlp_extractor.policy_net", "torso.layers")
    value, critic_hidden = _stack(given, "mlp_extractor.value_net", "value_torso.layers")
    if hidden != critic_hidden:
        raise DataError(
            f"its policy has layers {hidden} and its critic {critic_hidden}; PPO here has the same"
        )
    weight, bias = given["action_net.weight"], given["action_net.bias"]
    head: Weights = {}
    if "log_std" in given:  # its actions are the env's own, ours lie in [-1, 1]
        middle, half = _span(low, high)
        weight, bias = weight / half[:, None], (bias - middle) / half
        head["policy.log_std"] = given["log_std"] - half.log()
    head |= {"policy.linear.weight": weight, "policy.linear.bias": bias}
    head |= {"value.linear.weight": given["value_net.weight"], "value.linear.bias": given["value_net.bias"]}
    model = {"network": _network(hidden, agent, "tanh", "orthogonal"), "normalize_advantages": True}
    model |= _numbers(
        numbers, lr="learning_rate", gamma="gamma", gae_lambda="gae_lambda", n_epochs="n_epochs",
        minibatch_size="batch_size", ent_coef="ent_coef", vf_coef="vf_coef", max_grad_norm="max_grad_norm",
        clip_range="clip_range",
    )  # fmt: skip
    data = {
        "class_path": "OnPolicyData",
        "init_args": _numbers(numbers, num_envs="n_envs", rollout_steps="n_steps"),
    }
    return Converted("PPO", model, data, policy | value | head, [])


def _sac(agent: SB3Agent, low: np.ndarray, high: np.ndarray) -> Converted:
    given = agent.weights
    actor, hidden = _stack(given, "actor.latent_pi", "actor.torso.layers")
    floor, roof = LOG_STD_BOUNDS
    middle, half = (roof + floor) / 2, (roof - floor) / 2
    spread = given["actor.log_std.weight"] / half, (given["actor.log_std.bias"] - middle) / half
    actor["actor.linear.weight"] = torch.cat((given["actor.mu.weight"], spread[0]))
    actor["actor.linear.bias"] = torch.cat((given["actor.mu.bias"], spread[1]))
    model: dict[str, Any] = {"network": _network(hidden, agent, "relu", "default")}
    critics, settings, notes = _critics(given)
    if agent.log_ent_coef is not None:
        actor["log_alpha"] = agent.log_ent_coef.reshape(())
    elif isinstance(fixed := agent.settings.get("ent_coef"), int | float) and fixed > 0:
        model["alpha"] = float(fixed)
    return Converted("SAC", model | settings | _off_policy(agent), _replay(agent), actor | critics, notes)


def _td3(agent: SB3Agent, low: np.ndarray, high: np.ndarray) -> Converted:
    given = agent.weights
    weights: Weights = {}
    hidden: list[int] = []
    for source, target in (("actor.mu", "policy"), ("actor_target.mu", "policy_target")):
        layers, sizes = _stack(given, source, f"{target}.torso.layers")
        last = f"{target}.torso.layers.{2 * (len(sizes) - 1)}"
        for part in ("weight", "bias"):
            layers[f"{target}.linear.{part}"] = layers.pop(f"{last}.{part}")
        weights |= layers
        hidden = sizes[:-1]
    critics, settings, notes = _critics(given)
    model = {"hidden_dims": hidden, **settings, **_off_policy(agent)}
    return Converted("TD3", model, _replay(agent), weights | critics, notes)


def _dqn(agent: SB3Agent, low: np.ndarray, high: np.ndarray) -> Converted:
    weights: Weights = {}
    hidden: list[int] = []
    for source, target in (("q_net.q_net", "q"), ("q_net_target.q_net", "q_target")):
        layers, sizes = _stack(agent.weights, source, f"{target}.torso.layers")
        last = f"{target}.torso.layers.{2 * (len(sizes) - 1)}"
        for part in ("weight", "bias"):
            layers[f"{target}.advantage.0.{part}"] = layers.pop(f"{last}.{part}")
        weights |= layers
        hidden = sizes[:-1]
    model: dict[str, Any] = {"network": _network(hidden, agent, "relu", "default"), "double_q": False}
    model |= _numbers(agent.settings, lr="learning_rate", gamma="gamma")
    return Converted("DQN", model, _replay(agent), weights, [])


_KINDS: dict[str, Callable[[SB3Agent, np.ndarray, np.ndarray], Converted]] = {
    "actor.latent_pi.0.weight": _sac,
    "actor.mu.0.weight": _td3,
    "mlp_extractor.policy_net.0.weight": _ppo,
    "q_net.q_net.0.weight": _dqn,
}


def _stack(weights: Weights, source: str, target: str) -> tuple[Weights, list[int]]:
    """Linear layers at even places, under our names, and their widths."""
    layers: Weights = {}
    sizes: list[int] = []
    while (place := f"{source}.{2 * len(sizes)}") + ".weight" in weights:
        for part in ("weight", "bias"):
            if f"{place}.{part}" not in weights:
                raise DataError(f"its layer {place} has no {part}")
            layers[f"{target}.{2 * len(sizes)}.{part}"] = weights[f"{place}.{part}"]
        sizes.append(len(weights[f"{place}.weight"]))
    if not sizes:
        raise DataError(f"it has no layers {source}")
    return layers, sizes


def _critics(weights: Weights) -> tuple[Weights, dict[str, Any], list[str]]:
    """Critics side by side, as one batched product computes them; those of TQC predict quantiles and stay behind."""
    count = sum(1 for name in weights if name.startswith("critic.qf") and name.endswith(".0.weight"))
    _, sizes = _stack(weights, "critic.qf0", "q.layers")
    settings: dict[str, Any] = {"critic_hidden_dims": sizes[:-1]}
    if sizes[-1] != 1:
        note = "its critics predict quantiles (TQC): they begin anew, the policy is taken"
        return (
            {},
            settings,
            [f"{note}. Training from it: let them learn first, --model.actor_warmup_updates 10000"],
        )
    if count != 2:
        settings["num_critics"] = count
    joined: Weights = {}
    for source, target in (("critic", "q"), ("critic_target", "q_target")):
        each = [_stack(weights, f"{source}.qf{i}", f"{target}.layers")[0] for i in range(count)]
        for name in each[0]:
            rows = torch.stack([layers[name] for layers in each])
            joined[name] = rows.transpose(1, 2) if name.endswith("weight") else rows.unsqueeze(1)
    return joined, settings, []


def _network(hidden: list[int], agent: SB3Agent, usual: str, init: str) -> dict[str, Any]:
    return {
        "class_path": "MLP",
        "init_args": {"hidden_dims": hidden, "activation": _activation(agent, usual), "init": init},
    }


def _activation(agent: SB3Agent, usual: str) -> str:
    """What its JSON calls the class, e.g. <class 'torch.nn.modules.activation.ReLU'>."""
    options = agent.settings.get("policy_kwargs")
    named = str(options.get("activation_fn", "")) if isinstance(options, dict) else ""
    name = named.rstrip("'>").rpartition(".")[2].lower()
    if name and name not in ("relu", "tanh", "elu", "silu", "gelu", "mish"):
        raise DataError(f"its layers have the activation {name}, which is not known here")
    return name or usual


def _off_policy(agent: SB3Agent) -> dict[str, Any]:
    return _numbers(agent.settings, lr="learning_rate", gamma="gamma", tau="tau")


def _replay(agent: SB3Agent) -> dict[str, Any]:
    options = _numbers(agent.settings, batch_size="batch_size", learning_starts="learning_starts")
    return {"class_path": "OnlineData", "init_args": options}


def _numbers(settings: dict[str, Any], **names: str) -> dict[str, Any]:
    """Our option by its name with them, where JSON has a number; schedules are pickled."""
    values = {ours: settings.get(theirs) for ours, theirs in names.items()}
    return {k: v for k, v in values.items() if isinstance(v, int | float) and not isinstance(v, bool)}


def _span(low: np.ndarray, high: np.ndarray) -> tuple[Tensor, Tensor]:
    """Middle and half width of the bounds; where there are none, actions are not moved."""
    finite = np.isfinite(low) & np.isfinite(high)
    middle, half = np.where(finite, (low + high) / 2, 0.0), np.where(finite, (high - low) / 2, 1.0)
    return torch.from_numpy(middle).float(), torch.from_numpy(half).float()
