"""Another seed, other numbers; workers or none, the same."""

import pytest
import torch
from contracts.case import Case
from contracts.cases import BY_NAME, CASES, each
from contracts.harness import bare, differing, fit, metrics, weights

from rl_lightning.clock.run_clock import RunConfig


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


@each([case for case in CASES if case.optimizers])
def test_another_seed_begins_and_learns_from_others(case: Case):
    one, other = (bare(case, seed=seed) for seed in (0, 1))
    assert differing(weights(one.model), weights(other.model))
    pairs = zip(one.block().batches[0], other.block().batches[0], strict=True)
    assert not all(torch.equal(a, b) for a, b in pairs if isinstance(a, torch.Tensor) and a.shape == b.shape)
