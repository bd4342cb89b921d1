"""Every algorithm learns its toy, and nobody is beaten by the random policy."""

import pytest
from contracts.cases import LEARNERS
from contracts.harness import fit

from rl_lightning.clock.run_clock import RunConfig


@pytest.mark.parametrize("case", LEARNERS, ids=lambda case: case.name)
def test_learns_its_toy(case):
    done = fit(case, RunConfig(env_steps=case.env_steps))
    episodes = done.model.play(done.data.eval_envs(20), 20, seed=7)
    assert sum(episode.episode_return for episode in episodes) / 20 >= case.score
    done.data.teardown("fit")
