"""Every algorithm learns its toy, and nobody is beaten by the random policy."""

import pytest
import torch
from contracts.case import Case
from contracts.cases import CASES
from contracts.harness import fit


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[pytest.mark.slow] * case.toy.slow) for case in CASES if case.toy],
    ids=lambda case: case.name,
)
def test_learns_its_toy(case: Case):
    assert case.toy is not None
    done = fit(case, case.run(case.toy.budget))
    assert all(torch.isfinite(value).all() for value in done.model.parameters())
    episodes = done.model.run_episodes(done.data.eval_envs(20), 20, seed=7)
    assert sum(episode.episode_return for episode in episodes) / 20 >= case.toy.score
    done.data.teardown("fit")
