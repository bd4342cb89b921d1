"""Agents of Stable-Baselines3 act as they did, start training, and run no code of theirs."""

from __future__ import annotations

import importlib
import io
import os
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from public_files import public_file
from resume.support import Rl
from runs.imports import sb3_files as files

import rl_lightning as rl_python

PENDULUM, CARTPOLE = (
    "Pendulum-v1",
    "CartPole-v1",
)  # three numbers seen, torque in [-2, 2]; four seen, two actions


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    torch.manual_seed(0)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def taken(rl: Rl, path: Path, env: str, name: str = "taken") -> rl_python.LoadedPolicy:
    result = rl("import", "sb3", str(path), "--env", env, "--name", name)
    assert result.code == 0, result.err
    return rl_python.load(name)


def test_ppo_acts_in_the_envs_own_units(rl: Rl, here: Path) -> None:
    weights = files.ppo(3, 1, continuous=True, hidden=[16, 8])
    policy = taken(rl, files.write(here / "a.zip", weights, gamma=0.9, n_steps=64, n_envs=4), PENDULUM)
    obs = torch.randn(20, 3)
    features = files.run(weights, "mlp_extractor.policy_net", obs, torch.tanh, final=True)
    mean = torch.nn.functional.linear(features, weights["action_net.weight"], weights["action_net.bias"])
    assert np.allclose(policy.act(obs.numpy()), mean.clamp(-2.0, 2.0).numpy(), atol=1e-5)
    assert torch.allclose(policy.model.policy.log_std, weights["log_std"] - np.log(2.0))
    value = files.run(weights, "mlp_extractor.value_net", obs, torch.tanh, final=True)
    value = torch.nn.functional.linear(value, weights["value_net.weight"], weights["value_net.bias"])
    own = policy.model.value(policy.model.value_torso(obs))
    assert torch.allclose(own.reshape(-1), value.reshape(-1), atol=1e-5)
    assert policy.model.gamma == 0.9 and policy.data.rollout_steps == 64


def test_discrete_ppo_with_another_activation(rl: Rl, here: Path) -> None:
    weights = files.ppo(4, 2, continuous=False, hidden=[8])
    kwargs = {"activation_fn": "<class 'torch.nn.modules.activation.ReLU'>", ":serialized:": "x"}
    policy = taken(rl, files.write(here / "a.zip", weights, policy_kwargs=kwargs), CARTPOLE)
    obs = torch.randn(50, 4)
    features = files.run(weights, "mlp_extractor.policy_net", obs, torch.relu, final=True)
    logits = torch.nn.functional.linear(features, weights["action_net.weight"], weights["action_net.bias"])
    assert (policy.act(obs.numpy()) == logits.argmax(-1).numpy()).all()


def test_sac_its_critics_and_its_temperature(rl: Rl, here: Path) -> None:
    weights = files.sac(3, 1, [16, 8])
    path = files.write(here / "a.zip", weights, {"log_ent_coef": torch.tensor([-1.5])}, tau=0.02)
    policy = taken(rl, path, PENDULUM)
    obs, action = torch.randn(20, 3), torch.rand(20, 1) * 2 - 1
    features = files.run(weights, "actor.latent_pi", obs, torch.relu, final=True)
    mean = torch.nn.functional.linear(features, weights["actor.mu.weight"], weights["actor.mu.bias"])
    assert np.allclose(policy.act(obs.numpy()), 2.0 * mean.tanh().numpy(), atol=1e-5)
    for own, theirs in ((policy.model.q, "critic"), (policy.model.q_target, "critic_target")):
        rows = torch.cat((obs, action), -1)
        each = [files.run(weights, f"{theirs}.qf{i}", rows, torch.relu, final=False)[:, 0] for i in range(2)]
        assert torch.allclose(own(obs, action), torch.stack(each), atol=1e-5)
    assert policy.model.log_alpha.item() == -1.5 and policy.model.tau == 0.02
    log_std = torch.nn.functional.linear(
        features, weights["actor.log_std.weight"], weights["actor.log_std.bias"]
    )
    near = (log_std + 1.5).abs() < 0.5  # in the middle of the bounds
    assert near.any() and torch.allclose(policy.model.actor(obs)[1][near], log_std[near], atol=0.01)


def test_of_tqc_the_policy_is_taken(rl: Rl, here: Path) -> None:
    path = files.write(here / "a.zip", files.sac(3, 1, [8], quantiles=25))
    result = rl("import", "sb3", str(path), "--env", PENDULUM, "--episodes", "1")
    assert result.code == 0 and "its critics predict quantiles" in result.out and "1 episode" in result.out
    assert "--model.actor_warmup_updates" in result.out, "else critics that know nothing lead the policy away"


