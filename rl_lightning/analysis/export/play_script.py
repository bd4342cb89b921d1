"""play.py: a few lines that play an episode with an exported policy, without this package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium

from rl_lightning.analysis.export.greedy_policy import GreedyPolicy
from rl_lightning.redaction import redact
from rl_lightning.types import EnvSpec


def why_no_script(spec: EnvSpec, about: dict[str, Any]) -> str | None:
    """What a few lines could not do without us; None where Gymnasium alone makes the env that the policy knows."""
    if about["transforms"]:
        return f"observations go through {', '.join(about['transforms'])}"
    if about["action_repeat"] > 1:
        return f"each action is played {about['action_repeat']} times"
    if about["noise"]:
        return "the env has noise of ours"
    if about["action_mask"]:
        return f"{spec.env_id} says which actions are legal"
    known = gymnasium.registry.get(spec.env_id)
    if known is None or not str(known.entry_point).startswith("gymnasium."):
        return f"{spec.env_id} is not an env of Gymnasium's own"
    env = gymnasium.make(spec.env_id, **about["env_kwargs"])
    space, actions = env.observation_space, env.action_space
    env.close()
    if not isinstance(space, gymnasium.spaces.Box) or space.shape != tuple(spec.obs_shape):
        return f"the policy sees other observations than {spec.env_id} gives"
    if isinstance(actions, gymnasium.spaces.Discrete) and actions.start != 0:
        return f"{spec.env_id} counts its actions from {actions.start}"
    return None


def write_script(policy: GreedyPolicy, folder: Path, about: dict[str, Any]) -> Path:
    """A few lines that play an episode with the exported policy, without us."""
    limit = about["max_episode_steps"]
    arguments = {**redact(about["env_kwargs"]), **({"max_episode_steps": limit} if limit else {})}
    kwargs = "".join(f", {key}={value!r}" for key, value in arguments.items())
    carry = [list(part.shape[1:]) for part in policy.model.initial_carry(1)]
    row = f"np.asarray(obs, '{about['obs_dtype']}').reshape(1, *{about['obs_shape']})"
    row += f", 'noise': draw.standard_normal((1, {policy.noise}), 'float32')" if policy.noise else ""
    plain = ["    action = policy.run(None, {'obs': " + row + "})[0]"]
    remembering = [
        f"    feed = {{'obs': {row}, **{{f'carry{{i}}': part for i, part in enumerate(carry)}}}}",
        "    action, *carry = policy.run(None, {item.name: feed[item.name] for item in policy.get_inputs()})",
    ]
    start = [f"carry = [np.zeros([1, *shape], 'float32') for shape in {carry}]"]
    earned = policy.model.reward_carry
    add = [] if earned is None else [f"    carry[{earned}] = carry[{earned}] + np.float32(reward)"]
    lines = [
        "import gymnasium, numpy as np, onnxruntime",
        "policy = onnxruntime.InferenceSession(__file__.replace('play.py', 'policy.onnx'))",
        f"env = gymnasium.make({about['env']!r}{kwargs})",
        *(start if carry else []),
        *(["draw = np.random.default_rng(0)"] if policy.noise else []),
        "(obs, _), total, ended = env.reset(seed=0), 0.0, False",
        f"while not ended:  # observations are {about['obs_dtype']} {about['obs_shape']}",
        *(remembering if carry else plain),
        "    obs, reward, terminated, truncated, _ = env.step(action[0])",
        *add,
        "    total, ended = total + reward, terminated or truncated",
        "print(total)",
    ]
    path = folder / "play.py"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
