"""The contracts for agents that plan: what moves, exact resume with the plan in the carry, evaluation unseen."""

from functools import partial

import pytest
import torch
from contracts import harness
from contracts.cases import Case
from contracts.harness import assert_same, bare, differing, state, weights
from contracts.offline_cases import FOLDER, dynamics_product, offline, policy_product
from contracts.planning_cases import PLANNING, SMALL
from contracts.test_update import under, watch

from rl_lightning.algorithms import EnsembleMPC
from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.envs.termination import NeverEnds
from rl_lightning.planning.planners import MPPI

every = pytest.mark.parametrize("case", PLANNING, ids=lambda case: case.name)


@every
def test_each_optimizer_moves_its_own_parameters_and_no_others(case):
    run = bare(case)
    moved, before = watch(run), weights(run.model)
    for _ in range(6):  # last layers that start at zero let nothing through at first
        run.learn(run.block())
    expected = [under(run.model, prefixes) for prefixes in case.optimizers]
    assert moved == expected
    slow = under(run.model, case.slow)
    changed = differing(before, weights(run.model)) - set().union(*expected)
    assert changed <= slow | set(case.counters)
    assert {name.split(".", 1)[1] for name in slow - changed} <= {"policy.4.bias"}
    everything = set().union(*expected) | slow
    assert everything == set(dict(run.model.named_parameters())), "parameters that nobody moves"
    held = {id(p) for o in run.optimizers for group in o.param_groups for p in group["params"]}
    assert not any(id(p) in held or p.requires_grad for n, p in run.model.named_parameters() if n in slow)


@every
def test_stopped_and_resumed_is_never_stopped(case, tmp_path):
    run = RunConfig(env_steps=144, eval_every=64, eval_episodes=2, save_minutes=None)
    for folder, stops in (("straight", (144,)), ("parts", (72, 108, 144))):
        for until in stops:
            harness.fit(case, run, 5, tmp_path / folder, log_every=32, until=until, resume=until > stops[0])
    assert_same(state(tmp_path / "straight"), state(tmp_path / "parts"))


@every
def test_one_seed_twice_gives_the_same_run_watched_or_not(case, tmp_path):
    watched, blind = RunConfig(env_steps=96, eval_every=48, eval_episodes=2), RunConfig(env_steps=96)
    first, second = (harness.fit(case, watched, seed=3, folder=tmp_path / name) for name in "ab")
    assert harness.metrics(tmp_path / "a") == harness.metrics(tmp_path / "b")
    unseen = harness.fit(case, blind, seed=3, folder=tmp_path / "c")
    assert not differing(weights(first.model), weights(second.model))
    assert not differing(weights(first.model), weights(unseen.model)), "evaluating changed training"
    other = harness.fit(case, blind, seed=4, folder=tmp_path / "d")
    assert differing(weights(other.model), weights(unseen.model))


@every
def test_each_env_starts_from_its_own_last_plan(case):
    run = bare(case)
    for _ in range(2):
        run.learn(run.block())
    obs = torch.randn(3, *run.data.spec.obs_shape, generator=torch.Generator().manual_seed(0))
    _, carry = run.model.act(obs, run.model.initial_carry(3), None)
    assert carry[0].shape == (3, 2, run.data.spec.action_dim) and carry[0].abs().sum() > 0
    before, _ = run.model.act(obs, carry, None)
    other = carry[0].clone()
    other[0] = 0.9
    after, _ = run.model.act(obs, (other,), None)
    assert torch.equal(before[1:], after[1:]), "one env's plan reached another"
    again, _ = run.model.act(obs, carry, None)
    assert torch.equal(before, again), "the same question has the same answer"


def test_control_through_an_ensemble_resumes_with_the_same_episodes(tmp_path):
    """Nothing is trained there: what must not differ are its evaluations, which plan along a learned model."""
    parts = {
        "dynamics": dynamics_product(FOLDER / "resumed-dynamics"),
        "policy": policy_product(FOLDER / "resumed-policy"),
    }
    model = partial(EnsembleMPC, planner=MPPI(**SMALL), termination=NeverEnds(), **parts)
    case = Case("ensemble-mpc", offline, model, (), 0, None)
    run = RunConfig(updates=48, eval_every=16, eval_episodes=2, save_minutes=None)
    for folder, stops in (("straight", (48,)), ("parts", (16, 32, 48))):
        for until in stops:
            harness.fit(case, run, 5, tmp_path / folder, log_every=16, until=until, resume=until > stops[0])
    assert_same(state(tmp_path / "straight"), state(tmp_path / "parts"))
    assert len((tmp_path / "parts" / "eval.jsonl").read_text().splitlines()) >= 6
