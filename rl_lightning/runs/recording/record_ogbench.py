"""OGBench's manipulation sets, recorded here by the package's own scripted oracles, an episode at a time."""

from __future__ import annotations

import contextlib
import importlib
import json
import shutil
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from rl_lightning.datasets.data_files import OGBENCH_SCRIPTED, data_dir, ogbench_file
from rl_lightning.datasets.layouts.ogbench import env_name
from rl_lightning.errors import DataError
from rl_lightning.extras import pip_command
from rl_lightning.io.atomic import atomic_open, write_json
from rl_lightning.io.lock import locked
from rl_lightning.io.text import file_size
from rl_lightning.runs.recording.bar import Bar
from rl_lightning.seeding import derive

EPISODES, STEPS = 1000, 1001  # as OGBench's own sets have them
NOISE, SMOOTHING, LEAST_NORM = 0.1, 0.5, 0.4  # of actions; LEAST_NORM is the noisy oracle's
AXIS_NOISE = np.array([1.0, 1.0, 1.0, 3.0, 10.0])  # of the noisy oracle, by action
# how often a cube is put on another one: uniform between these, by the number of cubes
STACKING = {
    "single": (0.0, 0.0),
    "double": (0.0, 0.25),
    "triple": (0.05, 0.35),
    "quadruple": (0.1, 0.5),
    "octuple": (0.0, 0.35),
}
PARTS = {"cube": ("cube",), "scene": ("cube", "button", "drawer", "window"), "puzzle": ("button",)}
ATTEMPTS = 20  # at an episode in which the scene's cube stays in sight


def record_ogbench(name: str, episodes: int = EPISODES, seed: int = 0, force: bool = False) -> str:
    """Records a set of OGBench's; where it lies, as text. What is there of it already is not recorded again.

    Args:
        name: `ogbench/cube-single-play`: play follows plans, noisy adds noise to what an oracle does.
        episodes: How many, of 1001 states each.
        seed: Of all of them; each episode has its own.
        force: Replace a set of this name.
    """
    path = data_dir() / "ogbench" / ogbench_file(name)
    match = OGBENCH_SCRIPTED.fullmatch(path.stem)
    if match is None:
        raise DataError(
            f"{name}: OGBench has scripts for cube, scene and puzzle, -play or -noisy (ogbench/cube-single-play); its "
            f"mazes are played by trained agents.\nFetch those: rl data get {name}"
        )
    if path.exists() and not force:
        raise DataError(
            f"{name}: is there already ({path}). Look at it with: rl data check {name}, or add --force"
        )
    recorder = _Recorder(f"ogbench/{path.stem}", match[1], match[3] == "noisy")
    parts = path.with_name(f".{path.name}.parts")
    with locked(path.with_name(f".{path.name}.lock")):  # another process may be recording it
        if not path.exists() or force:
            _record(recorder, path, parts, episodes, seed)
    return f"ogbench/{path.stem}: {episodes} episodes\n{path} ({file_size(path.stat().st_size)})"


def _record(recorder: _Recorder, path: Path, parts: Path, episodes: int, seed: int) -> None:
    """The episodes that are not there yet, then the file."""
    parts.mkdir(parents=True, exist_ok=True)
    about = {"name": path.stem, "seed": seed, "ogbench": metadata.version("ogbench")}
    _same_recording(parts, about)
    bar, kept_before = Bar("episodes"), 0
    for number in range(episodes):
        part = parts / f"{number:06d}.npz"
        if part.exists():
            kept_before = number + 1
            continue
        with atomic_open(part) as file:
            episode: dict[str, Any] = recorder.episode(derive(seed, f"ogbench-{number}"))
            np.savez_compressed(file, allow_pickle=False, **episode)
        bar(number + 1 - kept_before, episodes - kept_before)
    _join([parts / f"{number:06d}.npz" for number in range(episodes)], path)
    write_json(path.with_suffix(".json"), about | {"episodes": episodes})
    shutil.rmtree(parts)


def _same_recording(parts: Path, about: dict[str, Any]) -> None:
    """Episodes of another seed or package are recorded anew."""
    file = parts / "about.json"
    try:
        before = json.loads(file.read_text())
    except (OSError, ValueError):
        before = None
    if before != about:
        for part in parts.glob("*.npz"):
            part.unlink()
        write_json(file, about)


