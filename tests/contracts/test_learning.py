"""Every algorithm learns its toy, and nobody is beaten by the random policy."""

import torch
from contracts.case import Case
from contracts.cases import CASES, each
from contracts.harness import fit


@each([case for case in CASES if case.toy])
def test_learns_its_toy(case: Case):
    assert case.toy is not None
    done = fit(case, case.run(case.toy.budget))
    assert all(torch.isfinite(value).all() for value in done.model.parameters())
    episodes = done.model.run_episodes(done.data.eval_envs(20), 20, seed=7)
    assert sum(episode.episode_return for episode in episodes) / 20 >= case.toy.score
    done.data.teardown("fit")