def test_td3_and_dqn(rl: Rl, here: Path) -> None:
    obs, weights = torch.randn(20, 3), files.td3(3, 1, [8, 8])
    policy = taken(rl, files.write(here / "a.zip", weights), PENDULUM)
    action = files.run(weights, "actor.mu", obs, torch.relu, final=False).tanh()
    assert np.allclose(policy.act(obs.numpy()), 2.0 * action.numpy(), atol=1e-5)
    obs, weights = torch.randn(50, 4), files.dqn(4, 2, [8, 8])
    policy = taken(rl, files.write(here / "b.zip", weights), CARTPOLE, "other")
    value = files.run(weights, "q_net.q_net", obs, torch.relu, final=False)
    assert (policy.act(obs.numpy()) == value.argmax(-1).numpy()).all()


def test_it_starts_training_and_is_exported(rl: Rl, here: Path) -> None:
    path = files.write(here / "a.zip", files.ppo(4, 2, continuous=False, hidden=[64, 64]))
    taken(rl, path, CARTPOLE)
    warm = ("--ckpt_path", "taken", "--resume_mode", "warm_start", "--env_steps", "2000", "--name", "warm")
    assert rl("fit", "--config", "ppo/cartpole", *warm).code == 0
    assert rl("export", "taken", "--format", "safetensors").code == 0
    shared = ("--format", "hub", "--output", "agent", "--episodes", "1")
    assert rl("export", "taken", *shared).code == 0
    card = Path("agent", "README.md").read_text()
    assert "imported from a.zip" in card and "0 env steps" not in card and "Imported with:" in card


REFUSED = [
    ({"weights": {"a": torch.zeros(1)}}, "neither PPO"),
    (
        {"weights": files.dqn(4, 2, [8]) | {"q_net.features_extractor.cnn.0.weight": torch.zeros(1)}},
        "pictures",
    ),
    ({"weights": files.dqn(7, 2, [8])}, "was it trained on another env"),
    ({"weights": files.dqn(4, 2, [8]), "use_sde": True}, "gSDE"),
    ({"weights": None}, "no agent of Stable-Baselines3"),
]


@pytest.mark.parametrize(("what", "told"), REFUSED, ids=lambda v: v if isinstance(v, str) else "")
def test_what_cannot_be_taken_is_told_and_leaves_no_run(rl: Rl, here: Path, what: dict, told: str) -> None:
    path = files.write(here / "a.zip", what.pop("weights"), **what)
    result = rl("import", "sb3", str(path), "--env", CARTPOLE)
    assert result.code == 3 and told in result.err and len(result.err.splitlines()) <= 3
    assert not list((here / "lightning_logs").glob("*"))


class Hostile:
    def __reduce__(self):
        return (Path.touch, (Path("touched"),))


def test_a_zip_runs_no_code(rl: Rl, here: Path) -> None:
    content = io.BytesIO()
    torch.save({"q_net.q_net.0.weight": Hostile()}, content)
    with zipfile.ZipFile(here / "a.zip", "w") as file:
        file.writestr("data", "{}")
        file.writestr("policy.pth", content.getvalue())
    result = rl("import", "sb3", str(here / "a.zip"), "--env", CARTPOLE)
    assert result.code == 3 and "could run code" in result.err and not Path("touched").exists()


def test_words_are_asked_for(rl: Rl, here: Path) -> None:
    assert "rl import sb3 FILE.zip --env ID" in rl("import", "d3rlpy", "x").err
    assert "which env" in rl("import", "sb3", "x.zip").err


