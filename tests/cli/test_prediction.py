"""`rl predict`, `rl export` and `load` give the policy that evaluation scores, with an env and without one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from rl_lightning import load
from rl_lightning.runs.agents.agent import load_agent
from rl_lightning.runs.request import Request
from rl_lightning.runs.store.run_folder import resolve

from .conftest import Rl

MODES = np.linspace(-0.8, 0.8, 5)
DENOISER = {"class_path": "MLPDenoiser", "init_args": {"hidden_dims": [48, 48], "time_embed_dim": 16}}
SAMPLER = {"class_path": "DPMSolver", "init_args": {"num_inference_steps": 6}}
MODEL = {"denoiser": DENOISER, "sampler": SAMPLER, "lr": 5e-3, "clip_denoised": 1.0}


def bandit(path: Path, **more: object) -> None:
    """One observation, five equally good actions."""
    draw = np.random.default_rng(0)
    action = MODES[draw.integers(5, size=400)] + 0.02 * draw.standard_normal(400)
    rows = np.zeros((400, 2), np.float32)
    ends = np.ones(400, bool)
    np.savez(
        path, observations=rows, actions=action[:, None].astype(np.float32), rewards=np.ones(400, np.float32),
        next_observations=rows, terminals=ends, timeouts=~ends, **more,
    )  # fmt: skip


def write_config(folder: Path, model: str, init_args: dict[str, object], updates: int) -> None:
    data = {"class_path": "OfflineData", "init_args": {"dataset": "bandit.npz", "batch_size": 128}}
    config = {
        "model": {"class_path": model, "init_args": init_args}, "data": data, "run": {"updates": updates},
        "log": {"tensorboard": False}, "threads": 1,
    }  # fmt: skip
    (folder / "c.yaml").write_text(yaml.safe_dump(config))


@pytest.fixture
def drawn(rl: Rl, workdir: Path) -> Rl:
    """A diffusion policy of the bandit, trained as run `d`."""
    bandit(workdir / "bandit.npz")
    write_config(workdir, "BehaviorDiffusion", MODEL, 600)
    done = rl("fit", "--config", "c.yaml", "--name", "d")
    assert done.code == 0, done.err
    return rl


def modes_of(action: np.ndarray) -> list[float]:
    """Fraction of the actions nearest to each mode."""
    nearest = np.abs(action.reshape(-1, 1) - MODES).argmin(1)
    return [float((nearest == k).mean()) for k in range(5)]


def test_predicted_actions_are_as_many_draws(drawn: Rl) -> None:
    np.savez("rows.npz", obs=np.zeros((2500, 2), np.float32))  # three chunks
    assert drawn("predict", "d", "--data", "rows.npz", "--output", "told.npz").code == 0
    action = np.load("told.npz")["action"]
    assert len(np.unique(action.round(6))) > 2000
    assert not np.array_equal(action[:1024], action[1024:2048]), "each chunk draws anew"
    assert min(modes_of(action)) > 0.05, "all five modes are there"
    assert drawn("predict", "d", "--data", "rows.npz", "--output", "again.npz").code == 0
    assert np.array_equal(np.load("again.npz")["action"], action), "the same command, the same file"

    policy = load("d")
    many = np.array([policy.act(np.zeros(2)) for _ in range(200)])
    assert len(np.unique(many.round(6))) > 150 and sum(share > 0 for share in modes_of(many)) == 5
    policy.reset(seed=3)
    first = policy.act(np.zeros((5, 2)))
    policy.reset(seed=3)
    assert np.array_equal(policy.act(np.zeros((5, 2))), first)


def test_an_exported_policy_draws_from_the_noise_it_is_given(drawn: Rl) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    done = drawn("export", "d", "--format", "onnx", "--output", "out")
    assert done.code == 0, done.err
    session = onnxruntime.InferenceSession("out/policy.onnx")
    width = json.loads(Path("out/policy.json").read_text())["noise_inputs"]
    noise = np.random.default_rng(0).standard_normal((1000, width)).astype(np.float32)
    (action,) = session.run(None, {"obs": np.zeros((1000, 2), np.float32), "noise": noise})
    assert min(modes_of(action)) > 0.05


def test_every_episode_is_another_draw(rl: Rl, workdir: Path) -> None:
    config = {
        "model": {"class_path": "RandomPolicy"},
        "data": {"class_path": "OnlineData", "init_args": {"env": {"id": "CartPole-v1"}, "learning_starts": 8}},
        "run": {"env_steps": 16}, "log": {"tensorboard": False}, "threads": 1,
    }  # fmt: skip
    (workdir / "r.yaml").write_text(yaml.safe_dump(config))
    assert rl("fit", "--config", "r.yaml", "--name", "r").code == 0
    assert rl("predict", "r", "--episodes", "4", "--output", "e.npz").code == 0
    rows = np.load("e.npz")
    starts = [rows["action"][rows["episode"] == k][:6].tolist() for k in range(4)]
    assert len({tuple(start) for start in starts}) > 1


def test_rows_are_predicted_without_an_env_in_the_datas_own_scale(rl: Rl, workdir: Path) -> None:
    bandit(
        workdir / "bandit.npz",
        **{"metadata/action_low": np.array([-3.0]), "metadata/action_high": np.array([5.0])},
    )
    write_config(workdir, "BC", {"hidden_dims": [8]}, 2)
    assert rl("fit", "--config", "c.yaml", "--name", "b").code == 0
    np.savez("rows.npz", obs=np.random.default_rng(0).standard_normal((7, 2)).astype(np.float32))
    done = rl("predict", "b", "--data", "rows.npz", "--output", "told.npz")
    assert done.code == 0, done.err
    told = np.load("told.npz")["action"]
    agent = load_agent(resolve("b"), Request())
    with torch.no_grad():
        ours, _ = agent.cli.model.act(torch.from_numpy(np.load("rows.npz")["obs"]), (), None)
    np.testing.assert_allclose(told, 1.0 + 4.0 * ours.numpy(), rtol=1e-5)
    np.testing.assert_allclose(load("b").act(np.load("rows.npz")["obs"]), told, rtol=1e-5)

    done = rl("predict", "b", "--episodes", "1")
    assert done.code == 2 and "names no env to play in; give one: --data.env.id" in done.err
    done = rl("predict", "b", "--data", "bandit.npz", "--output", "set.npz")
    assert done.code == 0 and len(np.load("set.npz")["action"]) == 400


def test_a_data_set_is_predicted_row_by_row(rl: Rl, workdir: Path) -> None:
    bandit(workdir / "bandit.npz")
    write_config(workdir, "BC", {"hidden_dims": [8]}, 2)
    assert rl("fit", "--config", "c.yaml", "--name", "b").code == 0
    assert rl("data", "convert", "bandit.npz", "bandit.hdf5").code == 0
    done = rl("predict", "b", "--data", "bandit.hdf5", "--output", "told.npz")
    assert done.code == 0 and "400 actions" in done.out, done.err


def test_a_mask_of_another_shape_is_refused(rl: Rl, workdir: Path) -> None:
    masked = ["--data.env.id", "rl/Masked-v0", "--data.env.kwargs", "{num_actions: 4}"]
    assert rl("fit", "--config", "cartpole.yaml", *masked, "--name", "m").code == 0
    width = load("m").spec.obs_shape[0]
    np.savez("rows.npz", obs=np.zeros((3, width), np.float32), action_mask=np.ones((3, 7), bool))
    done = rl("predict", "m", "--data", "rows.npz")
    assert done.code == 3 and "action_mask is bool [3, 7], expected booleans [3, 4]" in done.err
