"""The time that --dry_run tells, from ticks of known length."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from rl_lightning.runs.engine import throughput_probe
from rl_lightning.runs.engine.throughput_probe import ClockSample, Throughput, expected, line_of, measured

from .conftest import Rl


def test_learning_is_timed_without_its_first_block() -> None:
    ticks = [
        ClockSample(0, 0, 0),
        ClockSample(1, 1000, 0),
        ClockSample(9, 1010, 10),
        ClockSample(10, 1020, 20),
        ClockSample(11, 1030, 30),
    ]
    assert measured(ticks) == Throughput(10.0, 10.0, 1000.0, True)


def test_a_single_long_block_has_to_do() -> None:
    assert measured([ClockSample(0, 0, 0), ClockSample(4, 400, 2)]) == Throughput(100.0, 0.5, None, True)


def test_what_never_learns_is_said_to() -> None:
    pace = measured([ClockSample(0, 0, 0), ClockSample(1, 50, 0), ClockSample(2, 100, 0)])
    assert pace == Throughput(50.0, None, 50.0, False)
    assert "only collecting was seen" in line_of(pace, 1.0, math.inf)


@pytest.mark.parametrize(
    ("env_steps", "updates", "starts", "seconds"),
    [
        (2000, None, 1000, 1 + 100.0),  # a thousand random steps at 1000/s, the rest at 10/s
        (2000, None, 0, 200.0),
        (500, None, 1000, 0.5),  # never learns
        (None, 40, 0, 20.0),
        (2000, 40, 1000, 1 + 20.0),  # the first budget ends it
        (None, None, 0, None),
    ],
)
def test_budgets(env_steps: int | None, updates: int | None, starts: int, seconds: float | None) -> None:
    assert expected(Throughput(10.0, 2.0, 1000.0, True), env_steps, updates, starts) == seconds


def test_max_time_bounds_it() -> None:
    assert line_of(Throughput(10.0, None, None, True), 1000.0, 60.0).startswith(
        "about 1:00 here (10 env steps/s in a probe"
    )
    assert line_of(Throughput(None, None, None, False), None, math.inf).startswith("not estimated")


def test_sequences_are_described_and_timed_too(
    rl: Rl, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throughput_probe, "SECONDS", 0.5)
    done = rl("fit", "--config", "dreamer_v3/frozenlake", "--dry_run")
    assert done.code == 0, done.err
    assert (
        "\nbuffer  " in done.out
        and "\ntime         about " in done.out
        and "updates/s in a probe" in done.out
    )
    assert not (workdir / "lightning_logs").exists()


SLOW = """
import time

import gymnasium as gym
import numpy as np


class Slow(gym.Env):
    observation_space, action_space = gym.spaces.Box(-1, 1, (3,)), gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(3, np.float32), {}

    def step(self, action):
        time.sleep(0.05)
        return np.zeros(3, np.float32), 1.0, False, False, {}


gym.register("Slow-v0", Slow, max_episode_steps=50)
"""
SLOWLY = ("--config", "ppo/cartpole", "--import", "slow_game", "--data.env.id", "Slow-v0", "--dry_run")


def test_a_block_that_does_not_end_is_left(rl: Rl, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throughput_probe, "SECONDS", 0.1)
    (workdir / "slow_game.py").write_text(SLOW)
    began = time.monotonic()
    done = rl("fit", *SLOWLY)
    assert done.code == 0 and "not estimated: the first" in done.out, done
    assert time.monotonic() - began < 10.0, "a rollout takes 50"
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0


def test_ctrl_c_ends_it(workdir: Path) -> None:
    spoken = "print('stepping', flush=True); time.sleep(0.05)"
    (workdir / "slow_game.py").write_text(SLOW.replace("time.sleep(0.05)", spoken))
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "  # xdist's workers ignore it
    main = heard + "from rl_lightning.cli import main; import sys; sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", main, "fit", *SLOWLY],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    for _ in range(3):  # it collects
        while process.stdout.readline() != "stepping\n":
            assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130 and "stopped by Ctrl-C" in errors and "Traceback" not in errors, errors


def test_what_differs_from_the_defaults_comes_first(
    rl: Rl, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throughput_probe, "SECONDS", 0.05)
    words = ("--config", "ppo/cartpole", "--model.lr", "0.004", "--trainer.precision", "bf16-mixed")
    shown = rl("fit", *words, "--print_config")
    first = shown.out.splitlines()[0]
    assert first == "# differs from the defaults:" and shown.out.index("#   model.lr") < shown.out.index(
        "\nmodel:"
    )
    assert yaml.safe_load(shown.out)["model"]["init_args"]["lr"] == 0.004
    own = {line.split()[1]: line.split()[2] for line in shown.out.splitlines() if line.startswith("#   ")}
    assert own["model.lr"] == "0.004" and own["trainer.precision"] == "bf16-mixed" and own["model"] == "PPO"
    assert "trainer.max_steps" not in own and "model.tau" not in own and "model.share_network" not in own
    dry = rl("fit", *words, "--dry_run")
    assert (
        dry.code == 0
        and dry.out.index("model.lr") < dry.out.index("observation")
        and "share_network" not in dry.out
    )
