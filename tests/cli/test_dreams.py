"""A world model from the command line to Python: fit with pictures, test with its report, load and imagine."""

import json

import numpy as np
import pytest

import rl_lightning
from rl_lightning.cli import main
from rl_lightning.errors import ConfigError

SMALL = [
    "--env_steps",
    "120",
    "--data.learning_starts",
    "60",
    "--data.train_ratio",
    "8",
    "--eval_every",
    "120",
]
SMALL += ["--eval_episodes", "2", "--log.tensorboard", "false"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dreams")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert (
            main(
                [
                    "fit",
                    "--config",
                    "dreamer_v3/frozenlake",
                    "--name",
                    "lake",
                    "--log.open_loop_every",
                    "100",
                    *SMALL,
                ]
            )
            == 0
        )
        yield folder / "lightning_logs" / "lake"


def test_dreams_are_shown_while_it_runs(run):
    assert (run / "dream.png").is_file()


def test_the_test_tells_how_far_the_world_can_be_trusted(run, capsys):
    assert main(["test", str(run), "--episodes", "2"]) == 0
    told = json.loads((run / "test.json").read_text())
    assert {"error_1", "kl", "windows"} <= told["open_loop"].keys()
    assert {"real_return", "predicted", "calibration_gap"} <= told["reward"].keys()
    assert "dream.png" in capsys.readouterr().out


def test_imagine_from_python(run):
    policy = rl_lightning.load(str(run), checkpoint="last")
    with pytest.raises(ConfigError, match="first act"):
        policy.imagine()
    policy.act(np.eye(4, dtype=np.float32)[:2])
    dream = policy.imagine(horizon=6)
    assert dream.obs.shape == (2, 6, 4) and dream.reward.shape == (2, 6) and dream.action.shape == (2, 6)
    told = policy.imagine(actions=np.zeros((2, 3), np.int64))
    assert (
        told.obs.shape == (2, 3, 4)
        and not told.action.any()
        and ((told.continuation >= 0) & (told.continuation <= 1)).all()
    )


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--model.world_model.init_args.kl", "FreeNatsKL"], "BalancedKL"),
        (["--data.sequence_length", "64"], "windows have 64 rows"),
        (["--data.env.id", "Pendulum-v1", "--model.actor.init_args.distribution", "OneHot"], "BoundedNormal"),
    ],
)
def test_bad_configs_are_refused_before_anything_is_built(flags, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["fit", "--config", "dreamer_v3/frozenlake", "--name", "bad", *SMALL, *flags]) != 0
    assert said in capsys.readouterr().err


def test_what_its_model_imagines_is_played(run, capsys):
    assert main(["play", str(run), "--in", "model", "--horizon", "4"]) == 0
    told = capsys.readouterr().out
    assert "imagined from 64 real starts, 8 rows seen, then 4 steps" in told
    assert (run / "videos" / "imagined.mp4").stat().st_size > 500
    assert main(["play", str(run), "--horizon", "4"]) == 2
    assert "--horizon belongs to --in model" in capsys.readouterr().err


def test_imagination_begins_at_a_given_observation(run):
    policy = rl_lightning.load(str(run))
    first = np.eye(4, dtype=np.float32)[:2]
    dream = policy.imagine(3, obs=first)
    policy.act(first)
    assert dream.obs.shape == (2, 3, 4)
    assert (policy.imagine(3).reward == dream.reward).all()
