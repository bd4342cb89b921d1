"""Exported policies act as ours do, also where we are not installed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

from .conftest import Rl

onnxruntime = pytest.importorskip("onnxruntime")

PENDULUM = """\
model:
  class_path: SAC
  init_args: {network: {class_path: MLP, init_args: {hidden_dims: [8]}}, critic_hidden_dims: [8]}
data:
  class_path: OnlineData
  init_args: {env: {id: Pendulum-v1, max_episode_steps: 20}, batch_size: 8, learning_starts: 16}
run: {env_steps: 32, eval_every: 32, eval_episodes: 1}
log: {tensorboard: false}
threads: 1
"""


def test_onnx_policy_plays_without_us(rl: Rl, workdir: Path) -> None:
    assert rl("fit", "--config", "cartpole.yaml", "--name", "a").code == 0
    done = rl("export", "a", "--format", "onnx")
    assert done.code == 0, done.err
    assert "the same action on 64 observations" in done.out
    one = rl("export", "a", "--output", "one/ppo.onnx")  # the file, as it is named
    assert one.code == 0 and [path.name for path in (workdir / "one").iterdir()] == ["ppo.onnx"], one.err
    assert rl("export", "a", "--format", "safetensors", "--output", "x.onnx").code == 2
    folder = workdir / "lightning_logs/a/export"
    script = (folder / "play.py").read_text()
    assert len(script.splitlines()) <= 10 and "rl_lightning" not in script
    alone = "import sys, runpy; sys.modules['rl_lightning'] = sys.modules['torch'] = None; "
    alone += f"runpy.run_path({str(folder / 'play.py')!r})"
    played = subprocess.run([sys.executable, "-c", alone], capture_output=True, text=True, cwd=workdir)
    assert played.returncode == 0, played.stderr
    assert float(played.stdout) == ours("a"), "the same episode as ours"


def test_the_forms_that_an_export_takes_are_named(rl: Rl, workdir: Path) -> None:
    assert rl("fit", "--config", "cartpole.yaml", "--name", "a").code == 0
    done = rl("export", "a", "--format", "pdf")
    assert done.code == 2
    assert "--format takes latex, csv, json, markdown, onnx, safetensors, hub, not 'pdf'" in done.err


def ours(run: str) -> float:
    """The return of the episode that play.py plays."""
    from rl_lightning.runs.agents.agent import load_agent
    from rl_lightning.runs.request import Request
    from rl_lightning.runs.store.run_folder import resolve

    agent = load_agent(resolve(run), Request())
    env, total, ended = gymnasium.make("CartPole-v1"), 0.0, False
    obs, _ = env.reset(seed=0)
    while not ended:
        with torch.no_grad():
            action, _ = agent.cli.model.act(torch.from_numpy(obs)[None], (), None)
        obs, reward, terminated, truncated, _ = env.step(int(action[0]))
        total, ended = total + float(reward), terminated or truncated
    return total


def test_continuous_actions_come_in_the_envs_scale(rl: Rl, workdir: Path) -> None:
    (workdir / "p.yaml").write_text(PENDULUM)
    assert rl("fit", "--config", "p.yaml", "--name", "p").code == 0
    done = rl("export", "p", "--format", "onnx", "--output", "out")
    assert done.code == 0, done.err
    session = onnxruntime.InferenceSession("out/policy.onnx")
    obs = torch.randn(5, 3).numpy() * 100
    (action,) = session.run(None, {"obs": obs})
    assert action.shape == (5, 1) and abs(action).max() <= 2.0
    assert json.loads(Path("out/policy.json").read_text())["env"] == "Pendulum-v1"


def test_recurrent_policy(rl: Rl, workdir: Path) -> None:
    assert rl("fit", "--config", "cartpole.yaml", "--config", "network/gru", "--name", "g").code == 0
    done = rl("export", "g", "--format", "onnx")
    assert done.code == 0, done.err
    played = subprocess.run(
        [sys.executable, "lightning_logs/g/export/play.py"], capture_output=True, text=True, cwd=workdir
    )
    assert played.returncode == 0 and float(played.stdout) > 0, played.stderr


RETURNS = """\
model:
  class_path: DecisionTransformer
  init_args: {embed_dim: 8, num_layers: 1, context_length: 3, max_timestep: 20, return_scale: 10.0, lr: 0.1}
