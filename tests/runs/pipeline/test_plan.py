"""From `stages:` to jobs, without training anything."""

import copy
from typing import Any

import pytest

from rl_lightning.errors import ConfigError
from rl_lightning.runs.pipeline.plan import Job, make_plan

BASE: dict[str, Any] = {"model": {"init_args": {"lr": 1.0}}, "run": {"env_steps": 100}}


def plan(*stages: dict[str, Any], **more: Any) -> list[Job]:
    whole = [{"config": copy.deepcopy(BASE), **stage} for stage in stages]
    return make_plan({"stages": whole, **more}, lambda name: {"loaded": name})


def test_order_and_keys() -> None:
    assert [job.key for job in plan({"name": "a"}, {"name": "b"})] == ["a", "b"]
    jobs = plan({"name": "a", "once": True}, {"name": "b"}, cycles=3)
    assert [job.key for job in jobs] == ["a", "b-1", "b-2", "b-3"]
    assert [job.cycle for job in jobs] == [1, 1, 2, 3]


def test_shared_then_set() -> None:
    shared = {"model.init_args.lr": 2.0, "seed_everything": 7}
    first, second = plan(
        {"name": "a"}, {"name": "b", "overrides": {"model.init_args.lr": 3.0}}, shared=shared
    )
    assert (
        first.config["model"]["init_args"]["lr"] == 2.0 and second.config["model"]["init_args"]["lr"] == 3.0
    )
    assert first.config["seed_everything"] == second.config["seed_everything"] == 7
    assert BASE["model"]["init_args"]["lr"] == 1.0


def test_takes_the_newest_artifact_of_a_stage() -> None:
    jobs = plan({"name": "a"}, {"name": "b", "inputs": {"ckpt_path": "a"}}, cycles=2)
    assert [job.inputs for job in jobs] == [{}, {"ckpt_path": "a-1"}, {}, {"ckpt_path": "a-2"}]
    (_, *rest) = plan({"name": "a", "once": True}, {"name": "b", "inputs": {"x.y": "a"}}, cycles=2)
    assert [job.inputs for job in rest] == [{"x.y": "a"}] * 2
    (job,) = plan({"name": "b", "inputs": {"ckpt_path": "some/artifact"}})
    assert job.inputs == {"ckpt_path": "some/artifact"}


def test_continues_from_the_cycle_before() -> None:
    jobs = plan({"name": "a", "warm_start": True}, {"name": "b"}, cycles=3)
    assert [job.warm_start_from for job in jobs if job.stage == "a"] == [None, "a-1", "a-2"]
    assert all(job.warm_start_from is None for job in jobs if job.stage == "b")


def test_budget_by_cycle() -> None:
    jobs = plan({"name": "a", "budget_by_cycle": {2: 2, 3: 0.5}}, cycles=3)
    assert [job.config["run"]["env_steps"] for job in jobs] == [100, 200, 50]


def test_the_hash_sees_what_decides_the_artifact() -> None:
    (job,) = plan({"name": "a"})
    for change in (
        {"overrides": {"model.init_args.lr": 2.0}},
        {"artifact": "last"},
        {"inputs": {"ckpt_path": "x/y"}},
    ):
        assert plan({"name": "a", **change})[0].hash() != job.hash(), change
    for change in ({"overrides": {"run.name": "other"}}, {"overrides": {"log.every": 3}}):
        assert plan({"name": "a", **change})[0].hash() == job.hash(), change


REFUSED = [
    ([{"name": "a"}, {"name": "a"}], {}, "two stages are called 'a'"),
    ([{"name": "a/b"}], {}, "use letters, digits and _"),
    ([{"name": "a", "input": {}}], {}, "no key 'input'; did you mean 'inputs'"),
    (
        [{"name": "world"}, {"name": "b", "inputs": {"ckpt_path": "wolrd"}}],
        {},
        "no stage before it has that name, nor a run; did you mean 'world'",
    ),
    ([{"name": "a", "inputs": {"ckpt_path": "a"}}], {}, "no stage before it has that name"),
    ([{"name": "a"}], {"cycles": 0}, "cycles is 0"),
    ([{"name": "a", "overrides": {"run": {}}, "budget_by_cycle": {1: 2}}], {}, "neither is set"),
    ([{"name": "a", "overrides": {"seed.x": 1}}], {"shared": {"seed": 3}}, "'seed' is not a mapping"),
    ([], {}, "give a list"),
]


@pytest.mark.parametrize(("stages", "more", "message"), REFUSED, ids=[message for *_, message in REFUSED])
def test_refused(stages: list[dict[str, Any]], more: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        plan(*stages, **more)
