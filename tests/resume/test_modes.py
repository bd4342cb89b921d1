"""Resume modes, changed settings, other runs' checkpoints, and what does not fit."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
import torch
import yaml
from contracts.harness import assert_same, newest, state
from resume.support import PPO, SAC, Rl, copy_run, write

from rl_lightning.checkpoints.checkpoint_store import CheckpointStore
from rl_lightning.io.checkpoint_files import read_file, read_meta

TO_THE_END = ("--env_steps", "96")


@pytest.fixture
def run(half: Path, logs: Path) -> Path:
    return copy_run(half, logs, "half")


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return read_file(folder / "model.ckpt")["state_dict"]


def first_generation(run: Path, rl: Rl, config: str, *words: str) -> Path:
    """A new run, stopped by its budget after its first block; its first generation is kept as a milestone."""
    done = rl("fit", "--config", config, "--name", run.name, "--env_steps", "8", *words)
    assert done.code == 0, done.err
    return CheckpointStore(run / "checkpoints").checkpoints()[0]


def test_a_budget_below_the_first_update_is_kept_and_can_be_extended(
    straight: Path, logs: Path, tmp_path: Path, rl: Rl
) -> None:
    short = rl("fit", "--config", write(tmp_path, "sac", SAC), "--name", "short", "--env_steps", "8")
    assert short.code == 0 and "learning starts after data.learning_starts 16" in short.out
    assert json.loads((logs / "short" / "run.json").read_text())["env_step"] == 8
    assert rl("resume", "short", *TO_THE_END).code == 0
    assert_same(state(straight), state(logs / "short"))


def test_a_longer_budget_in_a_moved_folder(half: Path, straight: Path, logs: Path, rl: Rl) -> None:
    run = copy_run(half, logs, "somewhere_else")
    done = rl("resume", "somewhere_else", *TO_THE_END)
    assert done.code == 0 and "run.env_steps: 48 -> 96" in done.err
    assert_same(state(straight), state(run))


@pytest.mark.slow
def test_a_run_given_by_its_path(half: Path, straight: Path, logs: Path, rl: Rl) -> None:
    run = Path(shutil.copytree(half, logs.parent / "far" / "away"))
    assert rl("resume", str(run), *TO_THE_END).code == 0
    assert_same(state(straight), state(run))


@pytest.mark.parametrize("way", ["fit", "resume"])
def test_from_a_milestone(way: str, runs: Path, straight: Path, logs: Path, rl: Rl) -> None:
    """A new run, or the same one taken back, from a numbered milestone on."""
    config = str(runs / "sac.yaml")
    assert (
        rl("fit", "--config", config, "--name", "first", "--env_steps", "64", "--milestone_every", "32").code
        == 0
    )
    milestone = logs / "first" / "checkpoints" / "step-32"
    if way == "fit":
        done = rl("fit", "--config", config, "--name", "second", "--ckpt_path", str(milestone))
    else:
        done = rl("resume", "first", "--checkpoint", "step-32", *TO_THE_END)
    assert done.code == 0, done.err
    made, want = (
        state(logs / ("second" if way == "fit" else "first")),
        state(straight),
    )
    if way == "fit":  # its own files begin where it began
        made["metrics"], want["metrics"] = [], []
        made["episodes"] = want["episodes"] = ""
    assert_same(want, made)
    assert read_meta(milestone)["env_step"] == 32


def test_a_run_taken_back_stays_there_if_it_is_killed_at_once(half: Path, logs: Path, rl: Rl) -> None:
    """Newer checkpoints are of another future; they must not come back."""
    run = copy_run(half, logs, "half")
    older, _ = CheckpointStore(run / "checkpoints").checkpoints()
    done = rl("resume", "half", "--checkpoint", older.name, "--env_steps", "32")
    assert done.code == 0, done.err
    assert read_meta(newest(run))["env_step"] == 32


def test_warm_start_takes_weights_alone(run: Path, runs: Path, logs: Path, rl: Rl) -> None:
    source = newest(run)
    made = first_generation(
        logs / "warm", rl, str(runs / "sac.yaml"), "--ckpt_path", str(source), "--resume_mode", "warm_start"
    )
    assert_same(weights(source), weights(made))
    state = read_file(made / "model.ckpt")
    assert all(not optimizer["state"] for optimizer in state["optimizer_states"])
    assert (read_meta(made)["env_step"], read_meta(made)["update"]) == (0, 0)


def test_warm_start_from_a_run_takes_its_best(run: Path, runs: Path, logs: Path, rl: Rl) -> None:
    words = ("--ckpt_path", "half", "--resume_mode", "warm_start")
    made = first_generation(logs / "warm", rl, str(runs / "sac.yaml"), *words)
    assert_same(read_file(run / "checkpoints" / "best.ckpt")["state_dict"], weights(made))


def test_warm_start_optimizer_takes_both(run: Path, runs: Path, logs: Path, rl: Rl) -> None:
    words = ("--ckpt_path", "half", "--resume_mode", "warm_start_optimizer", "--save_every", "1000")
    done = rl("fit", "--config", str(runs / "sac.yaml"), "--name", "warm", "--env_steps", "8", *words)
    assert done.code == 0, done.err
    first = CheckpointStore(logs / "warm" / "checkpoints").checkpoints()[
        0
    ]  # a kill must not lose what was taken over
    old, new = (read_file(folder / "model.ckpt") for folder in (newest(run), first))
    assert_same(old["state_dict"], new["state_dict"])
    assert_same(
        [optimizer["state"] for optimizer in old["optimizer_states"]],
        [optimizer["state"] for optimizer in new["optimizer_states"]],
    )


def test_best_has_no_optimizers(run: Path, runs: Path, rl: Rl) -> None:
    best = str(run / "checkpoints" / "best.ckpt")
    words = ("--ckpt_path", best, "--resume_mode", "warm_start_optimizer")
    done = rl("fit", "--config", str(runs / "sac.yaml"), *words)
    assert done.code == 4 and "holds weights but no optimizers" in done.err


def rates(run: Path) -> set[float]:
    state = read_file(newest(run) / "model.ckpt")
    return {group["lr"] for optimizer in state["optimizer_states"] for group in optimizer["param_groups"]}


def test_a_learning_rate_is_changed_only_when_asked(run: Path, logs: Path, rl: Rl) -> None:
    other = copy_run(run, logs, "other")
    before = rates(run)
    done = rl("resume", "half", "--model.lr", "0.25", "--env_steps", "64")
    assert (
        done.code == 0
        and "model.lr: 0.0003 -> 0.25" in done.err
        and "--reset_lr applies the new one" in done.err
    )
    assert rates(run) == before
    assert yaml.safe_load((run / "config.yaml").read_text())["model"]["init_args"]["lr"] == 0.0003
    done = rl("resume", "other", "--model.lr", "0.25", "--env_steps", "64", "--reset_lr")
    assert done.code == 0 and "note: the checkpoint's learning rate" not in done.err
    assert 0.25 in rates(other)
    assert yaml.safe_load((other / "config.yaml").read_text())["model"]["init_args"]["lr"] == 0.25


def test_a_new_rate_is_saved_before_anything_is_learned_with_it(run: Path, rl: Rl) -> None:
    """Else a kill before the next checkpoint would bring the old one back."""
    there = CheckpointStore(run / "checkpoints").checkpoints()
    done = rl("resume", "half", "--model.lr", "0.25", "--env_steps", "49", "--reset_lr")
    assert done.code == 0, done.err
    first = next(found for found in CheckpointStore(run / "checkpoints").checkpoints() if found not in there)
    assert read_meta(first)["env_step"] == 48
    groups = read_file(first / "model.ckpt")["optimizer_states"][0]["param_groups"]
    assert groups[0]["lr"] == 0.25


def test_a_refused_change_leaves_the_run_as_it_was(run: Path, rl: Rl) -> None:
    before = (run / "config.yaml").read_text()
    done = rl("resume", "half", "--data.num_envs", "3", *TO_THE_END)
    assert done.code == 4 and (run / "config.yaml").read_text() == before
    done = rl("resume", "half", "--data.buffer.init_args.capacity", "70", *TO_THE_END)
    assert done.code == 4 and "the buffer had room for" in done.err
    assert (run / "config.yaml").read_text() == before
    assert rl("resume", "half", *TO_THE_END).code == 0


def test_a_run_leaves_the_handlers_of_signals_as_they_were(run: Path, rl: Rl) -> None:
    """Else a SIGTERM between two stages of a pipeline would be swallowed."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    before = [signal.getsignal(number) for number in numbers]
    assert rl("resume", "half", "--env_steps", "64").code == 0
    assert [signal.getsignal(number) for number in numbers] == before


