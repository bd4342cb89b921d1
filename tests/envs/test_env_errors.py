"""What goes wrong is told by name."""

import os
import signal
import time
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rl_lightning.envs import registry
from rl_lightning.envs.make import EnvConfig, make_env, make_envs, probe_spec
from rl_lightning.errors import ConfigError, EnvError
from rl_lightning.io.trust import ALLOWED_IMPORTS


class Faulty(gymnasium.Env):
    """Does what `fault` says at its fifth step, if it was seeded with 1."""

    metadata: ClassVar[dict] = {"render_modes": []}

    def __init__(self, fault="raise"):
        self.fault, self.t, self.armed = fault, 0, False
        self.observation_space = spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.armed = self.armed or seed == 1
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.t += 1
        obs, reward, ended = np.zeros(2, np.float32), 0.0, False
        if self.armed and self.t == 5:
            if self.fault == "raise":
                raise ValueError("the wheel came off")
            if self.fault == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.fault == "hang":
                time.sleep(60)
            obs[1] = {"nan": np.nan, "final": np.inf}.get(self.fault, 0.0)
            reward = np.inf if self.fault == "reward" else 0.0
            ended = self.fault == "final"
        return obs, reward, ended, False, {}


@pytest.fixture(autouse=True)
def faulty():
    gymnasium.register("Faulty-v0", entry_point=Faulty)
    yield
    del gymnasium.registry["Faulty-v0"]


def run(fault, vectorization="sync", **options):
    envs = make_envs(EnvConfig("Faulty-v0", {"fault": fault}, **options), 3, vectorization)
    try:
        envs.reset(seed=0)
        for _ in range(6):
            envs.step(np.zeros(3, np.int64))
    finally:
        envs.close()


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_an_env_that_raises_is_named(vectorization):
    with pytest.raises(
        EnvError, match=r"Faulty-v0 \(env 1\) raised at step 4: ValueError: the wheel came off"
    ):
        run("raise", vectorization)


@pytest.mark.parametrize("vectorization", ["sync", "async"])
@pytest.mark.parametrize(
    ("fault", "field"),
    [("nan", r"nan as observation\[1\]"), ("reward", "inf as reward"), ("final", r"inf as observation\[1\]")],
)
def test_numbers_that_are_not_finite_are_named(fault, field, vectorization):
    with pytest.raises(EnvError, match=rf"Faulty-v0 \(env 1\) returned {field} at step 4"):
        run(fault, vectorization)


def test_a_killed_worker_is_named():
    with pytest.raises(
        EnvError, match=r"worker 1 \(pid \d+\) died at step 4: signal 9 \(SIGKILL\), likely out of memory"
    ):
        run("die", "async")


def test_a_hung_worker_is_named():
    with pytest.raises(EnvError, match=r"worker 1 \(pid \d+\) did not answer within 0.5 s"):
        run("hang", "async", worker_timeout=0.5)


def test_workers_outlive_ctrl_c():
    envs = make_envs(EnvConfig("rl/Counter-v0"), 2, "async")
    envs.reset(seed=0)
    for process in envs.processes:
        os.kill(process.pid, signal.SIGINT)
    obs, *_ = envs.step(np.zeros(2, np.int64))
    assert obs[:, 1].tolist() == [1, 1]
    envs.close()
    assert not any(process.is_alive() for process in envs.processes)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("CartPol-v1", "CartPole-v1"),
        ("Hopper-v9", "Hopper-v5"),
        ("Pong-v5", "ALE/Pong-v5"),
        ("rl/Cach-v0", "rl/Catch-v0"),
        ("dmc/cartpole-swingupp", "dmc/cartpole-swingup"),
        ("MiniGrid-Empty-5x5", "MiniGrid-Empty-5x5-v0"),
    ],
)
def test_an_unknown_id_suggests_the_nearest(wrong, right):
    with pytest.raises(ConfigError, match=f"unknown env id '{wrong}'; did you mean '{right}'"):
        probe_spec(EnvConfig(wrong))


def test_a_module_prefix_needs_permission(monkeypatch):
    with pytest.raises(ConfigError, match="--import json"):
        make_env(EnvConfig("json:CartPole-v1"))
    monkeypatch.setattr(registry, "ALLOWED_IMPORTS", ALLOWED_IMPORTS | {"json"})
    make_env(EnvConfig("json:CartPole-v1")).close()


