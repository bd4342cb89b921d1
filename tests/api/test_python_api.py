"""Training from Python: the same run as the command makes, and a process that is as it was."""

import os
import signal
import sys
import warnings

import numpy as np
import pytest
import torch

import rl_lightning as rl
from rl_lightning.cli import main
from rl_lightning.errors import ConfigError

SMALL = {
    "data.num_envs": 2,
    "data.rollout_steps": 32,
    "model.minibatch_size": 32,
    "run.eval_every": 128,
    "run.eval_episodes": 2,
    "log.tensorboard": False,
}
STEPS = 256


@pytest.fixture(autouse=True)
def logs(tmp_path, monkeypatch):
    monkeypatch.setenv("RL_LOGS", str(tmp_path / "logs"))
    return tmp_path / "logs"


def weights(run):
    return torch.load(run.folder / "checkpoints" / "best.ckpt", weights_only=True)["state_dict"]


def test_a_run_is_what_the_command_makes_of_the_same_settings(logs):
    run = rl.fit("ppo/cartpole", SMALL, env_steps=STEPS, seed=3, name="mine")
    assert run.status == "finished" and run.folder == logs / "mine" and run.name == "mine"
    flags = [f"--{key}={str(value).lower()}" for key, value in SMALL.items()]
    words = ["fit", "ppo/cartpole", *flags, "--env_steps", str(STEPS), "--seed", "3", "--name", "typed"]
    assert main(words) == 0
    typed = rl.TrainedRun(logs / "typed")
    assert run.best == typed.best
    for name, weight in weights(run).items():
        assert torch.equal(weight, weights(typed)[name]), name


def test_what_a_run_says(logs):
    run = rl.fit("ppo/cartpole", SMALL, env_steps=STEPS)
    table = run.metrics("eval/return")
    assert list(table["env_step"]) == [128, 256] and max(table["eval/return"]) == run.best
    assert {"env_step", "update", "train/approx_kl", "eval/return"} <= set(run.metrics())
    assert len(run.evaluations()) > 0
    assert "finished" in repr(run) and run.stages == []
    with pytest.raises(KeyError, match="no stage 'policy'"):
        run["policy"]
    with pytest.raises(Exception, match="eval/return"):
        run.metrics("eval/retrun")


def test_a_policy_acts_is_evaluated_and_loaded_from_anywhere(logs):
    run = rl.fit("ppo/cartpole", SMALL, env_steps=STEPS)
    policy = run.policy()
    assert "PPO policy of ppo-cartpole" in repr(policy)
    obs = np.zeros((64, 4), np.float32)
    greedy = policy.act(obs)
    assert np.array_equal(greedy, policy.act(obs, deterministic=True)) and len(set(greedy)) == 1
    assert len(set(policy.act(obs, deterministic=False))) == 2, "near uniform after so few steps"
    returns = policy.evaluate(episodes=4)
    assert returns.shape == (4,) and (returns > 0).all()
    assert np.array_equal(returns, policy.evaluate(episodes=4)), "the same seeds again"
    for place in (run, run.folder, str(run.folder), run.name, run.folder / "checkpoints" / "best.ckpt"):
        assert np.array_equal(rl.load(place).act(obs), greedy)
    stray = logs.parent / "stray.ckpt"
    stray.write_bytes((run.folder / "checkpoints" / "best.ckpt").read_bytes())
    with pytest.raises(ConfigError, match="lies in no run's folder"):
        rl.load(stray)


def test_a_run_resumed_is_a_run_never_stopped(logs):
    steady = {
        **SMALL,
        "model.lr_schedule": "Constant",
        "model.clip_range_schedule": "Constant",
    }  # of the budget's length
    whole = rl.fit("ppo/cartpole", steady, env_steps=2 * STEPS, name="whole")
    half = rl.fit("ppo/cartpole", steady, env_steps=STEPS, name="half")
    done = rl.resume(half, env_steps=2 * STEPS)
    assert done.record["env_step"] == 2 * STEPS and done.status == "finished"
    assert done.best == whole.best
    again, never = (rl.load(run, checkpoint="last").model.state_dict() for run in (done, whole))
    assert all(torch.equal(again[name], never[name]) for name in never)


