"""Pipelines from end to end: what runs, what is skipped, what is stale, and what an interruption changes (nothing)."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from contracts.harness import newest
from resume.support import PPO, Rl, fork, wait
from runs.pipeline.support import REPLAY, SHORT, TRAIN, TUNE, artifacts, ledger, pipeline

from rl_lightning.io.checkpoint_files import read_file, read_meta
from rl_lightning.runs.pipeline.run_stages import Pipeline
from rl_lightning.runs.pipeline.stage_artifact import read_artifact


def test_two_stages(logs: Path, shelf: Path, rl: Rl) -> None:
    """One pass over nearly everything: order, takes, set, ledger, artifacts, shelf, skipping, staleness, --from."""
    config = pipeline(logs.parent, TRAIN, TUNE, shared={"seed_everything": 5})
    shown = rl("fit", "--config", config, "--print_config")
    assert shown.code == 0 and shown.out.index("# stage train") < shown.out.index(
        "# stage tune · ckpt_path from train"
    )
    assert "lr: 0.01" in shown.out and shown.out.count("seed_everything: 5") == 2
    dry = rl("fit", "--config", config, "--dry_run")
    assert (
        dry.code == 0 and "\ntrain  PPO" in dry.out and "\ntune   PPO" in dry.out and not any(logs.iterdir())
    )
    assert "in all about" in dry.out and "without" not in dry.out, (
        "the second takes what the first's probe left"
    )
    assert len(dry.out.splitlines()) < 24 and max(map(len, dry.out.splitlines())) <= 80

    done = rl("fit", "--config", config)
    assert done.code == 0, done.err
    run = logs / "pipe"
    assert (
        done.out.index("stage ▣□ 1/2 train")
        < done.out.index("stage ■▣ 2/2 tune")
        < done.out.index("pipeline done")
    )
    assert {key: entry["status"] for key, entry in ledger(run).items()} == {"train": "done", "tune": "done"}
    tune = yaml.safe_load((run / "tune" / "config.yaml").read_text())
    assert tune["ckpt_path"] == str(run / "train" / "artifact") and tune["model"]["init_args"]["lr"] == 0.01

    weights, _, about = read_artifact(run / "train" / "artifact")
    best = read_file(run / "train" / "checkpoints" / "best.ckpt")["state_dict"]
    assert all(bool((weights[name] == best[name]).all()) for name in best)
    assert about["stage"] == "train" and about["sha256"] == ledger(run)["tune"]["inputs"]["ckpt_path"]
    links = {link.name: link for link in shelf.iterdir()}
    assert set(links) == {f"pipe-{key}-{digest[:12]}" for key, digest in artifacts(run).items()}
    assert all(read_artifact(link) for link in links.values())
    assert json.loads((run / "run.json").read_text())["status"] == "finished"

    before = artifacts(run)
    again = rl("fit", "--config", config)
    assert again.code == 0 and again.out.count("done, skipped") == 2 and artifacts(run) == before

    stale = rl("fit", "--config", config, "--stages.train.model.lr", "0.5")
    assert (
        stale.code == 2 and "stage train was finished with another config: its artifact is stale" in stale.err
    )
    assert "--from train" in stale.err and artifacts(run) == before

    redone = rl("fit", "--config", config, "--from", "tune")
    assert redone.code == 0 and (run / "tune.old1" / "artifact").is_dir() and artifacts(run) == before

    other = rl("fit", "--config", config, "--from", "train", "--only", "train", "--seed", "9")
    assert other.code == 0, other.err
    mixed = rl("fit", "--config", config)
    assert mixed.code == 2 and "stale" in mixed.err


def test_a_artifact_that_changed_is_noticed(logs: Path, rl: Rl) -> None:
    config = pipeline(logs.parent, TRAIN, TUNE)
    assert rl("fit", "--config", config).code == 0
    run = logs / "pipe"
    tuned = artifacts(run)["tune"]
    assert rl("fit", "--config", config, "--only", "train", "--from", "train").code == 0
    path = run / "pipeline.json"
    path.write_text(path.read_text().replace(ledger(run)["tune"]["inputs"]["ckpt_path"], tuned))
    done = rl("fit", "--config", config)
    assert done.code == 2 and "stage tune was made from another ckpt_path: its artifact is stale" in done.err
    weights = run / "train" / "artifact" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    done = rl("resume", "pipe")
    assert done.code == 4 and "missing or damaged" in done.err


def test_a_artifact_by_path_and_one_stage_alone(logs: Path, rl: Rl) -> None:
    config = pipeline(logs.parent, TRAIN, TUNE)
    assert rl("fit", "--config", config, "--only", "train").code == 0
    assert set(artifacts(logs / "pipe")) == {"train"}
    artifact = logs / "pipe" / "train" / "artifact"
    words = ("--only", "tune", "--name", "second", "--stages.tune.inputs.ckpt_path", str(artifact))
    done = rl("fit", "--config", config, *words)
    assert done.code == 0, done.err
    assert ledger(logs / "second")["tune"]["inputs"]["ckpt_path"] == artifacts(logs / "pipe")["train"]
    missing = rl("fit", "--config", config, "--only", "tune", "--name", "third")
    assert missing.code == 4 and "no artifact of a stage" in missing.err
    unknown = rl("fit", "--config", config, "--from", "tuen", "--name", "fourth")
    assert unknown.code == 2 and "no stage 'tuen'; there are train, tune" in unknown.err
    assert not (logs / "fourth").exists()


def test_cycles(logs: Path, rl: Rl) -> None:
    """once, continues and budget_by_cycle, with an artifact that is a milestone."""
    grow = {
        "name": "grow",
        "config": {**PPO, "run": {**SHORT, "milestone_every": 16}},
        "warm_start": True,
        "budget_by_cycle": {2: 2},
        "artifact": "last",
    }
    first = {**TRAIN, "once": True, "artifact": "step-16", "overrides": {"run.milestone_every": 16}}
    done = rl("fit", "--config", pipeline(logs.parent, first, grow, cycles=2))
    assert done.code == 0, done.err
    run = logs / "pipe"
    assert list(ledger(run)) == ["train", "grow-1", "grow-2"]
    assert [read_meta(newest(run / key))["env_step"] for key in ("grow-1", "grow-2")] == [32, 64]
    begun = read_file(run / "grow-2" / "checkpoints" / "step-16" / "model.ckpt")
    ended = read_file(newest(run / "grow-1") / "model.ckpt")
    steps = [state["optimizer_states"][0]["state"][0]["step"] for state in (ended, begun)]
    assert steps[1] > steps[0], "the optimizer went on where the cycle before had left it"
    milestone = read_file(run / "train" / "checkpoints" / "step-16" / "model.ckpt")["state_dict"]
    weights = read_artifact(run / "train" / "artifact")[0]
    assert all(bool((weights[name] == milestone[name]).all()) for name in milestone)


def test_what_a_later_stage_would_refuse_is_refused_before_the_first_begins(logs: Path, rl: Rl) -> None:
    config = pipeline(logs.parent, TRAIN, TUNE)
    found = rl("fit", "--config", config, "--stages.tune.model.clip_rang", "0.1")
    assert found.code == 2 and "did you mean 'clip_range'" in found.err
    assert "stage" not in found.out and not any(logs.iterdir())


def test_a_failing_stage_leaves_the_artifacts_before_it(logs: Path, rl: Rl) -> None:
    broken = {**TUNE, "overrides": {"resume_mode": "warm_start", "data.init_args.env.id": "Acrobot-v1"}}
    done = rl("fit", "--config", pipeline(logs.parent, TRAIN, broken))
    assert done.code == 4, done.err
    assert "stage tune failed: the weights do not fit this model" in done.err
    assert "the stages before it are kept; resume with: rl resume pipe" in done.err
    run = logs / "pipe"
    assert ledger(run)["train"]["status"] == "done" and ledger(run)["tune"]["status"] == "failed"
    read_artifact(run / "train" / "artifact")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The artifacts of a pipeline that nobody stopped."""
    folder = tmp_path_factory.mktemp("undisturbed")
    os.environ["RL_LOGS"] = str(folder / "logs")
    log = folder / "log.txt"
    code = wait(fork(["fit", "--config", pipeline(folder, TRAIN, TUNE, REPLAY)], log))
    del os.environ["RL_LOGS"]
    assert code == 0, log.read_text()
    return artifacts(folder / "logs" / "pipe")


