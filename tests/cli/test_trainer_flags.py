"""Lightning's own words through `rl fit`: what ends a run, what is done and what is only cut, what is refused."""

import json

import pytest


def record(workdir, name):
    return json.loads((workdir / "lightning_logs" / name / "run.json").read_text())


def fit(rl, name, *words):
    return rl("fit", "--config", "cartpole.yaml", "--name", name, *words)


def test_a_number_of_evaluations_is_a_budget(rl, workdir):
    done = fit(rl, "epochs", "--env_steps", "320", "--trainer.max_epochs", "2")
    assert done.code == 0 and "done:" in done.out and "max_epochs 2" in done.out
    about = record(workdir, "epochs")
    assert (about["status"], about["env_step"], about["ended_by"]) == ("finished", 64, "trainer.max_epochs 2")


def test_a_number_of_updates_is_a_budget_and_enough_of_one(rl, workdir):
    done = fit(rl, "steps", "--env_steps", "null", "--trainer.max_steps", "3")
    assert done.code == 0 and "done:" in done.out
    about = record(workdir, "steps")
    assert (about["update"], about["ended_by"]) == (3, "trainer.max_steps 3")
    assert rl("resume", "steps", "--trainer.max_steps", "5").code == 0
    assert record(workdir, "steps")["update"] == 5


def test_early_stopping_ends_a_run_and_is_no_budget(rl, workdir):
    options = {"monitor": "eval/return", "mode": "max", "stopping_threshold": "1"}
    flags = [
        "--trainer.callbacks=EarlyStopping",
        *(f"--trainer.callbacks.{k}={v}" for k, v in options.items()),
    ]
    done = fit(rl, "early", "--env_steps", "320", *flags)
    assert done.code == 0 and "ended:" in done.out and "done:" not in done.out
    about = record(workdir, "early")
    assert about["env_step"] == 32 and about["ended_by"].startswith("EarlyStopping on eval/return")


@pytest.mark.parametrize(
    "words",
    [("--trainer.fast_dev_run", "true"), ("--trainer.limit_train_batches", "1", "--trainer.max_epochs", "1")],
)
def test_a_run_that_was_cut_short_is_not_done(rl, workdir, words):
    done = fit(rl, "cut", "--env_steps", "320", *words)
    assert done.code == 0 and "cut:" in done.out and "done:" not in done.out
    assert record(workdir, "cut")["status"] == "interrupted"


def test_files_of_lightnings_lie_in_the_runs_folder(rl, workdir):
    words = ("--trainer.callbacks", "ModelCheckpoint", "--trainer.callbacks.every_n_train_steps", "1")
    assert fit(rl, "files", *words, "--trainer.callbacks.save_top_k", "-1").code == 0
    files = list((workdir / "lightning_logs" / "files").rglob("epoch=*.ckpt"))
    assert len(files) == 2 and len(list(workdir.rglob("epoch=*.ckpt"))) == 2


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--trainer.val_check_interval=0.5", "--eval_every"),
        ("--trainer.overfit_batches=2", "limit_train_batches"),
        ("--trainer.enable_checkpointing=false", "--save_every"),
        ("--trainer.gradient_clip_val=1.0", "max_grad_norm"),
        ("--trainer.accumulate_grad_batches=2", "NonFiniteGuard"),
    ],
)
def test_what_cannot_hold_is_refused_before_anything_is_built(rl, workdir, flag, said):
    refused = fit(rl, "no", flag)
    assert refused.code == 2 and said in refused.err and len(refused.err.splitlines()) == 1
    assert not (workdir / "lightning_logs").exists()


def test_partners_that_do_not_belong_together_are_refused(rl, workdir):
    refused = rl("fit", "--config", "ppo/cartpole", "--model", "DQN", "--name", "no")
    assert refused.code == 2 and "DQN learns from Transitions" in refused.err
    assert "OnPolicyData yields Rollout" in refused.err and "--config dqn/cartpole" in refused.err
    assert not (workdir / "lightning_logs").exists()
