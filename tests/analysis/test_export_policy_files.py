"""Policies as files for others: ONNX that acts as ours does, and a script only where it would be right."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from contracts.cases import BY_NAME

from rl_lightning.algorithms import EvolutionaryController
from rl_lightning.analysis.export.export_policy import description
from rl_lightning.analysis.export.greedy_policy import GreedyPolicy, observations
from rl_lightning.analysis.export.onnx_file import checked_onnx
from rl_lightning.analysis.export.play_script import why_no_script
from rl_lightning.envs.make import EnvConfig, probe_spec
from rl_lightning.envs.wrappers.env_noise import EnvNoise
from rl_lightning.envs.wrappers.transforms import ImagePreprocessing
from rl_lightning.errors import ConfigError
from rl_lightning.types import EnvSpec

onnxruntime = pytest.importorskip("onnxruntime")


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
    model = EvolutionaryController(spec, "none", latent_dim=2, depth=2, hidden_dim=4)
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

    monkeypatch.setattr("rl_lightning.analysis.export.onnx_file.write_onnx", fixed_rows)
    policy, rows = small("ppo-discrete")
    with pytest.raises(ConfigError, match="cannot express"):
        checked_onnx(policy, rows, tmp_path / "out")
    assert "onnxruntime" not in capfd.readouterr().err and not list(tmp_path.iterdir())


SCRIPTS = [
    (EnvConfig("CartPole-v1"), None),
    (EnvConfig("Pendulum-v1", max_episode_steps=20), None),
    (EnvConfig("rl/Hole-v0"), "rl/Hole-v0 is not an env of Gymnasium's own"),
    (EnvConfig("FrozenLake-v1"), "sees other observations than FrozenLake-v1 gives"),
    (EnvConfig("Pendulum-v1", action_repeat=2), "each action is played 2 times"),
    (EnvConfig("Pendulum-v1", noise=EnvNoise(0.5, 0.1)), "noise of ours"),
    (EnvConfig("CartPole-v1", transforms=[ImagePreprocessing()]), "go through ImagePreprocessing"),
]


@pytest.mark.parametrize(("env", "reason"), SCRIPTS, ids=lambda value: getattr(value, "id", value))
def test_a_script_only_where_gymnasium_makes_the_same_env(env: EnvConfig, reason: str | None) -> None:
    spec = EnvSpec("CartPole-v1", (1,)) if env.transforms else probe_spec(env)  # drawing takes its time
    why = why_no_script(spec, description(SimpleNamespace(spec=spec, env=env), "a policy"))
    assert why is None if reason is None else reason in str(why)
