"""Files as other projects publish them, each looked at, converted where it must be, and learned from by a command.

The real ones where they are, and always small ones with the same layout.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from public_files import public_file
from test_ogbench import compact
from test_python_values import demonstrations, pickled
from test_rllib import batch, packed, write

from rl_lightning.cli import main
from rl_lightning.datasets import load_dataset

TINY = ("--updates", "4", "--run.eval_every", "4", "--run.eval_episodes", "1", "--data.batch_size", "16")


class Demo(NamedTuple):
    """A published file.

    Args:
        name: Of the real one.
        rebuilt: Writes a small one.
        layout: What `rl data check` calls it.
        convert: Options that it is converted with; null: training reads it as it is.
        env: Where it is evaluated, if not where it says itself.
        sound: Whether `rl data check` is content with it.
    """

    name: str
    rebuilt: Callable[[Path], Path]
    layout: str
    convert: tuple[str, ...] | None = None
    env: tuple[str, ...] = ()
    sound: bool = True


def _door(folder: Path) -> Path:
    return pickled(folder, demonstrations((12, 9)))


def _cube(folder: Path) -> Path:
    np.savez_compressed(folder / "cube.npz", **compact())
    return folder / "cube.npz"


def _cartpole(folder: Path) -> Path:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    steps = 9
    obs = np.random.default_rng(0).uniform(-0.1, 0.1, (steps + 1, 4))
    columns = {
        "eps_id": [1484177277] * steps, "obs": list(obs[:-1]), "actions": [0, 1, 1] * 3, "rewards": [1.0] * steps,
        "prev_actions": [0] * steps, "dones": [False] * steps, "new_obs": list(obs[1:]),
        "action_dist_inputs": list(obs[:-1, :2]),
    }  # fmt: skip
    parquet.write_table(pyarrow.table(columns), folder / "cartpole.parquet")
    return folder / "cartpole.parquet"


def _pendulum(folder: Path) -> Path:
    """Actions beyond their bounds, observations behind a filter, next ones shifted across ends, as in the real one."""
    lines = []
    for number in (1, 2):
        obs = np.random.default_rng(number).normal(size=(7, 3)).astype(np.float32)
        line = batch([number] * 6, actions=[[40.0], [-90.0], [0.5]] * 2, dones=[False] * 5 + [True])
        lines.append(line | {"obs": packed(obs[:-1]), "new_obs": packed(obs[1:])})
    return write(folder, *lines, name="pendulum.jsonl")


DEMOS = (
    Demo("dapg-door-v0.pickle", _door, "DAPG demonstrations", ()),
    Demo("ogbench-cube-single-play-3episodes.npz", _cube, "OGBench's compact form"),
    Demo("rllib-cartpole.parquet", _cartpole, "an RLlib table", env=("--data.env.id", "CartPole-v1")),
    Demo(
        "rllib-pendulum.jsonl", _pendulum, "RLlib's JSON lines",
        ("--env", "Pendulum-v1", "--clip_actions", "--ends", "truncated"), sound=False,
    ),
)  # fmt: skip


@pytest.fixture
def rl(tmp_path, monkeypatch, capsys):
    for name, value in {"RL_LOGS": "logs", "RL_DATA_DIR": "data", "MUJOCO_GL": "disable"}.items():
        monkeypatch.setenv(name, str(tmp_path / value) if name.startswith("RL") else value)
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        code = main(list(words))
        return (code, *capsys.readouterr())

    return run


@pytest.mark.parametrize("origin", ["real", "rebuilt"])
@pytest.mark.parametrize("demo", DEMOS, ids=lambda demo: demo.name)
def test_it_is_looked_at_and_learned_from(rl, tmp_path, demo: Demo, origin: str) -> None:
    if demo.env == () and demo.convert == ():
        pytest.importorskip("gymnasium_robotics")
    if demo.name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    path = public_file(demo.name) if origin == "real" else demo.rebuilt(tmp_path)
    code, text, _ = rl("data", "check", str(path))
    assert demo.layout in text and code == (0 if demo.sound else 3), text
    if demo.convert is not None:
        code, _, error = rl("fit", "--config", "bc/hopper-medium", "--data.dataset", str(path), *TINY)
        assert code == 3 and f"rl data convert {path} {path.stem}.hdf5" in error, "nothing unpickles in a fit"
        code, text, error = rl("data", "convert", str(path), "new.hdf5", *demo.convert)
        assert code == 0, error
        path = Path("new.hdf5")
    learned = rl(
        "fit", "--config", "bc/hopper-medium", "--data.dataset", str(path), *demo.env, *TINY, "--name", "a"
    )
    assert learned[0] == 0 and "done: 4 updates" in learned[1], learned[2]
    known_env = demo.env or load_dataset(str(path)).spec.env_id
    assert ("best evaluation" in learned[1]) == bool(known_env), learned[1]


def test_values_ask_for_what_demonstrations_lack(rl, tmp_path) -> None:
    for path, lacking in ((_cube(tmp_path), "rewards"), (_door(tmp_path), "terminals")):
        if path.suffix == ".pickle":
            assert rl("data", "convert", str(path), "door.hdf5")[0] == 0
            path = Path("door.hdf5")
        code, _, error = rl("fit", "--config", "iql/hopper-medium", "--data.dataset", str(path), *TINY)
        assert code == 3 and f"no '{lacking}'" in error and not (tmp_path / "logs").exists()
