"""What else a stop must not change: workers, a ring that wrapped, phases, budgets that grow."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from contracts import harness
from contracts.case import Case
from contracts.cases import BY_NAME
from contracts.harness import assert_same, state

from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.nn import MLP

UNIT = 128  # env steps of the smallest budget


def fit(
    case: Case, folder: Path, until: int, resume: bool = False, phases: Any = None, budget: int = 3 * UNIT
) -> None:
    """A part of a run, stopped at `until`."""
    run = RunConfig(env_steps=budget, eval_every=96, eval_episodes=3, save_minutes=None)
    harness.fit(case, run, 5, folder, log_every=64, until=until, resume=resume, phases=phases)


def test_a_larger_budget_goes_the_same_way(tmp_path: Path) -> None:
    case = BY_NAME["sac"]
    fit(case, tmp_path / "straight", 3 * UNIT)
    fit(case, tmp_path / "parts", UNIT, budget=UNIT)
    fit(case, tmp_path / "parts", 3 * UNIT, resume=True)
    assert_same(state(tmp_path / "straight"), state(tmp_path / "parts"))


@pytest.mark.parametrize("vectorization", ["sync", "async"])
@pytest.mark.parametrize("name", ["sac", "ppo-discrete"])
def test_with_workers_too(name: str, vectorization: str, tmp_path: Path) -> None:
    case = BY_NAME[name].but(data={"vectorization": vectorization})
    fit(case, tmp_path / "straight", 2 * UNIT)
    fit(case, tmp_path / "parts", UNIT)
    fit(case, tmp_path / "parts", 2 * UNIT, resume=True)
    assert_same(state(tmp_path / "straight"), state(tmp_path / "parts"))


def test_networks_large_enough_for_the_kernels_too(tmp_path: Path) -> None:
    wide = {
        "network": partial(MLP, hidden_dims=[256, 256], activation="relu"),
        "critic_hidden_dims": [256, 256],
    }
    case = BY_NAME["sac"].but(data={"batch_size": 128}, model=wide)
    fit(case, tmp_path / "straight", 2 * UNIT)
    fit(case, tmp_path / "parts", UNIT)
    fit(case, tmp_path / "parts", 2 * UNIT, resume=True)
    assert_same(state(tmp_path / "straight"), state(tmp_path / "parts"))


def test_a_ring_that_wrapped_resumes_with_its_own_rows(tmp_path: Path) -> None:
    from rl_lightning.replay import Replay

    case = BY_NAME["sac"].but(data={"buffer": partial(Replay, capacity=100)})
    fit(case, tmp_path / "straight", 3 * UNIT)
    for budget in (UNIT, 2 * UNIT, 3 * UNIT):
        fit(case, tmp_path / "parts", budget, resume=budget > UNIT)
    assert_same(state(tmp_path / "straight"), state(tmp_path / "parts"))


PHASES = [
    {"name": "prefill", "env_steps": 48, "hooks": ["collect"], "controller": "random"},
    {"name": "model", "type": "offline", "updates": 5},
    {"name": "joint", "hooks": ["collect", {"name": "update", "count": 3}, {"name": "evaluate", "every": 4}]},
]


@pytest.mark.parametrize("budget", [40, 64, 81, 100])
def test_phases_resume_in_the_middle_of_a_cycle(budget: int, tmp_path: Path) -> None:
    case = BY_NAME["sac"]
    fit(case, tmp_path / "straight", 2 * UNIT, phases=PHASES)
    fit(case, tmp_path / "parts", budget, phases=PHASES)
    fit(case, tmp_path / "parts", 2 * UNIT, resume=True, phases=PHASES)
    assert_same(state(tmp_path / "straight"), state(tmp_path / "parts"))


UNEVEN = [
    {"name": "prefill", "env_steps": 40, "hooks": ["collect"], "controller": "random", "collect_steps": 7},
    {
        "name": "joint",
        "hooks": [{"name": "collect", "count": 2}, {"name": "update", "count": 9}],
        "collect_steps": 11,
    },
]


@pytest.mark.parametrize(
    "budget", [{"env_steps": 10}, {"env_steps": 37}, {"env_steps": 91}, {"updates": 13}], ids=str
)
def test_a_budget_that_cut_a_hook_short_goes_the_same_way_when_it_grows(
    budget: dict[str, int], tmp_path: Path
) -> None:
    """The rest of the hook follows: the same steps in the same buffer, the same batches."""
    case = BY_NAME["sac"]
    whole = {"env_steps": 200, "updates": 40}
    for folder, runs in (("straight", [whole]), ("parts", [whole | budget, whole])):
        for place, limits in enumerate(runs):
            run = RunConfig(**limits, eval_every=60, eval_episodes=2, save_minutes=None)
            done = harness.fit(
                case, run, 5, tmp_path / folder, log_every=10**6, resume=place > 0, phases=UNEVEN
            )
            clocks = {"env_steps": done.data.clock.env_step, "updates": done.data.clock.update}
            for key, most in limits.items():
                assert clocks[key] <= most + (key == "env_steps"), "two envs: an odd budget is passed by one"
    assert_same(state(tmp_path / "straight"), state(tmp_path / "parts"))
