"""Same seed, same numbers; another seed, others; and whether anybody watches makes no difference."""

import pytest
from contracts.cases import BY_NAME, CASES, LEARNERS
from contracts.harness import differing, fit, metrics, weights

from rl_lightning.rollout.schedule import RunConfig

SHORT = RunConfig(env_steps=300, eval_every=100, eval_episodes=3)
BLIND = RunConfig(env_steps=300)  # the same steps without an evaluation


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_one_seed_twice_gives_the_same_run(case, tmp_path):
    first = fit(case, SHORT, seed=3, folder=tmp_path / "a")
    second = fit(case, SHORT, seed=3, folder=tmp_path / "b")
    assert metrics(tmp_path / "a") == metrics(tmp_path / "b")
    assert (tmp_path / "a/eval.jsonl").read_text() == (tmp_path / "b/eval.jsonl").read_text()
    assert not differing(weights(first.model), weights(second.model))

    unseen = fit(case, BLIND, seed=3, folder=tmp_path / "c")
    assert not differing(weights(first.model), weights(unseen.model)), "evaluating changed training"
    assert unseen.data.schedule.env_step == first.data.schedule.env_step
    assert len(first.evaluation.history) == 3 and not unseen.evaluation.history


@pytest.mark.parametrize("name", ["ppo-gru", "dqn-dueling-n-step-prioritized", "sac", "dqn-pixels", "ppo-masked"])
def test_async_envs_give_the_numbers_of_sync_ones_every_time(name, tmp_path):
    case, run = BY_NAME[name], RunConfig(env_steps=150)
    runs = []
    for folder, vectorization in (("a", "async"), ("b", "async"), ("c", "sync")):
        changed = case.but(data={"vectorization": vectorization, "num_envs": 2})
        runs.append(fit(changed, run, seed=1, folder=tmp_path / folder))
    assert metrics(tmp_path / "a") == metrics(tmp_path / "b") == metrics(tmp_path / "c")
    for other in runs[1:]:
        assert not differing(weights(runs[0].model), weights(other.model))


@pytest.mark.parametrize("case", LEARNERS, ids=lambda case: case.name)
def test_another_seed_gives_another_run(case):
    run = RunConfig(env_steps=130)
    assert differing(weights(fit(case, run, seed=0).model), weights(fit(case, run, seed=1).model))
