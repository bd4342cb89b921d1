"""An epoch is planned: it has as many blocks as it takes to the next evaluation, and where a block is cut nothing is
lost."""

from functools import cache, partial
from typing import Any

import pytest
import torch
from contracts.artifacts import FOLDER, dynamics_artifact, target_file
from contracts.case import Case
from contracts.cases import BY_NAME
from contracts.harness import Bare, bare, fit
from datamodules.test_sequences import case as sequences
from lightning.pytorch import Callback

from rl_lightning.callbacks import MetricsLogger
from rl_lightning.clock.phases import PhaseCursor, parse_phases
from rl_lightning.clock.run_clock import Limits, RunConfig
from rl_lightning.datamodules import ModelRolloutData
from rl_lightning.envs.termination import NoTermination
from rl_lightning.replay.segments import SegmentStore

PPO, DQN, SAC = (BY_NAME[name] for name in ("ppo-discrete", "dqn", "sac"))
IQL = BY_NAME["iql"]
ONE_EACH = {"num_envs": 1, "train_every": 1, "utd_ratio": 1.0, "batch_size": 4}
SEVERAL = {"num_envs": 1, "train_every": 256, "utd_ratio": 0.5, "batch_size": 4}  # 128 updates


@cache
def imagined() -> Case:
    """Blocks of 4 updates that never pass a rollout, of which there is one every 10."""
    fields = {
        "rollout_length": 2,
        "rollout_batch_size": 20,
        "rollout_freq": 10,
        "termination": NoTermination(),
    }
    data = partial(
        ModelRolloutData,
        target_file(FOLDER / "planned.npz"),
        dynamics_artifact(FOLDER / "planned-model"),
        batch_size=8,
        updates_per_block=4,
        **fields,
    )
    return Case("imagined", data, SAC.model)


CASES: dict[str, tuple[Case, int]] = {
    "rollouts": (PPO, 300),
    "rollouts that end there": (PPO, 256),
    "one rollout is more than an epoch": (PPO, 100),
    "an update per step": (SAC.but({**ONE_EACH, "learning_starts": 20}), 50),
    "an update per step, starts on an edge": (SAC.but({**ONE_EACH, "learning_starts": 50}), 50),
    "an update per step, starts in the second epoch": (SAC.but({**ONE_EACH, "learning_starts": 75}), 50),
    "an update per step of two envs": (
        SAC.but({**ONE_EACH, "num_envs": 2, "utd_ratio": 0.5, "learning_starts": 33}),
        50,
    ),
    "128 updates after 256 steps": (DQN.but({**SEVERAL, "learning_starts": 256}), 1000),
    "128 updates after 256 steps, starts within": (DQN.but({**SEVERAL, "learning_starts": 700}), 1000),
    "less than an update per turn": (
        DQN.but({"num_envs": 3, "train_every": 4, "utd_ratio": 0.1, "learning_starts": 20}),
        70,
    ),
    "long prefill": (DQN.but({**ONE_EACH, "learning_starts": 2500}), 2600),
    "windows": (sequences(train_ratio=8.0), 40),
    "windows of three envs": (sequences(num_envs=3, train_ratio=5.0, train_every=4, learning_starts=20), 40),
    "windows, pretrained": (sequences(pretrain=250, train_ratio=4.0), 40),
    "windows, prefill in the second epoch": (
        sequences(pretrain=120, train_ratio=4.0, learning_starts=60),
        40,
    ),
    "rows": (IQL, 50),
    "rows and rollouts of a model": (imagined(), 25),
}
every = pytest.mark.parametrize(("case", "period"), CASES.values(), ids=CASES)


def begun(case: Case, period: int | None, marks: tuple[int, ...] = (), phases: Any = None) -> Bare:
    run = bare(case, RunConfig(eval_every=period))
    run.data.clock.limits = Limits(marks=marks)
    if phases is not None:
        run.data.clock.phases = PhaseCursor(parse_phases(phases, run.model.update_hooks()))
    return run


def blocks_until_due(run: Bare) -> int:
    """Blocks after which an evaluation is due, none of them told to be the last."""
    for count in range(1, 10_000):
        run.turn()
        if run.data.clock.epoch_over:
            return count
    raise AssertionError("no evaluation became due")


