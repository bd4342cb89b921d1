"""The contracts of contracts/cases.py for algorithms whose clock is the update."""

from dataclasses import replace
from functools import partial

import contracts.test_resume as test_resume
import pytest
import torch
from contracts.diffusion_cases import DIFFUSION
from contracts.harness import bare, differing, fit, metrics, weights
from contracts.offline_cases import MODELS, OFFLINE
from contracts.test_save_load import through_a_file
from contracts.test_update import under, watch

from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.models.dynamics.penalties import Penalty
from rl_lightning.seeding import seed_globals

OFFLINE = [*OFFLINE, *DIFFUSION]
PLAYERS = [case for case in OFFLINE if case.score is not None]
every = pytest.mark.parametrize("case", OFFLINE, ids=lambda case: case.name)


@every
def test_each_optimizer_moves_its_own_parameters_and_no_others(case):
    run = bare(case, RunConfig(updates=1000))
    moved, before = watch(run), weights(run.model)
    run.learn(run.block())
    expected = [under(run.model, prefixes) for prefixes in case.optimizers]
    assert moved == expected
    by_hand = differing(before, weights(run.model)) - set().union(*expected)
    assert by_hand == under(run.model, case.slow) | set(case.counters)
    everything = set().union(*expected) | under(run.model, case.slow)
    assert everything == set(dict(run.model.named_parameters())), "parameters that nobody moves"


@every
def test_next_updates_are_identical_after_a_reload(case):
    run = bare(case, RunConfig(updates=1000))
    run.learn(run.block())
    saved = through_a_file([run.model.state_dict(), *(o.state_dict() for o in run.optimizers)])
    blocks = [run.block() for _ in range(2)]
    seed_globals(99)
    fresh = case.model(run.data.spec)
    fresh.attach(run.data)
    for optimizer, state in zip(fresh.raw_optimizers(), saved[1:], strict=True):
        optimizer.load_state_dict(state)
    fresh.load_state_dict(saved[0])
    seen = []
    for model in (run.model, fresh):
        seed_globals(5)
        model.drain_metrics()
        for block in blocks:
            model.training_step(block, 0)
        seen.append((weights(model), model.drain_metrics()))
    assert not differing(seen[0][0], seen[1][0])
    assert repr(seen[0][1]) == repr(seen[1][1])


@every
def test_one_seed_twice_gives_the_same_run_watched_or_not(case, tmp_path):
    watched, blind = RunConfig(updates=32, eval_every=16, eval_episodes=2), RunConfig(updates=32)
    first, second = (fit(case, watched, seed=3, folder=tmp_path / name) for name in "ab")
    assert metrics(tmp_path / "a") == metrics(tmp_path / "b")
    assert not differing(weights(first.model), weights(second.model))
    unseen = fit(case, blind, seed=3, folder=tmp_path / "c")
    assert len(first.evaluation.history) >= 2
    changed = differing(weights(first.model), weights(unseen.model))
    assert changed <= {"history"}, "evaluating changed training"  # FQE's: a note of its last evaluations
    other = fit(case, blind, seed=4, folder=tmp_path / "d")
    assert differing(weights(other.model), weights(unseen.model))


@pytest.mark.parametrize("case", PLAYERS, ids=lambda case: case.name)
def test_learns_its_toy(case):
    done = fit(case, RunConfig(updates=case.env_steps))
    assert all(torch.isfinite(p).all() for p in done.model.parameters())
    episodes = done.model.play(done.data.eval_envs(20), 20, seed=7)
    assert sum(episode.episode_return for episode in episodes) / 20 >= case.score
    done.data.teardown("fit")


class Flat(Penalty):
    """Every imagined step costs the same, and counts as outside."""

    def __call__(self, obs, action, step):
        return torch.ones_like(step.reward), torch.ones_like(step.reward, dtype=torch.bool)


def test_a_coefficient_of_zero_trains_the_policy_of_no_penalty():
    (case,) = (case for case in MODELS if case.name == "sac-imagined")

    def trained(**given):
        changed = replace(case, data=partial(case.data, **given))
        return weights(fit(changed, RunConfig(updates=40)).model)

    plain = trained()
    assert not differing(plain, trained(penalty=Flat(), coefficient=0.0, outside_value=-5.0))
    assert differing(plain, trained(penalty=Flat(), coefficient=0.5))


@pytest.mark.parametrize("case", [*OFFLINE, *MODELS], ids=lambda case: case.name)
def test_stopped_and_resumed_is_never_stopped(case, tmp_path):
    """Stopped before and resumed across an evaluation; the budget of env steps is never reached."""
    test_resume.fit(case, tmp_path / "straight", 104)
    for until in (40, 104):
        test_resume.fit(case, tmp_path / "parts", until, resume=until > 40)
    for part in ("straight", "parts"):
        (tmp_path / part / "eval.jsonl").touch()  # models play nothing
    test_resume.assert_same(test_resume.state(tmp_path / "straight"), test_resume.state(tmp_path / "parts"))
