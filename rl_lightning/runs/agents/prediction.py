"""Actions of an agent as evaluation would play them, for rows of a file or along episodes, in the env's own scale."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from rl_lightning.datasets import check_env, load_dataset
from rl_lightning.envs.make import make_env, make_envs
from rl_lightning.envs.spaces import ActionEncoder, ObsEncoder
from rl_lightning.errors import ConfigError, DataError
from rl_lightning.io.atomic import atomic_open, file_of_user
from rl_lightning.rollout.evaluate import StepCap
from rl_lightning.runs.agents.agent import LoadedAgent
from rl_lightning.types import EnvSpec, Transitions

KEYS = ("obs", "observations", "observation")
BATCH = 1024


def read_observations(source: str | None) -> dict[str, np.ndarray] | None:
    """Arrays of an .npz (or a single .npy), None for another source; nothing that would run code is accepted."""
    return read_arrays(source) if source is not None and Path(source).suffix in (".npz", ".npy") else None


def read_arrays(path: str) -> dict[str, np.ndarray]:
    try:
        loaded = np.load(path, allow_pickle=False)
        arrays = (
            {"obs": loaded} if isinstance(loaded, np.ndarray) else {key: loaded[key] for key in loaded.files}
        )
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except Exception as error:  # numpy and zipfile raise a dozen kinds for damaged files
        raise DataError(f"{path}: is not a plain .npz ({type(error).__name__}: {error})") from None
    name = next((key for key in KEYS if key in arrays), None)
    if name is None:
        raise DataError(f"{path}: has no array 'obs' (found {', '.join(sorted(arrays)) or 'nothing'})")
    return {**arrays, "obs": arrays[name]}


def predict_actions(
    agent: LoadedAgent, source: str | None, rows: dict[str, np.ndarray] | None, episodes: int
) -> dict[str, np.ndarray]:
    """What the agent does; of a module that does not act, what it predicts.

    Args:
        agent: The agent.
        source: A file or data set; null: episodes are played.
        rows: Observations that were read from it already; null: it is a data set.
        episodes: How many are played.
    """
    model, data = agent.cli.model, agent.cli.datamodule
    if model.evaluated_on == "rows":
        if source is None:
            raise ConfigError(f"{type(model).__name__} does not act; give rows: --data NAME or FILE")
        return predict_dataset(model, data, source)
    if source is None:
        return along_episodes(model, data, episodes)
    return for_rows(model, data, dataset_rows(data, source) if rows is None else rows, source)


def dataset_rows(data: Any, source: str) -> dict[str, np.ndarray]:
    """Observations of a data set, and where its episodes begin."""
    rows = load_dataset(source)
    check_env(source, rows.spec, data.spec)
    is_first = rows.recording.diff(prepend=rows.recording[:1] - 1) != 0
    return {"obs": rows.obs.numpy(), "is_first": is_first.numpy()}


def predict_dataset(model: Any, data: Any, source: str) -> dict[str, np.ndarray]:
    """What a module that does not act says of every row of a data set: scores, or predictions."""
    rows = load_dataset(source)
    check_env(source, rows.spec, data.spec)
    if model.models_next_obs:
        rows = rows.with_next()
    ones = torch.ones_like(rows.reward)
    terminated, index = rows.terminated.float(), torch.arange(len(ones))
    batch = Transitions(rows.obs, rows.action, rows.reward, rows.next_obs, terminated, ones, ones, index)
    return model.eval().predict_rows(batch)


def for_rows(
    model: Any, data: Any, arrays: dict[str, np.ndarray], source: str, seed: int = 0
) -> dict[str, np.ndarray]:
    """One action per row. An agent with memory reads them in order and forgets where `is_first` is set."""
    spec, obs = data.spec, arrays["obs"]
    if obs.shape[1:] != tuple(spec.obs_shape) or not np.issubdtype(obs.dtype, np.number):
        raise DataError(
            f"{source}: obs is {obs.dtype} {list(obs.shape)}, expected rows of {list(spec.obs_shape)}"
        )
    if not np.isfinite(obs).all():
        raise DataError(f"{source}: obs has values that are not finite")
    rows = torch.from_numpy(np.ascontiguousarray(obs, np.uint8 if spec.obs_dtype == "uint8" else np.float32))
    mask = _mask(spec, arrays, source) if spec.action_mask else None
    size = 1 if model.initial_carry(1) else BATCH
    is_first = arrays.get("is_first", np.zeros(len(rows), bool)).astype(bool)
    carry, actions, draw = model.initial_carry(size), [], model.evaluation_draw(seed)
    model.eval()
    with torch.no_grad():
        for start in range(0, len(rows), size):
            batch = rows[start : start + size]
            if size > 1 or is_first[start]:
                carry = model.initial_carry(len(batch))
            legal = None if mask is None else mask[start : start + size]
            action, carry = model.act(batch, carry, draw, legal)
            actions.append(action.cpu().numpy())
    chosen = np.concatenate(actions) if actions else np.zeros((0, *spec.action_shape), np.float32)
    return own_scale(data, chosen)


def _mask(spec: EnvSpec, arrays: dict[str, np.ndarray], source: str) -> torch.Tensor:
    if "action_mask" not in arrays:
        raise DataError(f"{source}: this env restricts its actions, so the file needs an 'action_mask'")
    mask, wanted = arrays["action_mask"], (len(arrays["obs"]), spec.action_dim)
    if mask.shape != wanted or mask.dtype.kind not in "bui":
        raise DataError(
            f"{source}: action_mask is {mask.dtype} {list(mask.shape)}, expected booleans {list(wanted)}"
        )
    return torch.from_numpy(mask.astype(bool))


def along_episodes(model: Any, data: Any, episodes: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Observations, actions, rewards and ends of whole episodes, one after the other."""
    if data.env is None:
        raise ConfigError(
            f"{type(data).__name__} names no env to play in; give one: --data.env.id Hopper-v5, or rows: --data FILE"
        )
    columns: dict[str, list[Any]] = {
        key: [] for key in ("obs", "reward", "terminated", "truncated", "episode")
    }
    chosen = []
    envs = make_envs(data.env, 1, "sync", training=False)
    cap = StepCap(envs, data.clock.run.eval_max_steps)
    if cap.note:
        print(cap.note, file=sys.stderr, flush=True)
    draw = model.evaluation_draw(seed)  # one for all episodes: each is another draw, as in evaluation
    model.eval()
    try:
        with torch.no_grad():
            for episode in range(episodes):
                obs, infos = envs.reset(seed=seed + episode)
                carry, ended = model.initial_carry(1), False
                while not ended:
                    legal = (
                        torch.from_numpy(infos["action_mask"].copy()) if envs.env_spec.action_mask else None
                    )
                    action, carry = model.act(torch.from_numpy(obs.copy()), carry, draw, legal)
                    chosen.append(action.cpu().numpy()[0])
                    columns["obs"].append(obs[0].copy())
                    obs, reward, terminated, truncated, infos = envs.step(action.cpu().numpy())
                    row = {"reward": reward[0], "terminated": terminated[0], "truncated": truncated[0]}
                    for key, value in {**row, "episode": episode}.items():
                        columns[key].append(value)
                    ended = bool(terminated[0] or truncated[0])
    finally:
        envs.close()
    return {
        **own_scale(data, np.stack(chosen)),
        **{key: np.asarray(column) for key, column in columns.items()},
    }