@every
@pytest.mark.parametrize("marks", [(), (7,)], ids=["uncut", "cut every 7 updates"])
def test_an_epoch_has_as_many_blocks_as_its_evaluation_is_away(case, period, marks):
    run = begun(case, period, marks)
    schedule = run.data.clock
    for epoch in range(3):
        planned = len(run.data.train_dataloader())
        assert planned == blocks_until_due(run), f"epoch {epoch}"
        assert schedule.now // period == (schedule.target // period), "not past the next one"
        schedule.end_epoch()


@every
def test_planning_changes_nothing(case, period):
    run = begun(case, period)
    run.data.train_dataloader()
    for _ in range(4):
        before = run.data.clock.state_dict()
        assert run.data.plan_epoch() == run.data.plan_epoch()
        assert run.data.clock.state_dict() == before
        run.turn()


@every
def test_the_rest_of_an_epoch_is_what_was_planned_less_what_was_done(case, period):
    """As a resumed fit plans it."""
    run = begun(case, period)
    planned = len(run.data.train_dataloader())
    for done in range(1, min(planned, 12)):
        run.turn()
        assert run.data.plan_epoch() == planned - done


@pytest.mark.parametrize("case", [SAC.but({**ONE_EACH, "learning_starts": 0}), sequences(learning_starts=0)])
def test_the_last_block_of_an_epoch_lasts_until_its_evaluation(case):
    """Where a buffer is not ready the clocks alone do not tell; the evaluation comes on time all the same."""
    run = begun(case, 40)
    for epoch in range(3):
        for block in run.data.train_dataloader():
            assert not run.data.clock.epoch_over
            run.learn(block)
        assert run.data.clock.now == 40 * (epoch + 1)
        run.data.clock.end_epoch()


PHASES = {
    "collect, update, evaluate": [
        {"hooks": ["collect", {"name": "update", "count": 3}, "evaluate"], "collect_steps": 20}
    ],
    "now and then": [
        {
            "hooks": [
                "collect",
                {"name": "update", "count": 3},
                {"name": "evaluate", "every": 3, "after_updates": 10},
            ],
            "collect_steps": 20,
        }
    ],
    "in the second phase": [
        {"name": "fill", "env_steps": 100, "hooks": ["collect"], "collect_steps": 20},
        {
            "name": "learn",
            "type": "offline",
            "updates": 30,
            "hooks": [{"name": "update", "count": 7}, "evaluate"],
        },
    ],
}


@pytest.mark.parametrize("phases", PHASES.values(), ids=PHASES)
@pytest.mark.parametrize("marks", [(), (5,)], ids=["uncut", "cut every 5 updates"])
@pytest.mark.parametrize("period", [None, 200], ids=["hook alone", "hook and cadence"])
def test_an_epoch_of_phases_ends_with_the_hook_that_evaluates(phases, marks, period):
    run = begun(SAC, period, marks, phases)
    schedule = run.data.clock
    for epoch in range(3):
        planned = len(run.data.train_dataloader())
        assert planned == blocks_until_due(run), f"epoch {epoch}"
        schedule.end_epoch()
    assert schedule.update > 0


def test_a_phase_whose_data_cut_its_hooks_is_planned_as_it_is_cut():
    """25 updates are three blocks here: none passes a rollout of the model, of which there is one every 10."""
    run = begun(
        imagined(), None, (), [{"type": "offline", "hooks": [{"name": "update", "count": 25}, "evaluate"]}]
    )
    for epoch in range(3):
        planned = len(run.data.train_dataloader())
        assert planned == blocks_until_due(run), f"epoch {epoch}"
        run.data.clock.end_epoch()


@pytest.mark.parametrize(
    ("case", "phase"),
    [
        (SAC, {"type": "offline", "hooks": ["update"]}),
        (IQL, {"hooks": ["collect"]}),
    ],
    ids=["the clock stands still", "there is nothing to collect"],
)
def test_a_phase_that_never_reaches_the_evaluation_can_be_planned(case, phase):
    """A budget of updates or of time ends such a run, or an error when its hook is due."""
    run = begun(case, 1000, phases=[phase])
    asked, inner = [], run.data._foresee

    def foresee(clock):
        asked.append(clock.now)
        assert len(asked) < 100_000, "planning does not end"
        return inner(clock)

    run.data._foresee = foresee
    assert len(run.data.train_dataloader()) >= 1


