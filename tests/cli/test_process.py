"""The command is quiet about what its user can do nothing about, and hides nobody else's words."""

import logging
import subprocess
import sys

from rl_lightning.cli.process import quiet

FEW = ["--env_steps", "64", "--data.num_envs", "2", "--data.rollout_steps", "32", "--model.n_epochs", "1"]


def test_a_run_and_its_test_say_only_what_is_ours(tmp_path, monkeypatch):
    monkeypatch.setenv("RL_LOGS", str(tmp_path / "logs"))
    rl = [sys.executable, "-m", "rl_lightning.cli"]
    for words in (["fit", "ppo/cartpole", *FEW, "--name", "quiet"], ["test", "quiet", "--episodes", "2"]):
        done = subprocess.run([*rl, *words], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        for theirs in ("GPU available", "TPU available", "Tip:", "was configured so"):
            assert theirs not in done.stdout + done.stderr


def test_words_of_others_are_passed_on(caplog):
    theirs, mine = (
        logging.getLogger(name) for name in ("lightning.pytorch.utilities.rank_zero", "mypackage.env")
    )
    with quiet():
        theirs.warning("a tip")
        theirs.error("an error")
        mine.warning("my own warning")
    assert [record.message for record in caplog.records] == ["an error", "my own warning"]
