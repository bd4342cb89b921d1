"""MBARC's cycle: frames that travel from stage to stage, and a run that is stopped anywhere and ends the same."""

import json
import os
import signal
from pathlib import Path

import pytest
import yaml
from resume.support import Rl, fork, wait
from runs.pipeline.support import artifacts, ledger
from runs.pipeline.test_pipeline import stop_in

from rl_lightning.envs.make import EnvConfig, probe_spec
from rl_lightning.envs.wrappers.transforms import FrameStack, GrayLevelIndex
from rl_lightning.errors import ConfigError, DataError
from rl_lightning.extras import pip_command
from rl_lightning.replay.frames.frame_artifacts import load_frames, read_frames_meta
from rl_lightning.runs.config.compose import compose

EVAL = {"run.eval_every": 2}
ONE = {"data.init_args.updates_per_block": 1}
SIZES = {
    "explore": {"run.env_steps": 120, "data.init_args.num_envs": 2, "data.init_args.rollout_steps": 20},
    "collect": {"run.env_steps": 60, "data.init_args.num_envs": 2, "data.init_args.rollout_steps": 10},
    "world": {
        **EVAL, **ONE, "run.updates": 4, "model.init_args.eval_rows": 8,
        "data.init_args.batch_size": 2, "data.init_args.sequence_length": 4,
    },
    "reward": {**EVAL, **ONE, "run.updates": 4, "model.init_args.eval_rows": 20},
    "policy": {
        **EVAL, "run.updates": 3, "run.eval_episodes": 2,
        "data.init_args.num_envs": 3, "data.init_args.rollout_steps": 5,
    },
}  # fmt: skip


def cycle(folder: Path, **more) -> str:
    """Catch's pipeline, cut to seconds."""
    config = {"extends": "mbarc/stages/catch", "run": {"name": "pipe"}, "cycles": 2, **more}
    config["stages"] = [
        {"name": name, "overrides": {**sizes, "log": {"tensorboard": False, "every": 1}}}
        for name, sizes in SIZES.items()
    ]
    path = folder / "cycle.yaml"
    path.write_text(yaml.safe_dump(config))
    return str(path)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    os.environ["RL_LOGS"] = str(folder / "logs")
    log = folder / "log.txt"
    code = wait(fork(["fit", "--config", cycle(folder)], log))
    del os.environ["RL_LOGS"]
    assert code == 0, log.read_text()
    return folder / "logs" / "pipe"


def test_frames_are_handed_on_and_grow(undisturbed: Path) -> None:
    env = EnvConfig("rl/Catch-v0", transforms=[GrayLevelIndex(), FrameStack(2)])
    spec = probe_spec(env)
    counts = [
        len(read_frames_meta(undisturbed / name)["parts"]) for name in ("explore", "collect-1", "collect-2")
    ]
    assert counts == [1, 2, 3]
    first, last = (load_frames(undisturbed / name, spec) for name in ("collect-1", "collect-2"))
    assert (last.column("frame")[: len(first)] == first.column("frame")).all()
    assert last.parts[-1] == len(first) and last.starts(9).numel() > 0
    own = read_frames_meta(undisturbed / "collect-2")
    new = own["parts"][-1]["segments"][0]["file"]
    there = undisturbed / "collect-2" / "checkpoints" / "replay" / "rank-0" / new
    assert (own["folder"] / new).stat().st_ino == there.stat().st_ino, "linked, not copied"
    seeds = [json.loads((undisturbed / f"collect-{k}" / "run.json").read_text())["seed"] for k in (1, 2)]
    assert seeds[0] == seeds[1] and not (first.column("frame")[-60:] == last.column("frame")[-60:]).all()
    took = ledger(undisturbed)
    assert took["collect-1"]["inputs"].keys() == {"data.init_args.frames_from"}, (
        "no policy in the first cycle"
    )
    assert took["collect-2"]["inputs"].keys() == {"data.init_args.frames_from", "ckpt_path"}
    assert took["policy-2"]["seconds"] >= 0


@pytest.mark.parametrize("stage", ["collect-2", "world-2", "policy-1"])
def test_stopped_in_any_stage_the_cycle_ends_the_same(stage, undisturbed, logs: Path, rl: Rl) -> None:
    config = cycle(logs.parent)
    log = logs.parent / "log.txt"
    code = wait(fork(["fit", "--config", config], log, stop_in(stage, signal.SIGTERM)))
    assert code == 143, log.read_text()
    done = rl("resume", "pipe")
    assert done.code == 0, done.err
    assert artifacts(logs / "pipe") == artifacts(undisturbed)


def test_what_does_not_fit_is_refused_in_a_line(undisturbed: Path, tmp_path: Path) -> None:
    pong = probe_spec(EnvConfig("rl/Catch-v0", transforms=[GrayLevelIndex(), FrameStack(2)]))._replace(
        env_id="ALE/Pong-v5"
    )
    with pytest.raises(ConfigError, match="frames of rl/Catch-v0; this run plays ALE/Pong-v5"):
        load_frames(undisturbed / "explore", pong)
    other = probe_spec(EnvConfig("rl/Catch-v0", {"rows": 8}, transforms=[GrayLevelIndex(), FrameStack(2)]))
    with pytest.raises(ConfigError, match=r"this run's env shows 2, \[2, 8, 10\]"):
        load_frames(undisturbed / "explore", other)
    with pytest.raises(DataError, match="holds no frames; give a finished run or stage that collects"):
        load_frames(undisturbed / "world-1", pong)


def test_a_collection_on_its_own_leaves_its_frames(logs: Path, tmp_path: Path, rl: Rl) -> None:
    from rl_lightning.runs.config.compose import find, inline
    from rl_lightning.runs.pipeline.plan import make_plan

    path = find(cycle(tmp_path))
    explore = make_plan(inline(compose([str(path)]), path.parent), lambda name: {})[0].config
    (tmp_path / "explore.yaml").write_text(yaml.safe_dump(explore))
    done = rl("fit", "--config", "./explore.yaml", "--name", "alone")
    assert done.code == 0, done.err
    assert len(read_frames_meta("alone")["parts"]) == 1


def test_a_game_that_does_not_exist(logs: Path, rl: Rl) -> None:
    done = rl("fit", "--config", "mbarc/pong", "--stages.explore.data.env.id=ALE/Pnog-v5")
    assert done.code == 2 and "unknown env id 'ALE/Pnog-v5'; did you mean 'ALE/Pong-v5'?" in done.err
    done = rl("fit", "--config", "mbarc/frieway")
    assert done.code == 2 and "no config 'mbarc/frieway'; did you mean 'mbarc/freeway'" in done.err


def test_atari_without_its_extra_says_what_to_install(logs: Path, rl: Rl, monkeypatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "ale_py", None)
    monkeypatch.delitem(sys.modules, "rl_lightning.envs.suites.atari", raising=False)
    done = rl("fit", "--config", "mbarc/pong")
    assert done.code == 2 and pip_command("atari") in done.err