def test_another_env_is_refused(run: Path, rl: Rl) -> None:
    done = rl("resume", "half", "--data.env.id", "MountainCarContinuous-v0")
    assert done.code == 4 and "Pendulum-v1" in done.err and "MountainCarContinuous-v0" in done.err


def test_another_algorithm_is_refused(run: Path, logs: Path, rl: Rl) -> None:
    done = rl("fit", "--config", write(logs.parent, "ppo", PPO), "--ckpt_path", "half")
    assert done.code == 4 and "is of SAC, this run trains PPO" in done.err
    assert [folder.name for folder in logs.iterdir()] == ["half"], "a refused run leaves no folder"


def test_another_number_of_processes_is_refused(run: Path, rl: Rl) -> None:
    for generation in CheckpointStore(run / "checkpoints").checkpoints():
        meta = json.loads((generation / "meta.json").read_text())
        (generation / "meta.json").write_text(json.dumps(meta | {"ranks": 2}))
    done = rl("resume", "half", *TO_THE_END)
    assert (
        done.code == 4 and "saved by 2 processes and 1 are running" in done.err and "warm_start" in done.err
    )


def test_weights_of_another_shape_are_refused_in_a_line(run: Path, logs: Path, rl: Rl) -> None:
    wide = {**SAC, "model": {"class_path": "SAC", "init_args": {"critic_hidden_dims": [16]}}}
    words = ("--ckpt_path", "half", "--resume_mode", "warm_start")
    done = rl("fit", "--config", write(logs.parent, "wide", wide), *words)
    assert done.code == 4 and "the weights do not fit this model" in done.err