def stop_in(stage: str, number: int):
    """A child that gets a signal in the second block of a stage."""

    def change() -> None:
        from rl_lightning.callbacks.run_controller import RunController

        check, blocks = RunController.on_train_batch_end, []

        def ended(self, trainer, module, *args):
            if trainer.default_root_dir and f"/{stage}/" in str(trainer.loggers[0].path):
                blocks.append(1)
                if len(blocks) == 2:
                    os.kill(os.getpid(), number)
            return check(self, trainer, module, *args)

        RunController.on_train_batch_end = ended

    return change


def stop_before_the_ledger_knows() -> None:
    """A child that dies when its first stage is finished and its artifact not yet made."""
    Pipeline._finish = lambda self, job, folder, config: os.kill(os.getpid(), signal.SIGKILL)


def stop_after_the_first_stage(number: int) -> Callable[[], None]:
    """A child that is stopped between two stages."""

    def change() -> None:
        run_job = Pipeline._run_job

        def run(self, job, title):
            if job.key == "tune":
                os.kill(os.getpid(), number)
            return run_job(self, job, title)

        Pipeline._run_job = run

    return change


STOPS = [
    ("inside-the-first", stop_in("train", signal.SIGTERM), 143, "resume"),
    ("inside-the-second", stop_in("tune", signal.SIGINT), 130, "fit"),
    ("killed-inside-the-last", stop_in("replay", signal.SIGKILL), -9, "resume"),
    ("before-the-artifact", stop_before_the_ledger_knows, -9, "resume"),
    ("between-two", stop_after_the_first_stage(signal.SIGKILL), -9, "resume"),
    ("asked-between-two", stop_after_the_first_stage(signal.SIGTERM), 143, "resume"),
]


