"""Exported policies act as ours do, also where we are not installed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from contracts.cases import BY_NAME

from rl_lightning.algorithms import EvolveController
from rl_lightning.cli.export_policy import (
    GreedyPolicy,
    checked_onnx,
    description,
    observations,
    why_no_script,
)
from rl_lightning.envs.make import EnvConfig, probe_spec
from rl_lightning.envs.noise import Noise
from rl_lightning.envs.transforms import ImagePreset
from rl_lightning.errors import ConfigError
from rl_lightning.types import EnvSpec

from .conftest import Rl

onnxruntime = pytest.importorskip("onnxruntime")

PENDULUM = """\
model: {class_path: SAC, init_args: {network: {class_path: MLP, init_args: {hidden: [8]}}, critic_hidden: [8]}}
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
    folder = workdir / "lightning_logs/a/export"
    script = (folder / "play.py").read_text()
    assert len(script.splitlines()) <= 10 and "rl_lightning" not in script
    alone = "import sys, runpy; sys.modules['rl_lightning'] = sys.modules['torch'] = None; "
    alone += f"runpy.run_path({str(folder / 'play.py')!r})"
    played = subprocess.run([sys.executable, "-c", alone], capture_output=True, text=True, cwd=workdir)
    assert played.returncode == 0, played.stderr
    assert float(played.stdout) == ours("a"), "the same episode as ours"


def ours(run: str) -> float:
    """The return of the episode that play.py plays."""
    import gymnasium

    from rl_lightning.cli.evaluation import TAKES, load
    from rl_lightning.cli.flags import parse

    agent = load(parse([run], TAKES, config=True), "best", None)
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


def test_safetensors_hold_the_weights(rl: Rl, workdir: Path) -> None:
    from safetensors.torch import load_file

    assert rl("fit", "--config", "cartpole.yaml", "--name", "a").code == 0
    done = rl("export", "a", "--format", "safetensors")
    assert done.code == 0 and "bit for bit" in done.out
    weights = load_file(workdir / "lightning_logs/a/export/policy.safetensors")
    best = torch.load(workdir / "lightning_logs/a/checkpoints/best.ckpt", weights_only=True)["state_dict"]
    assert weights.keys() == best.keys() and all(torch.equal(weights[k], best[k]) for k in best)


def small(name: str) -> tuple[GreedyPolicy, torch.Tensor]:
    """The policy of a contract's row, its weights moved so that actions differ, and what it sees."""
    torch.manual_seed(0)
    data = BY_NAME[name].data()
    model = BY_NAME[name].model(data.spec)
    for weight in model.parameters():
        weight.data += 0.1 * torch.randn_like(weight)
    return GreedyPolicy(model, data.spec).eval(), observations(data, 8)


def assert_same_for_three_steps(policy: GreedyPolicy, rows: torch.Tensor, folder: Path) -> None:
    path, _ = checked_onnx(policy, rows, folder)
    session = onnxruntime.InferenceSession(str(path))
    known = {item.name for item in session.get_inputs()}
    inputs = policy.inputs(rows)
    for _ in range(3):
        feed = {name: value.numpy() for name, value in zip(policy.names(), inputs, strict=True)}
        theirs = session.run(None, {name: value for name, value in feed.items() if name in known})
        with torch.no_grad():
            ours = policy(*inputs)
        for mine, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(mine, torch.from_numpy(other), rtol=1e-3, atol=1e-3)
        inputs = (rows, *ours[1:])


@pytest.mark.parametrize(
    "name", ["dreamer-v2", "dreamer-v3-multi-discrete", "dreamer-v3-pixels-latents", "ppo-transformer"]
)
def test_latent_states_and_windows_go_through_onnx(name: str, tmp_path: Path) -> None:
    assert_same_for_three_steps(*small(name), tmp_path)


@pytest.mark.parametrize("kind", ["continuous", "discrete"])
def test_controllers_of_dreams_go_through_onnx(kind: str, tmp_path: Path) -> None:
    actions: dict[str, Any] = {"action_shape": (2,), "action_low": (-1.0, -1.0), "action_high": (1.0, 1.0)}
    if kind == "discrete":
        actions = {"action_kind": "discrete", "action_sizes": (3,)}
    spec = EnvSpec("tests/Frames-v0", (3, 64, 64), "uint8", **actions)
    model = EvolveController(spec, "none", latent=2, depth=2, hidden=4)
    model.best.normal_(generator=torch.Generator().manual_seed(0))
    rows = torch.randint(0, 255, (8, 3, 64, 64), dtype=torch.uint8)
    assert_same_for_three_steps(GreedyPolicy(model, spec).eval(), rows, tmp_path)


def test_what_onnx_cannot_express_leaves_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    policy, rows = small("planet")
    with pytest.raises(ConfigError, match=r"cannot express.*\n--format safetensors"):
        checked_onnx(policy, rows, tmp_path / "out")
    assert capfd.readouterr() == ("", "") and not list(tmp_path.iterdir())


def test_a_file_that_does_not_run_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fixed_rows(policy: GreedyPolicy, rows: torch.Tensor, path: Path) -> None:
        with torch.no_grad():
            torch.onnx.export(policy, policy.inputs(rows[:2]), str(path), input_names=["obs"], dynamo=False)

    monkeypatch.setattr("rl_lightning.cli.export_policy.write_onnx", fixed_rows)
    policy, rows = small("ppo-discrete")
    with pytest.raises(ConfigError, match="cannot express"):
        checked_onnx(policy, rows, tmp_path / "out")
    assert "onnxruntime" not in capfd.readouterr().err and not list(tmp_path.iterdir())


SCRIPTS = [
    (EnvConfig("CartPole-v1"), None),
    (EnvConfig("Pendulum-v1", max_episode_steps=20), None),
    (EnvConfig("rl/Hole-v0"), "rl/Hole-v0 is no env of Gymnasium's own"),
    (EnvConfig("FrozenLake-v1"), "sees other observations than FrozenLake-v1 gives"),
    (EnvConfig("Pendulum-v1", action_repeat=2), "each action is played 2 times"),
    (EnvConfig("Pendulum-v1", noise=Noise(0.5, 0.1)), "noise of ours"),
    (EnvConfig("CartPole-v1", transforms=[ImagePreset()]), "go through ImagePreset"),
]


@pytest.mark.parametrize(("env", "reason"), SCRIPTS, ids=lambda value: getattr(value, "id", value))
def test_a_script_only_where_gymnasium_makes_the_same_env(env: EnvConfig, reason: str | None) -> None:
    spec = EnvSpec("CartPole-v1", (1,)) if env.transforms else probe_spec(env)  # drawing takes its time
    why = why_no_script(spec, description(SimpleNamespace(spec=spec, env=env), "a policy"))
    assert why is None if reason is None else reason in str(why)


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
