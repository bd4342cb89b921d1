"""Turns of collecting and replaying windows: how many steps, how many updates, and which hook learns."""

import math
from functools import partial

import pytest
import torch
from contracts.case import Case
from contracts.harness import bare
from torch import nn

from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.clock.phases import PhaseCursor, parse_phases
from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.datamodules import SequenceData
from rl_lightning.envs.make import EnvConfig
from rl_lightning.errors import ConfigError
from rl_lightning.replay import PrioritizedWindows, SequenceReplay
from rl_lightning.replay.segments import SegmentStore


class Remembers(PolicyModule):
    """Sums what it saw in its carry, and learns one number; says what each window and row was worth."""

    def __init__(self, spec):
        super().__init__(spec)
        self.number = nn.Parameter(torch.zeros(()))
        self.seen, self.calls = [], []

    def initial_carry(self, count):
        return (torch.zeros(count, 2), torch.zeros(count, 1))

    def act(self, obs, carry, generator, mask=None):
        sums, steps = carry
        action = torch.randint(2, (len(obs),), generator=generator)
        return action, (sums + obs, steps + 1)

    def update(self, batch):
        self.seen.append(batch)
        self.step(self.raw_optimizers()[0], (self.number - batch.reward.mean()).square())
        states = torch.cat((batch.obs.cumsum(1), torch.ones(*batch.reward.shape, 1)), -1)
        return {"train/x": self.number, "priority": batch.reward.mean(1), "latent": states}

    def update_world_model(self, batch):
        self.calls.append("world_model")
        return self.update(batch)

    def update_controller(self, batch):
        self.calls.append("controller")
        return self.update(batch)

    def act_seed(self, obs, carry, generator, mask=None):
        return torch.ones(len(obs), dtype=torch.int64), carry

    def configure_optimizers(self):
        return [torch.optim.SGD([self.number], 0.1)]


def counter(**env):
    return EnvConfig("rl/Counter-v0", {"episode_length": 9, "jitter": 3}, **env)


def case(**data) -> Case:
    fields = {
        "batch_size": 2,
        "sequence_length": 4,
        "buffer": partial(SequenceReplay, capacity=200),
        "learning_starts": 24,
        **data,
    }
    return Case("sequences", partial(SequenceData, **{"env": counter(), **fields}), Remembers)


@pytest.mark.parametrize(
    ("num_envs", "ratio", "start", "every", "repeat", "pretrain"),
    [(1, 8.0, 20, 1, 1, 0), (3, 5.0, 20, 4, 1, 7), (2, 0.7, 33, 7, 3, 0), (4, 40.0, 40, 1, 1, 3)],
)
def test_updates_follow_the_train_ratio(num_envs, ratio, start, every, repeat, pretrain):
    """T12: floor(ratio * agent steps / (B * L)), whatever the repeat, the vector and the turns."""
    shape = {"num_envs": num_envs, "train_ratio": ratio, "learning_starts": start, "train_every": every}
    run = bare(case(env=counter(action_repeat=repeat), pretrain=pretrain, **shape))
    schedule = run.data.clock
    for _ in range(60):
        run.learn(run.data.next_block())
        if schedule.env_step >= start and run.data.buffer.ready:
            due = math.floor(ratio * (schedule.env_step - start) / repeat / 8) + pretrain
            assert schedule.update == due
    assert schedule.update > pretrain


def test_each_batch_is_drawn_when_it_is_wanted():
    """A priority that the update before set counts for the next draw, also within one block."""
    run = bare(
        case(
            train_ratio=400.0,
            buffer=partial(SequenceReplay, capacity=200, windows=partial(PrioritizedWindows, alpha=1.0)),
        )
    )
    sums = []
    while not sums:
        block = run.data.next_block()
        block.watch(lambda batch: sums.append(run.data.buffer.window_sampler.tree.sums.copy()))
        run.learn(block)
    assert len(sums) > 3
    assert (sums[1] != sums[0]).any()
    assert all(b.obs.shape == (2, 4, 2) and b.weight.shape == (2,) for b in run.model.seen)


def test_burn_in_lengthens_windows_and_is_told():
    run = bare(case(burn_in=3))
    run.learn(run.block())
    batch = run.model.seen[0]
    assert batch.obs.shape == (2, 7, 2) and batch.burn_in == 3


def test_stored_states_come_back_with_the_windows():
    """Prefill has none; after it a row arrives with what the actor had summed until then."""
    run = bare(case(store_latents=True, train_ratio=0.1, num_envs=2))
    for _ in range(20):
        list(run.data.next_block())
    buffer = run.data.buffer
    for index in buffer.all_windows()[::7]:
        window = buffer.gather(index[None])
        episode, t = window.obs[0, 0].tolist()
        sums, steps = window.latent[0, :2].tolist(), window.latent[0, 2].item()
        if window.is_first[0, 0]:
            assert sums == [0, 0] and steps == 0
        elif steps == t:  # the actor was there from the episode's start
            assert sums == [episode * t, t * (t - 1) / 2]
    assert buffer.latent[..., 2].max() > 3
    run.learn(run.block())
    assert run.data.buffer.latent.shape[-1] == 3


