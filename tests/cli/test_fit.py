"""From a command line to a run folder, and what can be done with it."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml
from contracts.artifacts import target_file

from rl_lightning.cli import main
from rl_lightning.runs.store.run_folder import resolve

from .conftest import CARTPOLE, Rl


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one finished run, `tiny`."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "cartpole.yaml").write_text(CARTPOLE)
    here = os.getcwd()
    os.chdir(folder)
    try:
        assert main(["fit", "--config", "cartpole.yaml", "--name", "tiny", "--tags", "[a, b]"]) == 0
    finally:
        os.chdir(here)
    return folder


@pytest.fixture
def here(trained: Path, rl: Rl, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(trained)
    return trained


def test_what_a_run_leaves(here: Path) -> None:
    run = resolve("tiny")
    record = run.read()
    assert (record["status"], record["algorithm"], record["env"]) == ("finished", "PPO", "CartPole-v1")
    assert record["env_step"] >= 64 and record["best"] is not None and record["tags"] == ["a", "b"]
    assert record["threads"] == 1 and record["command"][:2] == ["rl", "fit"] and record["config_hash"]
    for name in ("config.yaml", "metrics.csv", "eval.jsonl", "checkpoints/best.ckpt"):
        assert (run.folder / name).is_file(), name
    assert run.checkpoint("last").is_file()


def test_the_saved_config_runs_again_and_is_stable(here: Path, rl: Rl) -> None:
    saved = yaml.safe_load(resolve("tiny").config_file.read_text())
    assert saved.pop("config_version") == 2
    assert "name" not in saved["run"] and saved["run"]["env_steps"] == 64
    again = rl("fit", "--config", "lightning_logs/tiny/config.yaml", "--print_config")
    assert again.code == 0 and yaml.safe_load(again.out) == saved


def test_a_name_in_use(here: Path, rl: Rl) -> None:
    result = rl("fit", "--config", "cartpole.yaml", "--name", "tiny")
    assert result.code == 2 and "rl resume tiny" in result.err


def test_list_shows_it(here: Path, rl: Rl) -> None:
    assert "tiny" in rl("list").out
    assert (
        json.loads(rl("list", "--filter", "algorithm=PPO", "--sort", "best", "--format", "json").out)[0][
            "name"
        ]
        == "tiny"
    )
    assert json.loads(rl("list", "--filter", "algorithm=SAC", "--format", "json").out) == []
    assert rl("list", "--filter", "nonsense").code == 2


def test_test_and_validate(here: Path, rl: Rl) -> None:
    tested = rl("test", "tiny", "--episodes", "3", "--threads", "1")
    assert tested.code == 0 and "3 episodes" in tested.out and "  of " in tested.out, tested
    assert len(json.loads((here / "lightning_logs/tiny/test.json").read_text())["episodes"]) == 3
    assert "tiny · last-" in rl("validate", "tiny").out
    assert "untrained" in rl("validate", "--config", "cartpole.yaml").out


def test_play_writes_statistics_and_a_video(here: Path, rl: Rl) -> None:
    result = rl("play", "tiny", "--episodes", "2")
    assert result.code == 0 and "IQM" in result.out, result
    assert (here / "lightning_logs/tiny/videos/play.mp4").stat().st_size > 500


def test_play_of_an_env_that_cannot_draw_says_why(workdir: Path, rl: Rl) -> None:
    (workdir / "blind_for_play.py").write_text(
        "import gymnasium\nfrom gymnasium.envs.classic_control import CartPoleEnv\n\n\n"
        "class Blind(CartPoleEnv):\n    def __init__(self):\n        super().__init__()\n\n\n"
        "gymnasium.register('blind_for_play/C-v0', entry_point=Blind, max_episode_steps=20)\n"
    )
    own = ("--import", "blind_for_play")
    assert (
        rl(
            "fit", "--config", "cartpole.yaml", "--data.env.id", "blind_for_play/C-v0", "--name", "b", *own
        ).code
        == 0
    )
    done = rl("play", "b", "--episodes", "1", *own)
    assert done.code == 0, done.err
    line = "no video: blind_for_play/C-v0 cannot draw: its constructor takes no render_mode"
    assert done.out.splitlines()[-1] == line


def test_play_agrees_with_itself(here: Path, rl: Rl) -> None:
    first = rl("play", "tiny", "--episodes", "2", "--no_video").out
    assert first == rl("play", "tiny", "--episodes", "2", "--no-video").out


def test_predict_for_a_file(here: Path, rl: Rl) -> None:
    np.savez("rows.npz", obs=np.zeros((5, 4), np.float32))
    assert rl("predict", "tiny", "--data", "rows.npz", "--output", "out").code == 0
    action = np.load("out.npz")["action"]
    assert action.shape == (5,) and set(action) <= {0, 1}


def test_predict_along_episodes(here: Path, rl: Rl) -> None:
    assert rl("predict", "tiny", "--episodes", "2").code == 0
    arrays = np.load("lightning_logs/tiny/predictions.npz")
    assert len(arrays["action"]) == len(arrays["obs"]) == len(arrays["reward"]) and set(
        arrays["episode"]
    ) == {0, 1}


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"x": np.zeros(3)}, "no array 'obs'"),
        ({"obs": np.zeros((3, 5))}, r"expected rows of [4]"),
        ({"obs": np.full((3, 4), np.nan)}, "not finite"),
        ({"obs": np.array([{}], dtype=object)}, "not a plain .npz"),
    ],
)
def test_predict_refuses_bad_files(here: Path, rl: Rl, arrays: dict[str, np.ndarray], reason: str) -> None:
    np.savez("bad.npz", **arrays)  # type: ignore[arg-type]
    result = rl("predict", "tiny", "--data", "bad.npz")
    assert result.code == 3 and reason in result.err


def test_predict_wants_one_source(here: Path, rl: Rl) -> None:
    assert rl("predict", "tiny").code == 2
    assert rl("predict", "tiny", "--data", "nowhere.npz").code == 3


def test_plot(here: Path, rl: Rl) -> None:
    result = rl("plot", "tiny")
    assert result.code == 0 and "eval/return" in result.out and "└" in result.out
    assert (here / "lightning_logs/tiny/eval-return.png").stat().st_size > 1000
    wrong = rl("plot", "tiny", "--metric", "eval/retrun")
    assert wrong.code == 3 and "did you mean 'eval/return'" in wrong.err


def test_dry_run_trains_nothing(rl: Rl, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rl_lightning.runs.engine import throughput_probe

    monkeypatch.setattr(throughput_probe, "SECONDS", 0.05)
    words = [
        "--model",
        "DQN",
        "--data",
        "OnlineData",
        "--data.buffer",
        "Replay",
        "--data.buffer.capacity",
        "1000",
    ]
    result = rl("fit", "--config", "cartpole.yaml", *words, "--env_steps", "5000", "--dry-run")
    assert result.code == 0 and "1000 rows" in result.out and "observation  [4] float32" in result.out, result
    assert re.search(
        r"^time         about \d+:\d\d here \(.* env steps/s, .* updates/s in a probe", result.out, re.M
    )
    assert [path.name for path in workdir.iterdir()] == ["cartpole.yaml"]


def test_debug_is_small(rl: Rl, workdir: Path) -> None:
    words = ["--env_steps", "null", "--updates", "1000000", "--data.num_envs", "64", "--debug"]
    result = rl("fit", "--config", "cartpole.yaml", *words, "--data.rollout_steps", "4", "--updates", "2")
    assert result.code == 0, result
    assert (workdir / "lightning_logs/cartpole-1/profile.txt").exists()


def test_ctrl_c_saves_and_says_how_to_go_on(workdir: Path) -> None:
    command = [sys.executable, "-m", "rl_lightning.cli", "fit", "--config", "cartpole.yaml"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*command, "--env_steps", "100000000", "--name", "long"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert "PPO on CartPole-v1" in process.stdout.readline()
        eval_file = workdir / "lightning_logs/long/eval.jsonl"
        limit = time.monotonic() + 60
        while not eval_file.exists() and time.monotonic() < limit:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130 and "rl resume long" in out and "Traceback" not in err
    assert resolve("long").read()["status"] == "interrupted"
    assert resolve("long").checkpoint("last").is_file()


def test_resume_goes_on_in_the_same_folder(rl: Rl, workdir: Path) -> None:
    assert rl("fit", "--config", "cartpole.yaml", "--name", "short").code == 0
    result = rl("resume", "short", "--env-steps", "128")
    assert result.code == 0 and resolve("short").read()["env_step"] == 128, result
    assert [path.name for path in (workdir / "lightning_logs").iterdir()] == ["short"]


def test_resume_fails_loudly(here: Path, rl: Rl) -> None:
    assert rl("resume", "nothing").code == 2
    assert rl("resume").code == 2
    missing = rl("resume", "tiny", "--checkpoint", "step-9")
    assert missing.code == 4 and "no checkpoint 'step-9'" in missing.err


@pytest.mark.slow
def test_seeds_make_a_group(rl: Rl, workdir: Path) -> None:
    result = rl("fit", "--config", "cartpole.yaml", "--seeds", "0-1", "--jobs", "2")
    assert result.code == 0 and "2 of 2 seeds finished" in result.out, result
    names = [
        row["name"] for row in json.loads(rl("list", "--filter", "group=cartpole-1", "--format", "json").out)
    ]
    assert sorted(names) == ["cartpole-1-s0", "cartpole-1-s1"]
    assert rl("plot", "cartpole-1").code == 0


def test_a_model_that_does_not_act_is_neither_filmed_nor_played(rl: Rl, workdir: Path) -> None:
    """Flags of a pipeline reach all its stages: a film is for those that act."""
    rows = target_file(workdir / "rows.npz")
    small = [
        "--model.ensemble_size",
        "2",
        "--model.num_elites",
        "1",
        "--model.hidden_dims",
        "[8]",
        "--data.ensemble_bootstrap",
        "2",
    ]
    flags = [
        "--data.dataset",
        rows,
        "--updates",
        "20",
        "--log.video_every",
        "10",
        "--log.tensorboard",
        "false",
    ]
    done = rl("fit", "--config", "gormpo/stages/dynamics", "--name", "model", *small, *flags)
    assert done.code == 0, done.err
    assert "rl test model" in done.out + done.err and "rl play" not in done.out + done.err
    assert not (workdir / "lightning_logs" / "model" / "videos").exists()
    played = rl("play", "model")
    assert (played.code, played.err.strip()) == (
        2,
        "error: Dynamics does not act; for its scores: rl test model",
    )


def recorded_rows(path: Path) -> None:
    rows, ends = np.zeros((200, 3), np.float32), np.arange(1, 201) % 50 == 0
    arrays = {"observations": rows, "next_observations": rows, "actions": rows[:, :1], "rewards": rows[:, 0]}
    np.savez(path, **arrays, terminals=ends, timeouts=np.zeros(200, bool))


OFFLINE = """\
model: {class_path: BC, init_args: {network: {class_path: MLP, init_args: {hidden_dims: [8]}}}}
data: {class_path: OfflineData, init_args: {dataset: rows.npz, batch_size: 16}}
run: {updates: 4, eval_every: 2, eval_episodes: 1}
log: {tensorboard: false}
threads: 1
"""


def test_recorded_data_without_an_env(rl: Rl, workdir: Path) -> None:
    """It says at once that nothing is evaluated, and promises no film at the end."""
    recorded_rows(workdir / "rows.npz")
    (workdir / "offline.yaml").write_text(OFFLINE)
    result = rl("fit", "--config", "offline.yaml", "--name", "blind")
    assert result.code == 0, result.err
    header, note = result.out.splitlines()[:2]
    assert header.startswith("BC on rows ·") and "1 thread," in header
    assert "names no env: nothing is evaluated" in note and "--data.env.id" in note
    assert "rl play" not in result.out and "rl test" not in result.out and "rl plot blind" in result.out
    assert "rl play" not in rl("show", "blind").out


def test_recorded_data_with_an_env(rl: Rl, workdir: Path) -> None:
    recorded_rows(workdir / "rows.npz")
    (workdir / "offline.yaml").write_text(OFFLINE)
    result = rl("fit", "--config", "offline.yaml", "--data.env.id", "Pendulum-v1", "--name", "seen")
    assert "BC on rows of Pendulum-v1" in result.out and "names no env" not in result.out
    closing = result.out.splitlines()[1]
    assert "best evaluation -" in closing and "last-10 mean" in closing and "(of 2 evaluations)" in closing
    assert "rl play seen" in result.out
    assert rl("list", "--filter", "env=Pendulum-v1").out.splitlines()[1].split()[0] == "seen"


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ("ppo/cartpole", {"train/learning_rate", "train/clip_range", "train/ent_coef"}),
        ("dqn/cartpole", {"train/learning_rate", "train/epsilon"}),
        ("sac/pendulum", {"train/learning_rate", "train/learning_rate_q", "train/learning_rate_alpha"}),
    ],
)
def test_what_a_schedule_moves_is_logged(rl: Rl, workdir: Path, config: str, wanted: set[str]) -> None:
    flags = [
        "--env_steps",
        "512",
        "--data.num_envs",
        "2",
        "--log.tensorboard",
        "false",
        "--log.every",
        "128",
        "--eval_every",
        "null",
    ]
    if not config.startswith("ppo"):
        flags += ["--data.learning_starts", "64", "--data.batch_size", "16"]
    assert rl("fit", "--config", config, "--name", "r", *flags).code == 0
    with open(workdir / "lightning_logs/r/metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(row[name] for row in rows for name in wanted)
    speeds = [float(row["time/env_steps_per_s"]) for row in rows if row["time/env_steps_per_s"]]
    assert len(speeds) >= 2 and min(speeds) > 0, "nor is the end, where nothing moves, a speed"
    rates = [float(row["train/learning_rate"]) for row in rows]
    assert rates[0] >= rates[-1] > 0


def test_what_has_no_optimizer_has_no_learning_rate(rl: Rl, workdir: Path) -> None:
    done = rl(
        "fit", "--config", "random/cartpole", "--name", "r", "--env_steps", "256", "--eval_every", "null"
    )
    assert done.code == 0, done.err
    assert "learning_rate" not in (workdir / "lightning_logs/r/metrics.csv").read_text()
