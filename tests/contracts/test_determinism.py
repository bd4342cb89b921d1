"""Same seed, same numbers; another seed, others; and whether anybody watches makes no difference."""

import pytest
import torch
from contracts.cases import BY_NAME, CASES, LEARNERS
from contracts.harness import bare, differing, fit, metrics, weights

from rl_lightning.clock.run_clock import RunConfig

WATCHED = RunConfig(env_steps=144, eval_every=40, eval_episodes=2)
BLIND = RunConfig(env_steps=144)  # the same steps without an evaluation


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_one_seed_twice_gives_the_same_run_watched_or_not(case, tmp_path):
    first = fit(case, WATCHED, seed=3, folder=tmp_path / "a")
    second = fit(case, WATCHED, seed=3, folder=tmp_path / "b")
    assert metrics(tmp_path / "a") == metrics(tmp_path / "b")
    assert (tmp_path / "a/eval.jsonl").read_text() == (tmp_path / "b/eval.jsonl").read_text()
    assert not differing(weights(first.model), weights(second.model))

    unseen = fit(case, BLIND, seed=3, folder=tmp_path / "c")
    assert len(first.evaluation.history) >= 2 and not unseen.evaluation.history
    assert unseen.data.schedule.env_step == first.data.schedule.env_step
    assert not differing(weights(first.model), weights(unseen.model)), "evaluating changed training"


@pytest.mark.parametrize(
    "name", ["ppo-gru", "dqn-dueling-n-step-prioritized", "sac", "dqn-pixels", "ppo-masked"]
)
def test_async_envs_give_the_numbers_of_sync_ones(name, tmp_path):
    """Which no order of arrival could do by chance."""
    case, run = BY_NAME[name], RunConfig(env_steps=100)
    runs = []
    for vectorization in ("async", "sync"):
        changed = case.but(data={"vectorization": vectorization, "num_envs": 2})
        runs.append(fit(changed, run, seed=1, folder=tmp_path / vectorization))
    assert metrics(tmp_path / "async") == metrics(tmp_path / "sync")
    assert not differing(weights(runs[0].model), weights(runs[1].model))


@pytest.mark.parametrize("case", LEARNERS, ids=lambda case: case.name)
def test_another_seed_begins_and_collects_otherwise(case):
    one, other = (bare(case, seed=seed) for seed in (0, 1))
    assert differing(weights(one.model), weights(other.model))
    assert not torch.equal(one.block().batches[0].action, other.block().batches[0].action)
