"""Actions of an agent as evaluation would play them, for rows of a file or along episodes, in the env's own scale."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces

from rl_lightning.datasets import check_env, load_dataset
from rl_lightning.datasets.layouts.column_map import parse_columns, seen_in_order
from rl_lightning.datasets.layouts.table import csv_columns
from rl_lightning.datasets.load import load_raw
from rl_lightning.datasets.rows.action_kinds import SLACK
from rl_lightning.datasets.rows.episode_rows import ends_of, timeouts_of
from rl_lightning.envs.make import make_env, make_envs
from rl_lightning.envs.spaces import ActionEncoder, ObsEncoder
from rl_lightning.errors import ConfigError, DataError
from rl_lightning.io.atomic import atomic_open, file_of_user
from rl_lightning.rollout.collect import add_reward
from rl_lightning.rollout.evaluate import StepCap
from rl_lightning.runs.agents.agent import LoadedAgent
from rl_lightning.runs.agents.confidence import DRAWS, Judges, judged, judges_of, spread, uncertainty
from rl_lightning.seeding import derive
from rl_lightning.types import EnvSpec, Transitions


class Confidence(NamedTuple):
    """What is asked for beside the actions of rows.

    Args:
        density: Artifact of a density stage; null: the run's own, if it has one.
        dynamics: Artifact of a dynamics stage; null: the run's own, if it has one.
        draws: Of each action, for its spread; 0: none.
        columns: Of a CSV, as rl data convert takes them; null: their names tell.
    """

    density: str | None = None
    dynamics: str | None = None
    draws: int = DRAWS
    columns: str | None = None


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
    agent: LoadedAgent,
    source: str | None,
    rows: dict[str, np.ndarray] | None,
    episodes: int,
    asked: Confidence | None = None,
) -> dict[str, np.ndarray]:
    """What the agent does; of a module that does not act, what it predicts.

    Args:
        agent: The agent.
        source: A file or data set; null: episodes are played.
        rows: Observations that were read from it already; null: it is a data set.
        episodes: How many are played.
        asked: What is written beside the actions of rows.
    """
    model, data, asked = agent.cli.model, agent.cli.datamodule, asked or Confidence()
    if model.evaluated_on == "rows":
        if source is None:
            raise ConfigError(f"{type(model).__name__} does not act; give rows: --data NAME or FILE")
        return predict_dataset(model, data, source)
    if source is None:
        return along_episodes(model, data, episodes)
    judges = judges_of(data, asked.density, asked.dynamics)
    arrays = dataset_rows(data, source, asked.columns) if rows is None else rows
    return for_rows(model, data, arrays, source, judges=judges, draws=asked.draws)


def dataset_rows(data: Any, source: str, columns: str | None = None) -> dict[str, np.ndarray]:
    """Observations of every row of a data set, where its episodes begin, and what was done."""
    if Path(source).suffix == ".csv":
        return table_rows(Path(source), columns)
    if columns is not None:
        raise ConfigError(f"--columns is for a CSV, and {source} is none")
    raw, rows = load_raw(source)
    check_env(source, rows.spec, data.spec)
    if rows.rows == len(raw.arrays["rewards"]):
        is_first = (rows.recording.diff(prepend=rows.recording[:1] - 1) != 0).numpy()
        return {"obs": rows.obs.numpy(), "is_first": is_first, "actions": rows.action.numpy()}
    ends = ends_of(raw, timeouts_of(raw)[0])  # rows that lead nowhere are left out of training, not here
    actions = np.clip(raw.arrays["actions"], -1, 1) if spec_is_continuous(data) else raw.arrays["actions"]
    is_first = np.append(True, ends[:-1])
    return {"obs": raw.arrays["observations"], "is_first": is_first, "actions": actions}


def table_rows(path: Path, columns: str | None = None) -> dict[str, np.ndarray]:
    """Lines of a CSV as they stand; nobody need have acted yet."""
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    arrays = seen_in_order(str(path), csv_columns(path), None if columns is None else parse_columns(columns))
    obs = arrays.pop("observations")
    arrays = {
        name: rows.reshape(len(rows), -1) if name == "actions" else rows for name, rows in arrays.items()
    }
    return {"obs": obs.reshape(len(obs), -1).astype(np.float32), **arrays}


def spec_is_continuous(data: Any) -> bool:
    return bool(data.spec.action_kind == "continuous")


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
    model: Any,
    data: Any,
    arrays: dict[str, np.ndarray],
    source: str,
    seed: int = 0,
    judges: Judges | None = None,
    draws: int = 0,
) -> dict[str, np.ndarray]:
    """One action per row, with its spread over so many draws, and what the judges say of it.

    An agent with memory reads them in order and forgets where `is_first` is set.
    """
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
    samples: list[np.ndarray] = []
    model.eval()
    with torch.no_grad():
        for start in range(0, len(rows), size):
            batch = rows[start : start + size]
            if size > 1 or is_first[start]:
                carry = model.initial_carry(len(batch))
            legal = None if mask is None else mask[start : start + size]
            if draws:
                samples.append(spread(model, batch, carry, legal, draws, derive(seed, f"spread/{start}")))
            action, carry = model.act(batch, carry, draw, legal)
            if model.reward_carry is not None and "rewards" in arrays:
                carry = add_reward(carry, model.reward_carry, arrays["rewards"][start : start + size])
            actions.append(action.cpu().numpy())
    chosen = np.concatenate(actions) if actions else np.zeros((0, *spec.action_shape), np.float32)
    columns = own_scale(data, chosen)
    half = (np.array(spec.action_high) - np.array(spec.action_low)) / 2.0 if spec.action_low else None
    if samples:
        half = np.where(np.isfinite(half), half, 1.0) if half is not None else None
        columns |= uncertainty(chosen, np.concatenate(samples, 1), half if spec_is_continuous(data) else None)
    return columns | _beside(data, arrays, chosen, judges or Judges())


def _beside(
    data: Any, arrays: dict[str, np.ndarray], chosen: np.ndarray, judges: Judges
) -> dict[str, np.ndarray]:
    """How likely each action is, and the same of what was done, where the rows tell it."""
    obs, done = arrays["obs"], arrays.get("actions")
    columns = judged(judges, obs, chosen) if judges != Judges(None, None, judges.percentile) else {}
    if done is None or not len(done) or done.shape != chosen.shape:
        return columns
    done = unit_actions(data, done)
    if done is None:
        return columns
    recorded = own_scale(data, done)
    columns |= {f"recorded_{name}": values for name, values in recorded.items()}
    return columns | (judged(judges, obs, done, "recorded_") if columns.keys() - recorded.keys() else {})


def unit_actions(data: Any, done: np.ndarray) -> np.ndarray | None:
    """Recorded actions in [-1, 1]: as they are, or from the env's own bounds; None where they lie in neither."""
    if not spec_is_continuous(data):
        return done
    if np.abs(done).max() <= 1.0 + SLACK:
        return done.clip(-1.0, 1.0).astype(np.float32)
    low, high = np.array(data.spec.action_low), np.array(data.spec.action_high)
    unit = 2.0 * (done - low) / (high - low) - 1.0
    return unit.clip(-1.0, 1.0).astype(np.float32) if np.abs(unit).max() <= 1.0 + SLACK else None


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
                    carry = add_reward(carry, model.reward_carry, reward)
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
    """An .npz, or a table of a line per row where the name ends in .csv, renamed into place when it is whole."""
    if path.suffix == ".csv":
        return _write_table(arrays, path)
    path = path if path.suffix == ".npz" else path.with_name(path.name + ".npz")
    with file_of_user(path), atomic_open(path) as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    return path


def _write_table(arrays: dict[str, np.ndarray], path: Path) -> Path:
    """Rows counted from 0, and a column for each number of an array."""
    columns: dict[str, np.ndarray] = {}
    for name, values in arrays.items():
        wide = values.reshape(len(values), -1)
        names = [name] if values.ndim == 1 else [f"{name}_{i}" for i in range(wide.shape[1])]
        columns |= dict(zip(names, wide.T, strict=True))
    with file_of_user(path), atomic_open(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        writer = csv.writer(text)
        writer.writerow(["row", *columns])
        writer.writerows([i, *cells] for i, cells in enumerate(zip(*columns.values(), strict=True)))
        text.detach()
    return path