# what they return here over 20 episodes of v5 and their standard deviation: docs/data.md
PUBLISHED = {
    "ppo-CartPole-v1": (CARTPOLE, 500.0, 0.0),
    "sac-HalfCheetah-v3": ("HalfCheetah-v5", 9428.0, 91.0),
    "sac-Hopper-v3": ("Hopper-v5", 1120.0, 84.0),
    "sac-Walker2d-v3": ("Walker2d-v5", 3945.0, 57.0),
    "tqc-HalfCheetah-v3": ("HalfCheetah-v5", 12120.0, 138.0),
    "tqc-Hopper-v3": ("Hopper-v5", 3348.0, 534.0),
    "tqc-Walker2d-v3": ("Walker2d-v5", 4450.0, 110.0),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_agents_are_taken_by_one_command_and_act_as_they_did(rl: Rl, here: Path, name: str) -> None:
    env, mean, std = PUBLISHED[name]
    path = public_file(f"{name}.zip", "experts")
    asked = rl("import", "sb3", str(path))
    assert asked.code == 2 and f"{path} --env {env}" in asked.err, "its name says what it was trained on"
    policy = taken(rl, path, env)
    returns = policy.evaluate(episodes=1)
    assert abs(returns.mean() - mean) <= 4 * std, returns
    with zipfile.ZipFile(path) as file:
        given = torch.load(io.BytesIO(file.read("policy.pth")), "cpu", weights_only=True)
    if name.startswith("ppo"):
        return
    obs = torch.randn(20, *policy.data.spec.obs_shape)
    features = files.run(given, "actor.latent_pi", obs, torch.relu, final=True)
    mean_action = torch.nn.functional.linear(features, given["actor.mu.weight"], given["actor.mu.bias"])
    assert np.allclose(policy.act(obs.numpy()), mean_action.tanh().numpy(), atol=1e-4)


@pytest.mark.parametrize("name", ["ppo-CartPole-v1", "tqc-Hopper-v3"])
def test_published_agents_record_and_start_training(
    rl: Rl, here: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("RL_DATA_DIR", str(here / "data"))
    taken(rl, public_file(f"{name}.zip", "experts"), PUBLISHED[name][0])
    made = rl("data", "make", "local/shown", "--run", "taken", "--rows", "300", "--num_envs", "1")
    assert made.code == 0 and rl("data", "check", "local/shown").code == 0, made.err
    config = "ppo/cartpole" if name.startswith("ppo") else "sac/hopper"
    warm = ("--ckpt_path", "taken", "--resume_mode", "warm_start", "--env_steps", "600", "--name", "warm")
    begun = rl("fit", "--config", config, *warm, "--eval_every", "600", "--eval_episodes", "1")
    assert begun.code == 0, begun.err
    if name.startswith("tqc"):  # which learns after more steps than these
        obs = np.random.default_rng(0).normal(size=(20, 11)).astype(np.float32)
        assert (rl_python.load("warm").act(obs) == rl_python.load("taken").act(obs)).all()


def test_an_env_of_ones_own_is_played_at_once(rl: Rl, here: Path) -> None:
    (here / "own_for_import.py").write_text(
        "import gymnasium\nfrom gymnasium.envs.classic_control import PendulumEnv\n"
        "gymnasium.register('own_for_import/P-v0', entry_point=PendulumEnv, max_episode_steps=20)\n"
    )
    path = str(files.write(here / "a.zip", files.sac(3, 1, [8])))
    result = rl(
        "import", "sb3", path, "--env", "own_for_import/P-v0", "--import", "own_for_import", "--episodes", "1"
    )
    assert result.code == 0 and "1 episode" in result.out, result.err


def test_what_was_imported_is_continued_as_a_new_run(rl: Rl, here: Path) -> None:
    path = str(files.write(here / "a.zip", files.sac(3, 1, [8])))
    assert rl("import", "sb3", path, "--env", PENDULUM, "--name", "imported").code == 0
    refused = rl("resume", "imported", "--env_steps", "300")
    assert refused.code == 2 and "holds imported weights" in refused.err, refused.err
    assert "--ckpt_path" in refused.err and "--resume_mode warm_start" in refused.err


TRAINING = """
import sys
import gymnasium, numpy, stable_baselines3 as sb3, torch
torch.set_num_threads(1)
for kind, env, steps in (("PPO", "CartPole-v1", 2048), ("A2C", "Pendulum-v1", 500), ("SAC", "Pendulum-v1", 300),
                         ("TD3", "Pendulum-v1", 300), ("DQN", "CartPole-v1", 300)):
    model = getattr(sb3, kind)("MlpPolicy", env, seed=0, device="cpu")
    model.learn(steps)
    model.save(f"{kind}.zip")
    shape = gymnasium.make(env).observation_space.shape
    obs = numpy.random.default_rng(0).normal(size=(64, *shape)).astype("float32")
    numpy.savez(f"{kind}.npz", obs=obs, action=model.predict(obs, deterministic=True)[0])
"""


@pytest.mark.slow
def test_what_the_benchmarks_sb3_trains_acts_as_it_did(
    rl: Rl, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "benchmarks")
    folder = importlib.import_module("peers").cache() / "sb3"
    if not (folder / ".installed").is_file() or (folder / ".installed").read_text() != "ok":
        pytest.skip(f"no Stable-Baselines3 in {folder}; python benchmarks/run.py --only ppo installs it")
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([folder / "bin" / "python", "-c", TRAINING], cwd=here, env=own, check=True, timeout=300)
    for kind in ("PPO", "A2C", "SAC", "TD3", "DQN"):
        policy = taken(
            rl, here / f"{kind}.zip", PENDULUM if kind in ("A2C", "SAC", "TD3") else CARTPOLE, kind
        )
        with np.load(f"{kind}.npz") as theirs:
            np.testing.assert_allclose(policy.act(theirs["obs"]), theirs["action"], atol=1e-5, err_msg=kind)
