"""`--debug`: what it cuts, what it looks at, and what it leaves."""

from pathlib import Path

import pytest
import yaml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from .conftest import Rl

TINY = ("--config", "sac/pendulum", "--debug", "--threads", "1", "--name", "d", "--env_steps", "120")


def test_it_says_what_it_checked_and_where_the_files_are(rl: Rl, workdir: Path) -> None:
    done = rl("fit", *TINY)
    assert done.code == 0, done.err
    run = workdir / "lightning_logs" / "d"
    checked = done.out[done.out.index("debug: ") :]
    assert "gradients" in checked and str(run.name) + "/trace.json" in checked and "/profile.txt" in checked
    assert (run / "trace.json").is_file() and (run / "profile.txt").is_file()
    events = EventAccumulator(str(run))
    events.Reload()
    names = events.Tags()["histograms"]
    layers = {"actor.linear.weight", "q.layers.0.weight"}
    assert {f"{kind}/{layer}" for kind in ("weights", "gradients") for layer in layers} <= set(names)


def test_networks_planners_windows_and_episodes_are_cut(rl: Rl, workdir: Path) -> None:
    wide = {"extends": "sac/pendulum", "model": {"init_args": {"critic_hidden_dims": [256, 32]}}}
    (workdir / "wide.yaml").write_text(yaml.safe_dump(wide))

    def shown(*words: str) -> tuple[dict, dict]:
        done = rl("fit", "--debug", "--print_config", *words)
        assert done.code == 0, done.err
        config = yaml.safe_load(done.out)
        return config["model"]["init_args"], config["data"]["init_args"]

    model, data = shown("--config", "./wide.yaml")
    assert model["critic_hidden_dims"] == [64, 32] and data["env"]["max_episode_steps"] == 30
    model, data = shown("--config", "tdmpc2/pendulum", "--model.planner.num_samples", "99")
    assert (
        model["planner"]["init_args"]["num_samples"] == 99
        and model["planner"]["init_args"]["iterations"] == 2
    )
    assert data["sequence_length"] == 4
    model, _ = shown("--config", "tdmpc2/halfcheetah")
    assert model["planner"]["init_args"]["num_samples"] == 16 and model["model_size"] == "1M"
    model, _ = shown("--config", "./wide.yaml", "--ckpt_path", "somewhere", "--resume_mode", "warm_start")
    assert model["critic_hidden_dims"] == [256, 32], "the weights come from elsewhere"


def test_a_time_limit_ends_it_once_all_is_seen(tmp_path: Path) -> None:
    from rl_lightning.callbacks.debug import DebugMonitor

    monitor = DebugMonitor(str(tmp_path), seconds=0.0)
    for learned, over in ((0, False), (2, False), (3, True)):
        monitor.blocks = monitor.learned = learned
        assert monitor._over() == over, learned


def test_weights_of_another_stage_fit_the_cut_networks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jsonargparse import Namespace

    from rl_lightning.runs.config.debug_caps import has_foreign_weights

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RL_RUN_DIR", str(tmp_path / "lightning_logs" / "d"))
    for path, foreign in (("lightning_logs/d/bc/artifact", False), ("lightning_logs/dd/bc", True)):
        model = Namespace(init_args=Namespace(init_policy=path))
        assert has_foreign_weights(Namespace(ckpt_path=None, model=model)) == foreign, path
