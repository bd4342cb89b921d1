"""The contracts for the stages of World Models: exact resume, the same numbers twice, only what should move."""

import pytest
import torch
from contracts import harness
from contracts.cases import Case
from contracts.harness import assert_same, bare, differing, state, weights
from contracts.test_update import under, watch
from contracts.world_model_cases import RECORD, STAGES

from rl_lightning.clock.run_clock import RunConfig

every = pytest.mark.parametrize("case", STAGES, ids=lambda case: case.name)


def part(case: Case, folder, until: int, resume: bool = False) -> None:
    run = RunConfig(updates=12, eval_every=5, eval_episodes=1, save_minutes=None)
    harness.fit(case, run, 5, folder, log_every=4, until=until, resume=resume)
    (folder / "eval.jsonl").touch()  # a model plays nothing


@every
def test_stopped_and_resumed_is_never_stopped(case, tmp_path):
    part(case, tmp_path / "straight", 12)
    for until in (4, 8, 12):
        part(case, tmp_path / "parts", until, resume=until > 4)
    assert_same(state(tmp_path / "straight"), state(tmp_path / "parts"))


def test_recording_goes_on_exactly(tmp_path):
    run = RunConfig(env_steps=192, eval_every=96, save_minutes=None)
    for folder, stops in (("straight", (192,)), ("parts", (64, 128, 192))):
        for until in stops:
            harness.fit(RECORD, run, 5, tmp_path / folder, log_every=64, until=until, resume=until > stops[0])
        (tmp_path / folder / "eval.jsonl").touch()
    assert_same(state(tmp_path / "straight"), state(tmp_path / "parts"))


@every
def test_each_optimizer_moves_its_own_parameters_and_no_others(case):
    run = bare(case, RunConfig(updates=100))
    run.model.setup("fit")
    if case.name == "mdn-rnn":
        run.data.translate(run.model.encode)
    moved, before = watch(run), weights(run.model)
    run.learn(run.block())
    expected = [under(run.model, prefixes) for prefixes in case.optimizers]
    assert moved == expected
    numbers = {"best"} if case.name.startswith("evolve") else set()
    assert differing(before, weights(run.model)) == set().union(*expected, numbers)


@every
def test_one_seed_twice_gives_the_same_run_watched_or_not(case, tmp_path):
    watched, blind = RunConfig(updates=6, eval_every=3, eval_episodes=1), RunConfig(updates=6)
    first, second = (harness.fit(case, watched, seed=3, folder=tmp_path / name) for name in "ab")
    assert harness.metrics(tmp_path / "a") == harness.metrics(tmp_path / "b")
    assert not differing(weights(first.model), weights(second.model))
    unseen = harness.fit(case, blind, seed=3, folder=tmp_path / "c")
    assert not differing(weights(first.model), weights(unseen.model)), "evaluating changed training"
    other = harness.fit(case, blind, seed=4, folder=tmp_path / "d")
    assert differing(weights(other.model), weights(unseen.model))


def test_rows_of_a_recording_are_what_was_played():
    run = bare(RECORD, RunConfig(env_steps=1000))
    for _ in range(6):
        run.learn(run.block())
    rows = run.model.recording
    ends = (rows.terminated | rows.truncated).nonzero()[:, 0]
    assert torch.equal(rows.is_first.nonzero()[1:, 0], ends[:-1] + 1) and rows.is_first[0]
    assert (rows.reward[rows.is_first] == 0).all() and (rows.reward[~rows.is_first] == 1).all()
    assert (rows.action[ends] == 0).all()
    player = (rows.obs[:, 0, -1] == 160).float().argmax(1)  # left edge; a hit may cover it
    step = torch.tensor([0, -4, 4])[rows.action[:-1]]
    inside = ~rows.is_first[1:] & ~rows.terminated[1:]
    moved = (player[:-1] + step).clamp(0, 56)
    clear = inside & (rows.obs[1:, 0, -1] == 160).sum(1).eq(8) & (rows.obs[:-1, 0, -1] == 160).sum(1).eq(8)
    assert clear.sum() > 20 and torch.equal(player[1:][clear], moved[clear]), (
        "an action leads to the next row"
    )