def _join(parts: list[Path], path: Path) -> None:
    columns: dict[str, list[np.ndarray]] = {}
    for part in parts:
        with np.load(part) as episode:
            for key in episode.files:
                columns.setdefault(key, []).append(episode[key])
    joined: dict[str, Any] = {key: np.concatenate(arrays) for key, arrays in columns.items()}
    with atomic_open(path) as file:
        np.savez_compressed(file, allow_pickle=False, **joined)


class _Recorder:
    """An env of OGBench's and the oracles that act in it."""

    def __init__(self, name: str, family: str, noisy: bool) -> None:
        try:
            import gymnasium
            import ogbench.manipspace  # noqa: F401  (registers its envs)
        except ImportError:
            raise DataError(
                f"{name}: is recorded by OGBench's package. Install it with: {pip_command('ogbench')}"
            ) from None
        self.family, self.noisy, self.size = family, noisy, name.split("-")[1]
        try:
            self.env = gymnasium.make(
                env_name(name), terminate_at_goal=False, mode="data_collection", max_episode_steps=STEPS
            )
        except gymnasium.error.Error as error:
            raise DataError(f"{name}: OGBench has no env {env_name(name)} ({error})") from None
        self.oracles = {part: self._oracle(part) for part in PARTS[family]}

    def _oracle(self, part: str) -> Any:
        kind = "markov" if self.noisy else "plan"
        module = importlib.import_module(f"ogbench.manipspace.oracles.{kind}.{part}_{kind}")
        oracle = getattr(module, f"{part.capitalize()}{kind.capitalize()}Oracle")
        options: dict[str, Any] = (
            {"min_norm": LEAST_NORM} if self.noisy else {"noise": NOISE, "noise_smoothing": SMOOTHING}
        )
        if self.noisy and self.family == "scene" and part == "cube":
            options["max_step"] = 100
        if self.family == "puzzle":
            options["gripper_always_closed"] = True
        return oracle(env=self.env, **options)

    def episode(self, seed: int) -> dict[str, np.ndarray]:
        """The states and actions of one episode, in OGBench's compact form."""
        with numpy_seeded(seed):
            for attempt in range(ATTEMPTS):
                rows = self._play(seed + attempt)
                if self.family != "scene" or in_sight(rows["qpos"]):
                    return rows
        raise DataError(f"no episode of {ATTEMPTS} kept the scene's cube in sight")

    def _play(self, seed: int) -> dict[str, np.ndarray]:
        obs, info = self.env.reset(seed=seed % 2**31)
        stacking = np.random.uniform(*STACKING[self.size]) if self.size in STACKING else 0.5
        noise = np.random.uniform(0, NOISE) if self.noisy else 0.0
        oracle = self._started(obs, info)
        rows: dict[str, list[Any]] = {}
        done = False
        while not done:
            action = np.asarray(oracle.select_action(obs, info))
            if self.noisy:
                action = action + np.random.normal(0, noise * AXIS_NOISE, action.shape)
            action = np.clip(action, -1, 1)
            following, _, terminated, truncated, info = self.env.step(action)
            done = terminated or truncated
            if oracle.done:
                oracle = self._started(*self.env.unwrapped.set_new_target(p_stack=stacking))  # type: ignore[attr-defined]
            step = {"observations": obs, "actions": action, "terminals": done}
            step |= {
                key: info[f"prev_{key}"] for key in ("qpos", "qvel", "button_states") if f"prev_{key}" in info
            }
            for key, value in step.items():
                rows.setdefault(key, []).append(value)
            obs = following
        kinds = {"terminals": np.bool_, "button_states": np.int64}
        return {key: np.array(values, kinds.get(key, np.float32)) for key, values in rows.items()}

    def _started(self, obs: Any, info: dict[str, Any]) -> Any:
        oracle = self.oracles[info["privileged/target_task"]]
        oracle.reset(obs, info)
        return oracle


def in_sight(qpos: np.ndarray) -> bool:
    """Whether the scene's cube is never too far right, nor too far left unless it lies in the drawer."""
    y, z = qpos[:, 15], qpos[:, 16]
    return not bool((y >= 0.29).any() or ((y <= -0.3) & ((z < 0.06) | (z > 0.08))).any())


@contextlib.contextmanager
def numpy_seeded(seed: int) -> Iterator[None]:
    """OGBench's oracles draw from numpy's global generator: seeded inside, as it was outside."""
    before = np.random.get_state()
    np.random.seed(seed % 2**32)
    try:
        yield
    finally:
        np.random.set_state(before)
