"""What a DataModule makes of a phase's hooks: blocks, clocks, buffers, and an end where there is no data."""

from typing import Any

import numpy as np
import pytest
import torch
from contracts.case import Case, env
from contracts.cases import BY_NAME
from contracts.harness import Bare, Taken, bare

from rl_lightning.clock.phases import PhaseCursor, parse_phases
from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.envs.wrappers.transforms import FrameStack
from rl_lightning.errors import ConfigError


def phased(name: str | Case, *entries: dict[str, Any], run: RunConfig | None = None) -> Bare:
    made = bare(BY_NAME[name] if isinstance(name, str) else name, run)
    made.data.clock.phases = PhaseCursor(parse_phases(list(entries), made.model.update_hooks()))
    return made


def take(made: Bare) -> Taken:
    """One hook; no update is counted. An evaluation that is due has been made before it."""
    if made.data.clock.evaluate_now:
        made.data.clock.end_epoch()
    return Taken(made.data.next_block())


def test_collect_then_updates_in_one_block() -> None:
    made = phased(
        "sac", {"hooks": [{"name": "collect"}, {"name": "update", "count": 3}], "collect_steps": 20}
    )
    block = take(made)
    assert block.updates == 0 and made.data.clock.env_step == 40
    block = take(made)
    assert block.updates == 3 and block.stacked.obs.shape[:2] == (3, 32)


def test_updates_without_data_are_skipped_and_counted() -> None:
    made = phased("sac", {"hooks": ["update", "collect"], "collect_steps": 2})
    for _ in range(4):
        assert take(made).updates == 0
    assert made.data.collect_metrics()["train/skipped_updates"] == 2.0
    assert made.data.clock.phases.updates == 0


@pytest.mark.parametrize("hooks", [["update"], ["update", "evaluate"]])
def test_an_offline_phase_without_data_is_an_error(hooks: list[str]) -> None:
    made = phased("sac", {"name": "alone", "type": "offline", "updates": 5, "hooks": hooks})
    with pytest.raises(
        ConfigError, match="phase 'alone' is offline and its buffer 'replay' will never hold enough"
    ):
        for _ in range(20):
            take(made)


def test_every_name_is_a_buffer_of_its_own() -> None:
    made = phased("sac", {"buffer": "first", "cycles": 1, "hooks": ["collect"]}, {"buffer": "second"})
    take(made)
    assert len(made.data.named("first")) > 0 and len(made.data.named("second")) == 0


LONG = {
    "dqn": env("rl/Counter-v0", episode_length=1000),
    "dqn-pixels": env("tests/Frames-v0", FrameStack(3), length=1000),
}


@pytest.mark.parametrize("name", LONG)
def test_time_that_went_into_another_buffer_is_a_gap(name: str) -> None:
    """No row is paired with, or summed into, what was played after steps that another buffer took."""
    fill = {"hooks": ["collect"], "cycles": 1, "collect_steps": 4}
    turns = [{**fill, "buffer": buffer} for buffer in ("replay", "other", "replay")]
    made = phased(BY_NAME[name].but({"env": LONG[name]}), *turns, {})
    played = []
    collect = made.data.collect

    def watched(*args: Any) -> Any:
        played.append(collect(*args))
        return played[-1]

    made.data.collect = watched
    for _ in range(3):
        take(made)
    pairs = set()
    for rows in (played[0], played[2]):
        seen = np.concatenate([rows.obs, rows.last_obs[None]])
        for n, t in np.ndindex(rows.reward.shape[1], len(rows.reward)):
            pairs |= {
                (seen[t, n].tobytes(), seen[last, n].tobytes()) for last in range(t + 1, t + 4) if last <= 4
            }
    buffer = made.data.named("replay")
    sample = buffer.sample(300, torch.Generator().manual_seed(0), 3, 0.5)
    dtype = played[0].obs.dtype
    for obs, after in zip(sample.obs.numpy(), sample.next_obs.numpy(), strict=True):
        assert (obs.astype(dtype).tobytes(), after.astype(dtype).tobytes()) in pairs


def test_an_evaluation_is_asked_for_once() -> None:
    made = phased("sac", {"hooks": ["evaluate", "collect"]})
    take(made)
    assert made.data.clock.evaluate_now
    take(made)
    assert not made.data.clock.evaluate_now


def test_a_rollout_is_learned_from_once() -> None:
    made = phased("ppo-discrete", {"hooks": ["collect", "update", "collect"]})
    blocks = [take(made) for _ in range(3)]
    assert [block.updates for block in blocks] == [0, 1, 0]
    assert blocks[1].batches[0].obs.shape[:2] == (16, 8)


def test_the_rule_sees_its_phase() -> None:
    made = phased("sac", {"cycles": 2, "horizon": 7, "extra": {"weight": 3}, "hooks": ["collect"]})
    view = take(made).phase
    assert view.phase.horizon == 7 and view.phase.extra == {"weight": 3}
    assert view.progress == 0.0
    assert take(made).phase.progress == 0.5


def test_an_unknown_role_is_refused() -> None:
    made = phased("sac", {"hooks": ["collect"], "controller": "teacher"})
    with pytest.raises(ConfigError, match="no controller 'teacher'; there are agent, random"):
        take(made)


def test_updates_end_with_the_budget() -> None:
    hooks = [{"name": "collect"}, {"name": "update", "count": 40}]
    made = phased("sac", {"hooks": hooks, "collect_steps": 20}, run=RunConfig(updates=3))
    assert made.turn() == []
    assert len(made.turn()) == 3
    assert made.data.clock.is_finished


def test_a_collect_ends_with_the_budget_and_goes_on_with_a_larger_one() -> None:
    made = phased(
        "sac", {"hooks": ["collect"], "collect_steps": 128, "cycles": 1}, run=RunConfig(env_steps=11)
    )
    schedule = made.data.clock
    take(made)
    assert schedule.env_step == 12 and schedule.is_finished and not schedule.phases.finished  # two envs
    schedule.run = RunConfig(env_steps=100_000)
    take(made)
    assert schedule.env_step == 256 and schedule.phases.finished


def test_a_rollout_is_whole_whatever_the_budget() -> None:
    made = phased("ppo-discrete", {}, run=RunConfig(env_steps=10))
    take(made)
    assert made.data.clock.env_step == 16 * 8
    made.data.clock.run = RunConfig(env_steps=1000)
    assert take(made).batches[0].obs.shape[:2] == (16, 8)


def test_a_rollout_is_learned_from_once_by_each_hook_whatever_its_count() -> None:
    made = phased("ppo-discrete", {"hooks": ["collect", {"name": "update", "count": 4}]})
    blocks = [take(made) for _ in range(4)]
    assert [block.updates for block in blocks] == [0, 1, 0, 1] and made.data.skips == 0