def test_phases_as_in_the_lab():
    """Collect at random, then the world model alone, then both in turn; roles and named buffers are the phase's."""
    run = bare(case(num_envs=2))
    entries = [
        {"name": "seed", "env_steps": 20, "hooks": ["collect"], "controller": "seed", "collect_steps": 5},
        {"name": "model", "type": "offline", "updates": 3, "hooks": ["update_world_model"]},
        {"name": "joint", "env_steps": 8, "hooks": ["collect", "update_world_model", "update_controller"]},
    ]
    run.data.clock.phases = cursor = PhaseCursor(parse_phases(entries, Remembers.update_hooks()))
    names = []
    while not cursor.finished:
        names.append(cursor.phase.name)
        run.learn(run.data.next_block())
    assert names == ["seed"] * 2 + ["model"] * 3 + ["joint"] * 10  # the last collect ends the phase
    assert run.model.calls == ["world_model"] * 3 + ["world_model", "controller"] * 3
    buffer = run.data.buffer
    played = buffer.action[:, : min(buffer.total)][
        ~(buffer.truncated | buffer.terminated)[:, : min(buffer.total)]
    ]
    assert (played[:8] == 1).all()


def test_time_that_went_into_another_buffer_is_a_gap(tmp_path):
    """Two buffers are filled in turn within one episode: what follows a switch begins a sequence, also resumed."""
    make = case(num_envs=2, env=EnvConfig("rl/Counter-v0", {"episode_length": 1000}), store_latents=True)
    entries = [
        {"buffer": name, "cycles": 2, "hooks": ["collect"], "collect_steps": 2}
        for name in ("replay", "other", "replay", "other", "other", "replay")
    ]

    def phased():
        run = bare(make)
        run.data.clock.phases = PhaseCursor(parse_phases(entries, Remembers.update_hooks()))
        return run

    run = phased()
    for _ in entries * 2:
        state = run.data.save(SegmentStore(tmp_path))
        run = phased()
        run.data.load(state, SegmentStore(tmp_path))
        list(run.data.next_block())
    for name, begins in (("replay", [0, 8, 20]), ("other", [4, 12])):
        buffer = run.data.named(name)
        times = buffer.obs[0, : buffer.total[0], 1].long()
        first = buffer.is_first[0, : buffer.total[0]]
        assert times[first].tolist() == begins
        assert (times.diff() == 1)[~first[1:]].all()
        assert not buffer.latent[0, : buffer.total[0]][first].any()
        assert buffer.truncated[0, : buffer.total[0] - 1].tolist() == first[1:].tolist()


def test_saved_and_loaded_it_goes_on_exactly(tmp_path):
    """T10 for the data alone: the same blocks, the same windows."""
    make = case(
        train_ratio=16.0,
        num_envs=2,
        store_latents=True,
        buffer=partial(SequenceReplay, capacity=60, windows=PrioritizedWindows),
    )
    one = bare(make)
    for _ in range(15):
        one.learn(one.data.next_block())
    store = SegmentStore(tmp_path)
    state = one.data.save(store)
    two = bare(make)
    two.data.load(state, SegmentStore(tmp_path))
    two.model.load_state_dict(one.model.state_dict())
    for _ in range(25):
        for run in (one, two):
            run.learn(run.data.next_block())
    ours, theirs = one.model.seen[-40:], two.model.seen[-40:]
    assert len(ours) == len(theirs) == 40
    for a, b in zip(ours, theirs, strict=True):
        assert all(torch.equal(x, y) for x, y in zip(a[:9], b[:9], strict=True))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"sequence_length": 1}, "sequence_length"),
        ({"train_ratio": 0.0}, "train_ratio"),
        ({"burn_in": -1}, "burn_in"),
    ],
)
def test_senseless_numbers_are_refused(wrong, said):
    with pytest.raises(ConfigError, match=said):
        bare(case(**wrong))


def test_a_run_that_ends_before_its_first_window_is_refused():
    with pytest.raises(ConfigError, match=r"windows have 64 rows"):
        bare(case(sequence_length=64, num_envs=2), RunConfig(env_steps=100))


def test_pretraining_goes_in_parts_and_collects_nothing_meanwhile():
    """Metrics, checkpoints and a stop come between; a run that is stopped there goes on in the middle."""
    run = bare(case(pretrain=250, train_ratio=1.0))
    seen = []
    while run.data.clock.update < 250:
        run.learn(run.data.next_block())
        seen.append((run.data.clock.env_step, run.data.clock.update))
    parts = [clocks for clocks in seen if clocks[1]]
    assert [update for _, update in parts] == [100, 200, 250] and len(
        {env_step for env_step, _ in parts}
    ) == 1