data:
  class_path: TrajectoryData
  init_args: {dataset: rows.npz, env: {id: Pendulum-v1, max_episode_steps: 20}, context_length: 3, batch_size: 8}
run: {updates: 20, eval_every: 20, eval_episodes: 1}
log: {tensorboard: false}
threads: 1
"""


def test_a_policy_that_is_told_rewards(rl: Rl, workdir: Path) -> None:
    """The same episode by play.py, by evaluation and by hand, where each step's reward counts."""
    from rl_lightning.api.policy import load
    from rl_lightning.errors import ConfigError

    draw = np.random.default_rng(0)
    obs = draw.normal(size=(80, 3)).astype(np.float32)
    np.savez(
        "rows.npz",
        observations=obs,
        actions=draw.uniform(-1, 1, (80, 1)).astype(np.float32),
        rewards=-10 * np.abs(obs[:, 0]),
        next_observations=obs,
        terminals=np.zeros(80, bool),
        timeouts=np.arange(1, 81) % 20 == 0,
    )
    (workdir / "returns.yaml").write_text(RETURNS)
    done = rl("fit", "--config", "returns.yaml", "--name", "d")
    assert done.code == 0, done.err
    assert rl("predict", "d", "--data", "rows.npz", "--output", "told.npz").code == 0
    done = rl("export", "d", "--format", "onnx", "--output", "out")
    assert done.code == 0, done.err
    played = subprocess.run([sys.executable, "out/play.py"], capture_output=True, text=True, cwd=workdir)
    assert played.returncode == 0, played.stderr
    policy = load("d", "last")
    env = gymnasium.make("Pendulum-v1", max_episode_steps=20)
    (seen, _), total, reward, ended = env.reset(seed=0), 0.0, None, False
    first = policy.act(seen)
    with pytest.raises(ConfigError, match="counts what it has earned"):
        policy.act(seen)
    policy.reset()
    while not ended:
        seen, reward, terminated, truncated, _ = env.step(policy.act(seen, reward=reward))
        total, ended = total + float(reward), terminated or truncated
    assert float(played.stdout) == pytest.approx(total, rel=1e-4)
    assert policy.evaluate(1, seed=0)[0] == pytest.approx(total, rel=1e-4)
    policy.model.target_return = 1000.0
    policy.reset()
    assert not np.array_equal(policy.act(env.reset(seed=0)[0]), first)


def test_safetensors_hold_the_weights(rl: Rl, workdir: Path) -> None:
    from safetensors.torch import load_file

    assert rl("fit", "--config", "cartpole.yaml", "--name", "a").code == 0
    done = rl("export", "a", "--format", "safetensors")
    assert done.code == 0 and "bit for bit" in done.out
    weights = load_file(workdir / "lightning_logs/a/export/policy.safetensors")
    best = torch.load(workdir / "lightning_logs/a/checkpoints/best.ckpt", weights_only=True)["state_dict"]
    assert weights.keys() == best.keys() and all(torch.equal(weights[k], best[k]) for k in best)


def test_no_script_is_said(rl: Rl, workdir: Path) -> None:
    lake = ["--data.env.id", "FrozenLake-v1", "--name", "lake"]
    assert rl("fit", "--config", "cartpole.yaml", *lake).code == 0
    done = rl("export", "lake", "--format", "onnx")
    assert done.code == 0 and "no play.py: the policy sees other observations" in done.out, done
    assert not (workdir / "lightning_logs/lake/export/play.py").exists()
    (workdir / "file").write_text("")
    done = rl("export", "lake", "--format", "onnx", "--output", "file")
    assert done.code == 2 and "is a file; a policy takes a folder" in done.err


def test_a_shorter_episode_stays_short(rl: Rl, workdir: Path) -> None:
    (workdir / "p.yaml").write_text(PENDULUM)
    assert rl("fit", "--config", "p.yaml", "--name", "p").code == 0
    assert rl("export", "p", "--format", "onnx", "--output", "out").code == 0
    assert "gymnasium.make('Pendulum-v1', max_episode_steps=20)" in Path("out/play.py").read_text()