def test_a_run_that_is_being_trained_is_not_resumed(run: Path, rl: Rl) -> None:
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(record | {"status": "running", "pid": os.getppid()}))
    done = rl("resume", "half")
    assert done.code == 2 and f"is being trained by process {os.getppid()}" in done.err


def test_reproduce(half: Path, logs: Path, rl: Rl) -> None:
    run = copy_run(half, logs, "half")
    done = rl("reproduce", "half")
    assert done.code == 0 and "no metric differs in" in done.out and "no result in 4 episodes" in done.out
    early = rl("reproduce", "half", "--env_steps", "40")
    assert early.code == 0 and "was reproduced" in early.out, "rows of an earlier end are not held against it"
    lines = (run / "metrics.csv").read_text().splitlines()
    column = lines[0].split(",").index("collect/buffer_size")
    cells = lines[2].split(",")
    cells[column] = "777"
    lines[2] = ",".join(cells)
    (run / "metrics.csv").write_text("\n".join(lines) + "\n")
    done = rl("reproduce", "half")
    assert done.code == 1 and "was not reproduced: collect/buffer_size at env_step" in done.out
    assert "777 before" in done.out and "1 rows before it are equal" in done.out
    record = json.loads((run / "run.json").read_text())
    record["versions"]["torch"] = "1.0"
    (run / "run.json").write_text(json.dumps(record))
    assert "versions torch: 1.0 before" in rl("reproduce", "half").out


def test_an_episode_that_differs_is_named(half: Path, logs: Path, rl: Rl) -> None:
    run = copy_run(half, logs, "half")
    lines = (run / "eval.jsonl").read_text().splitlines()
    changed = json.loads(lines[1]) | {"return": 5.5}
    (run / "eval.jsonl").write_text("\n".join([lines[0], json.dumps(changed), *lines[2:]]) + "\n")
    done = rl("reproduce", "half")
    assert done.code == 1 and "not reproduced: return at env_step 32" in done.out and "5.5 before" in done.out


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--env_steps", "10"), "the first row of 'half' is at env_step 16; give --env_steps 17 or more"),
        (("--env_steps", "0"), "--env_steps takes a whole number of at least 1"),
        (("--env_steps", "40", "--updates", "0"), "--updates takes a whole number of at least 1"),
    ],
)
def test_nothing_compared_is_not_reproduced(
    run: Path, logs: Path, rl: Rl, flags: list[str], said: str
) -> None:
    done = rl("reproduce", "half", *flags)
    assert done.code == 2 and said in done.err and "was reproduced" not in done.out
    assert [folder.name for folder in logs.iterdir()] == ["half"], "nothing was made for it"


def test_a_run_continued_with_other_settings_is_reproduced_up_to_there(run: Path, rl: Rl) -> None:
    before = json.loads((run / "run.json").read_text())
    change = "data.utd_ratio: 0.5 -> 1.0"
    assert rl("resume", "half", "--env_steps", "64", "--data.utd_ratio", "1.0").code == 0
    record = json.loads((run / "run.json").read_text())
    (resumed,) = record["resumes"]
    assert (resumed["env_step"], resumed["update"]) == (before["env_step"], before["update"])
    assert {change, "run.env_steps: 48 -> 64"} <= set(resumed["changed"])
    assert record["config_hash"] != before["config_hash"]
    done = rl("reproduce", "half")
    assert done.code == 0 and "'half' was reproduced up to env_step 48" in done.out
    first = done.out.splitlines()[0]
    assert "continued at env_step 48 with " in first and change in first and "up to there only" in first
    lines = (run / "metrics.csv").read_text().splitlines()
    (run / "metrics.csv").write_text("\n".join([lines[0], lines[1].replace("16", "17"), *lines[2:]]) + "\n")
    done = rl("reproduce", "half")
    assert done.code == 1 and "  continued at env_step 48 with " in done.out and change in done.out


def test_a_run_taken_back_was_continued_where_it_went_on(run: Path, rl: Rl) -> None:
    """The record still has the clocks of the future that was given up."""
    older, _ = CheckpointStore(run / "checkpoints").checkpoints()
    done = rl("resume", "half", "--checkpoint", older.name, "--env_steps", "56")
    assert done.code == 0, done.err
    assert json.loads((run / "run.json").read_text())["resumes"][0]["env_step"] == 32


def test_a_rate_that_was_not_applied_continues_nothing(run: Path, rl: Rl) -> None:
    assert rl("resume", "half", "--model.lr", "0.25").code == 0
    assert "resumes" not in json.loads((run / "run.json").read_text())