def state_of_the_process():
    from jsonargparse import _common

    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)]
    parser = {k: dict(v) if isinstance(v, dict) else v for k, v in _common.parsing_settings.items()}
    device = torch.get_default_device()
    known = (dict(os.environ), handlers, list(warnings.filters), torch.get_num_threads(), list(sys.path))
    return (*known, parser, device)


def test_nothing_of_the_process_changes(logs):
    torch.set_num_threads(1)
    before = state_of_the_process()
    run = rl.fit("ppo/cartpole", {**SMALL, "threads": 2}, env_steps=STEPS)
    rl.resume(run, env_steps=2 * STEPS)
    rl.load(run)
    with pytest.raises(ConfigError):
        rl.fit("ppo/cartpole", {"model.no_such_key": 1}, env_steps=STEPS)
    assert state_of_the_process() == before


def test_two_runs_in_one_process_do_not_know_each_other(logs):
    first = rl.fit("ppo/cartpole", SMALL, env_steps=STEPS, seed=1)
    rl.fit("ppo/cartpole", SMALL, env_steps=STEPS, seed=2)
    third = rl.fit("ppo/cartpole", SMALL, env_steps=STEPS, seed=1)
    assert all(torch.equal(weight, weights(third)[name]) for name, weight in weights(first).items())


def test_bad_requests_leave_nothing_behind(logs):
    for overrides in ({"model.gama": 0.9}, {"model.gamma": 1.5}, {"model.network": object()}):
        with pytest.raises(ConfigError):
            rl.fit("ppo/cartpole", overrides, env_steps=STEPS)
    with pytest.raises(ConfigError):
        rl.fit("ppo/cartpoel")
    assert not logs.exists() or not any(path.is_dir() for path in logs.iterdir())


def test_a_package_of_ones_own_is_trusted_when_named_or_imported(logs, tmp_path, monkeypatch):
    """A run folder never decides what is imported."""
    (tmp_path / "mine_for_api.py").write_text(
        'from rl_lightning.algorithms import PPO\n\n\nclass MyPPO(PPO):\n    """Mine."""\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    mine = {**SMALL, "model": "mine_for_api.MyPPO"}
    with pytest.raises(ConfigError):
        rl.fit("ppo/cartpole", mine, env_steps=STEPS)
    run = rl.fit("ppo/cartpole", mine, env_steps=STEPS, imports=["mine_for_api"])
    assert type(rl.load(run).model).__name__ == "MyPPO", "imported already"
    monkeypatch.delitem(sys.modules, "mine_for_api")
    with pytest.raises(ConfigError, match="mine_for_api"):
        rl.load(run)
    assert type(rl.load(run, imports=["mine_for_api"]).model).__name__ == "MyPPO"


def test_found_and_compared(logs):
    first = rl.fit("ppo/cartpole", SMALL, env_steps=STEPS, seed=1)
    other = rl.fit("ppo/cartpole", {**SMALL, "model.lr": 2e-3}, env_steps=STEPS, seed=1)
    assert {found.name for found in rl.find(algorithm="PPO")} == {first.name, other.name}
    text = str(rl.compare(first, other))
    assert first.name in text and other.name in text and "model.lr" in text and "Comparison(" not in text


def test_every_public_name_has_a_docstring_and_there_is_a_version():
    assert rl.__version__.count(".") >= 1
    for name in rl.__all__:
        value = getattr(rl, name)
        assert name == "__version__" or value.__doc__, name
    assert set(rl.__all__) <= set(dir(rl))
    with pytest.raises(AttributeError):
        rl.no_such_name  # noqa: B018
