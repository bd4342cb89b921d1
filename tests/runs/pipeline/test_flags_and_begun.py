"""A pipeline goes on with the flags it began with, and a begun stage only as it began."""

from pathlib import Path

from resume.support import Rl

STAGE = """\
run: {name: pipe}
stages:
  - name: one
    config:
      model: {class_path: RandomPolicy}
      data: {class_path: OnPolicyData, init_args: {env: {id: CartPole-v1}, num_envs: 2, rollout_steps: 8}}
      run: {env_steps: 32, eval_every: 16, eval_episodes: 1}
  - name: two
    config:
      model: {class_path: RandomPolicy}
      data: {class_path: OnPolicyData, init_args: {env: {id: CartPole-v1}, num_envs: 2, rollout_steps: 8}}
      run: {env_steps: 32, eval_every: 16, eval_episodes: 1}
"""


def test_flags_belong_to_the_run(logs: Path, rl: Rl) -> None:
    Path("pipe.yaml").write_text(STAGE)
    assert rl("fit", "--config", "./pipe.yaml", "--seed", "3", "--only", "one").code == 0
    done = rl("resume", "pipe")
    assert done.code == 0, done.err
    assert "one: done, skipped" in done.out
    assert "seed 3" in done.out, "the second stage trained with another seed"


def test_a_begun_stage_does_not_go_on_under_another_seed(logs: Path, rl: Rl) -> None:
    from rl_lightning.runs.pipeline.ledger import Ledger

    Path("pipe.yaml").write_text(STAGE)
    assert rl("fit", "--config", "./pipe.yaml", "--only", "one").code == 0
    ledger = Ledger(logs / "pipe" / "pipeline.json")
    ledger.set("one", status="interrupted", seconds=100.0)
    refused = rl("fit", "--config", "./pipe.yaml", "--seed", "5", "--only", "one")
    assert refused.code != 0 and "was begun with another config" in refused.err
    assert rl("resume", "pipe", "--only", "one").code == 0
    assert ledger.read()["one"]["seconds"] >= 100.0, "the time before it was stopped counts"


def test_the_newest_flags_are_the_ones_that_stay(logs: Path, rl: Rl) -> None:
    Path("pipe.yaml").write_text(STAGE)
    begun = rl("fit", "--config", "./pipe.yaml", "--only", "one", "--stages.two.run.env_steps", "48")
    assert begun.code == 0, begun.err
    assert rl("fit", "--config", "./pipe.yaml").code == 0
    done = rl("resume", "pipe")
    assert done.code == 0 and done.out.count("done, skipped") == 2, done.err
    assert rl("resume", "pipe", "--seed", "5").code != 0
    assert rl("resume", "pipe").code == 0, "a refused flag stayed"


def test_an_env_that_nobody_has_is_refused_before_a_folder_is_claimed(logs: Path, rl: Rl) -> None:
    Path("pipe.yaml").write_text(STAGE)
    refused = rl("fit", "--config", "./pipe.yaml", "--stages.two.data.env.id", "CartPool-v1")
    assert refused.code == 2 and "unknown env id 'CartPool-v1'; did you mean 'CartPole-v1'?" in refused.err
    assert not (logs / "pipe").exists()