def own_scale(data: Any, actions: np.ndarray) -> dict[str, np.ndarray]:
    """Actions as the env itself takes them; one array per part where they have named parts."""
    decoded = action_codec(data).decode_batch(actions)
    if decoded and isinstance(decoded[0], dict):
        return {f"action/{key}": np.stack([row[key] for row in decoded]) for key in decoded[0]}
    if decoded and isinstance(decoded[0], tuple):
        return {f"action/{i}": np.stack([row[i] for row in decoded]) for i in range(len(decoded[0]))}
    return {"action": np.asarray(decoded) if len(decoded) else actions}


def obs_encoder(data: Any) -> ObsEncoder:
    """What makes a row of an observation as the env gives it."""
    env = make_env(data.env)
    try:
        return env.encode
    finally:
        env.close()


def action_codec(data: Any) -> ActionEncoder:
    """What turns our actions into the env's; without an env the data set's own bounds say what those are."""
    spec = data.spec
    if getattr(data, "env", None) is not None:
        env = make_env(data.env)
        try:
            return env.codec
        finally:
            env.close()
    if spec.action_kind == "continuous":
        low, high = (np.array(bound, np.float32) for bound in (spec.action_low, spec.action_high))
        return ActionEncoder(spaces.Box(low, high, dtype=np.float32))
    if spec.action_kind == "discrete":
        return ActionEncoder(spaces.Discrete(spec.action_sizes[0]))
    return ActionEncoder(spaces.MultiDiscrete(list(spec.action_sizes)))


def write_predictions(arrays: dict[str, np.ndarray], path: Path) -> Path:
    """An .npz, renamed into place when it is whole."""
    path = path if path.suffix == ".npz" else path.with_name(path.name + ".npz")
    with file_of_user(path), atomic_open(path) as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    return path