class Lengths(Callback):
    """Where every block of a fit ended, by epoch, and how many were planned."""

    def __init__(self) -> None:
        self.planned: dict[int, int] = {}
        self.ends: dict[int, list[int]] = {}

    def on_train_batch_end(self, trainer, pl_module, *args):
        self.planned[trainer.current_epoch] = trainer.num_training_batches
        self.ends.setdefault(trainer.current_epoch, []).append(trainer.datamodule.clock.env_step)


def test_the_first_epoch_of_a_fit_knows_of_the_metrics_too():
    """Blocks end where metrics are emitted: an epoch planned without that would make up for it in its last block."""
    lengths = Lengths()
    case = SAC.but({**ONE_EACH, "learning_starts": 20})
    fit(case, RunConfig(env_steps=200, eval_every=100), callbacks=[MetricsLogger(10), lengths])
    for epoch, ends in lengths.ends.items():
        assert lengths.planned[epoch] == len(ends)
        assert set(range(100 * epoch + 30, 100 * epoch + 101, 10)) <= set(ends), epoch


# ------------------------------------------------------------------------------------------- where a gather is cut
CUT = {
    "rows": IQL.but({"updates_per_block": 8}),
    "128 updates after 256 steps": DQN.but({**SEVERAL, "learning_starts": 64}),
    "an update per step": SAC.but({**ONE_EACH, "learning_starts": 20}),
    "windows": sequences(train_ratio=60.0, train_every=8),
}
cut = pytest.mark.parametrize("name", CUT)


def batches_of(run: Bare, updates: int) -> list[Any]:
    """All batches up to a number of updates, and where the blocks that had them ended."""
    seen: list[Any] = []
    while run.data.clock.update < updates:
        seen += list(run.data.next_block())
    return seen


def assert_alike(ours: list[Any], theirs: list[Any]) -> None:
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        for x, y in zip(a, b, strict=True):
            assert torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y


@cut
def test_a_gather_that_a_mark_cuts_goes_on_with_the_same_batches(name):
    case = CUT[name]
    whole, parts = begun(case, None), begun(case, None, marks=(5, 12))
    expected = batches_of(whole, 150)
    ends, found = [], []
    while parts.data.clock.update < 150:
        found += list(parts.data.next_block())
        ends.append(parts.data.clock.update)
    assert {mark for every in (5, 12) for mark in range(every, 151, every)} <= set(ends)
    assert_alike(found[:150], expected[:150])


@cut
def test_a_gather_that_a_limit_cuts_goes_on_once_there_is_none(name):
    case = CUT[name]
    whole, parts = begun(case, None), begun(case, None)
    expected = batches_of(whole, 60)
    parts.data.clock.limits = Limits(updates=13)
    found = batches_of(parts, 13)
    assert parts.data.clock.update == len(found) == 13
    parts.data.clock.limits = Limits()
    found += batches_of(parts, 60)
    assert_alike(found[:60], expected[:60])


@cut
def test_what_is_left_of_a_gather_is_saved(name, tmp_path):
    case = CUT[name]
    whole, parts = begun(case, None), begun(case, None, marks=(5, 12))
    expected = batches_of(whole, 60)
    found, waited = [], False
    while parts.data.clock.update < 60:
        found += list(parts.data.next_block())
        waited |= parts.data.pending is not None
        state = parts.data.save(SegmentStore(tmp_path))
        parts = begun(case, None, marks=(5, 12))
        parts.data.load(state, SegmentStore(tmp_path))
    assert waited == (name in ("rows", "128 updates after 256 steps")), "the others gather one by one"
    assert_alike(found[:60], expected[:60])


def test_an_epoch_begins_with_what_is_left_of_a_gather():
    """The evaluation of DQN here is due in the middle of 128 updates that a mark has cut."""
    run = begun(CUT["128 updates after 256 steps"], 320, marks=(50,))
    for _ in range(3):
        planned = len(run.data.train_dataloader())
        assert planned == blocks_until_due(run)
        run.data.clock.end_epoch()
    assert run.data.pending is None or len(run.data.pending[0]) < 128
