"""The contracts of contracts/cases.py for worlds of frames, their reward heads and the agents inside them."""

import contracts.test_offline as offline
import contracts.test_resume as test_resume
import pytest
from contracts.frame_cases import COLLECTORS, DREAMERS, SMALL, WORLDS
from contracts.harness import bare, differing, fit, metrics, weights

from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.envs.make import make_envs
from rl_lightning.replay.frames.frame_log import COLUMNS, FrameLog
from rl_lightning.replay.segments import SegmentStore

LEARNERS = [*WORLDS, *DREAMERS]
every = pytest.mark.parametrize("case", LEARNERS, ids=lambda case: case.name)


@pytest.mark.parametrize("case", [*WORLDS[2:], *DREAMERS[:2]], ids=lambda case: case.name)
def test_each_optimizer_moves_its_own_parameters_and_no_others(case):
    offline.test_each_optimizer_moves_its_own_parameters_and_no_others(case)


@pytest.mark.parametrize("case", WORLDS[:2], ids=lambda case: case.name)
def test_a_world_moves_whole(case):
    """All but the maps of its attention, which on frames this small look at a single place."""
    run = bare(case, RunConfig(updates=1000))
    before = weights(run.model)
    run.learn(run.block())
    parameters = {name for name in dict(run.model.named_parameters()) if ".maps." not in name}
    assert differing(before, weights(run.model)) == parameters | set(case.counters)


@pytest.mark.parametrize("case", WORLDS, ids=lambda case: case.name)
def test_next_updates_are_identical_after_a_reload(case):
    offline.test_next_updates_are_identical_after_a_reload(case)


@every
def test_one_seed_twice_gives_the_same_run_watched_or_not(case, tmp_path):
    offline.test_one_seed_twice_gives_the_same_run_watched_or_not(case, tmp_path)


@every
def test_stopped_and_resumed_is_never_stopped(case, tmp_path):
    half = case.env_steps // 2
    test_resume.fit(case, tmp_path / "straight", case.env_steps, budget=10_000)
    for until in (half, case.env_steps):
        test_resume.fit(case, tmp_path / "parts", until, resume=until > half, budget=10_000)
    for part in ("straight", "parts"):
        (tmp_path / part / "eval.jsonl").touch()
    test_resume.assert_same(test_resume.state(tmp_path / "straight"), test_resume.state(tmp_path / "parts"))


@pytest.mark.parametrize("case", COLLECTORS, ids=lambda case: case.name)
def test_a_collection_that_is_resumed_holds_the_same_frames(case, tmp_path):
    test_resume.fit(case, tmp_path / "straight", 3 * test_resume.UNIT)
    for budget in (1, 2, 3):
        test_resume.fit(case, tmp_path / "parts", budget * test_resume.UNIT, resume=budget > 1)
    straight, parts = (test_resume.state(tmp_path / name) for name in ("straight", "parts"))
    rows = []
    for found in (straight, parts):  # a stop makes a segment more; the rows in them are the same
        log = FrameLog(make_envs(SMALL, 1).env_spec)
        folder = (
            tmp_path / ("straight" if found is straight else "parts") / "checkpoints" / "replay" / "rank-0"
        )
        log.load(found["own"][0]["data"]["frames"]["log"], SegmentStore(folder))
        found["own"][0]["data"]["frames"]["log"].pop("segments")
        rows.append(log)
    test_resume.assert_same(straight, parts)
    assert all((rows[0].column(name) == rows[1].column(name)).all() for name in COLUMNS)


@pytest.mark.parametrize("case", COLLECTORS, ids=lambda case: case.name)
def test_collecting_teaches_nothing_and_repeats(case, tmp_path):
    run = RunConfig(env_steps=64)
    first, second = (fit(case, run, seed=3, folder=tmp_path / name) for name in "ab")
    assert metrics(tmp_path / "a") == metrics(tmp_path / "b") and first.data.schedule.update == 0
    assert (first.data.log.column("frame") == second.data.log.column("frame")).all()
    before = case.model(first.data.spec)
    assert weights(before).keys() == weights(first.model).keys()