def test_a_missing_extra_names_its_pip_line(monkeypatch):
    def absent(name):
        raise ModuleNotFoundError("No module named 'ale_py'", name="ale_py")

    monkeypatch.setattr(registry.importlib, "import_module", absent)
    with pytest.raises(ConfigError, match=r"ALE/Pong-v5 needs ale_py: .*pip install 'ale-py"):
        make_env(EnvConfig("ALE/Pong-v5"))


def test_wrong_arguments_are_refused():
    with pytest.raises(ConfigError, match="sutton"):
        make_env(EnvConfig("CartPole-v1", {"suttonn": 1}))
    with pytest.raises(ConfigError, match="obs_mode"):
        make_env(EnvConfig("MiniGrid-Empty-5x5-v0", {"obs_mode": "x"}))
    with pytest.raises(ConfigError, match="dmc/cartpole-swingup cannot be made"):
        make_env(EnvConfig("dmc/cartpole-swingup", {"pixel": True}))
    with pytest.raises(ConfigError, match="sync, async, native"):
        make_envs(EnvConfig(), 1, "threads")
    with pytest.raises(ConfigError, match="mujoco_py"):
        make_env(EnvConfig("Hopper-v3"))
    with pytest.raises(ConfigError, match="native"):
        make_envs(EnvConfig(), 1, "native")


class Odd(Faulty):
    """Answers with something unusual at its fifth step, or at its first reset where `fault` says so."""

    answers: ClassVar[dict] = {
        "list": lambda: ([0.5, 0.25], 0.0, False, False, {}),
        "reward of one": lambda: (np.zeros(2, np.float32), np.array([1.5]), False, False, {}),
        "no info": lambda: (np.zeros(2, np.float32), 1.0, False, False, None),
        "None": lambda: None,
        "four": lambda: (np.zeros(2, np.float32), 1.0, False, {}),
        "observation None": lambda: (None, 1.0, False, False, {}),
        "observation text": lambda: ("abc", 1.0, False, False, {}),
        "observation short": lambda: (np.zeros(1, np.float32), 1.0, False, False, {}),
        "reward None": lambda: (np.zeros(2, np.float32), None, False, False, {}),
        "reward text": lambda: (np.zeros(2, np.float32), "high", False, False, {}),
        "reward of two": lambda: (np.zeros(2, np.float32), np.ones(2), False, False, {}),
        "info text": lambda: (np.zeros(2, np.float32), 1.0, False, False, "x"),
        "success text": lambda: (np.zeros(2, np.float32), 1.0, False, False, {"success": "yes"}),
    }

    def reset(self, *, seed=None, options=None):
        obs, info = super().reset(seed=seed)
        return obs, None if self.fault == "no info" else info

    def step(self, action):
        self.t += 1
        usual = np.zeros(2, np.float32), 0.0, False, False, {}
        return self.answers[self.fault]() if self.armed and self.t == 5 else usual


TAKEN = {"list": ([0.5, 0.25], 0.0), "reward of one": ([0, 0], 1.5), "no info": ([0, 0], 1.0)}


@pytest.fixture
def odd():
    gymnasium.register("Odd-v0", entry_point=Odd)
    yield
    del gymnasium.registry["Odd-v0"]


@pytest.mark.parametrize("fault", TAKEN)
@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_what_can_be_taken_is_taken(odd, fault, vectorization):
    envs = make_envs(EnvConfig("Odd-v0", {"fault": fault}), 2, vectorization)
    try:
        envs.reset(seed=0)
        for _ in range(5):
            obs, reward, *_ = envs.step(np.zeros(2, np.int64))
        assert obs[1].tolist() == TAKEN[fault][0] and reward[1] == TAKEN[fault][1]
    finally:
        envs.close()


@pytest.mark.parametrize("fault", [fault for fault in Odd.answers if fault not in TAKEN])
@pytest.mark.parametrize("vectorization", ["sync", pytest.param("async", marks=pytest.mark.slow)])
def test_what_cannot_is_told_with_env_and_step(odd, fault, vectorization):
    envs = make_envs(EnvConfig("Odd-v0", {"fault": fault}), 2, vectorization)
    try:
        envs.reset(seed=0)
        with pytest.raises(EnvError, match=r"Odd-v0 \(env 1\).* step [45]"):
            for _ in range(5):
                envs.step(np.zeros(2, np.int64))
    finally:
        envs.close()