@pytest.mark.parametrize(
    ("change", "code", "way"), [stop[1:] for stop in STOPS], ids=[stop[0] for stop in STOPS]
)
def test_stopped_anywhere_the_artifacts_are_the_same(
    change, code, way, logs: Path, rl: Rl, undisturbed
) -> None:
    config, log = pipeline(logs.parent, TRAIN, TUNE, REPLAY), logs.parent / "log.txt"
    assert wait(fork(["fit", "--config", config], log, change)) == code, log.read_text()
    assert ("continue with: rl resume pipe" in log.read_text()) == (code > 0)
    assert artifacts(logs / "pipe").keys() < {"train", "tune", "replay"}
    words = ("resume", "pipe") if way == "resume" else ("fit", "--config", config)
    assert rl(*words).code == 0
    assert artifacts(logs / "pipe") == undisturbed


def test_a_pipeline_is_played_by_its_last_stage(logs: Path, rl: Rl) -> None:
    config = pipeline(logs.parent, TRAIN, TUNE)
    assert rl("fit", "--config", config, "--name", "p").code == 0
    done = rl("test", "p", "--episodes", "2")
    assert done.code == 0, done.err
    assert (logs / "p" / "tune" / "test.json").exists()
    answer = rl("reproduce", "p")
    assert answer.code == 2 and "rl reproduce p/tune" in answer.err
    alone = rl("reproduce", "p/tune")  # from the weights that it began with
    assert alone.code == 0 and "'p/tune' was reproduced" in alone.out, alone.out
    assert "rl resume p/train --env_steps 64" in rl("resume", "p/train").out
