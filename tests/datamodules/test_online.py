"""Turns of collecting and replaying: how many steps, how many updates, from which rows, at which epsilon."""

import math
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from contracts.case import env
from contracts.cases import BY_NAME
from contracts.harness import Taken, bare, fit

from rl_lightning.clock.run_clock import RunClock, RunConfig
from rl_lightning.envs.make import EnvConfig
from rl_lightning.errors import ConfigError
from rl_lightning.optim.schedules import Linear
from rl_lightning.replay import PrioritizedReplay, Replay

DQN, SAC = BY_NAME["dqn"], BY_NAME["sac"]


@pytest.mark.parametrize(
    ("num_envs", "ratio", "start", "every", "repeat"),
    [
        (1, 1.0, 20, 1, 1),
        (1, 0.3, 20, 1, 1),
        (3, 0.7, 20, 4, 1),  # 20 is no multiple of 3
        (4, 2.5, 0, 1, 1),
        (2, 0.25, 33, 7, 3),
        (1, 1.0, 0, 5, 1),
    ],
)
def test_updates_are_the_floor_of_ratio_times_steps(num_envs, ratio, start, every, repeat):
    """At the end of every block, however it was cut; also where nothing could be learned at first."""
    config = EnvConfig("rl/Counter-v0", action_repeat=repeat)
    shape = {"num_envs": num_envs, "utd_ratio": ratio, "learning_starts": start, "train_every": every}
    run = bare(
        DQN.but({"env": config, "batch_size": 2, "buffer": partial(Replay, capacity=50), **shape}),
        RunConfig(env_steps=10**5),
    )
    wide, schedule, before = num_envs * repeat, run.data.clock, 0
    for _ in range(25):
        updates = len(run.turn())
        assert (schedule.env_step - before) % wide == 0
        if before >= start:
            turn = math.ceil(every / wide) * wide
            turns = updates if ratio * turn == 1.0 else 1
            assert schedule.env_step - before == turns * turn
        before = schedule.env_step
        if len(run.data.buffer) >= 2 * num_envs:
            assert schedule.update == math.floor(ratio * max(0, schedule.env_step - start))


def test_turns_that_share_a_block_learn_what_turns_of_their_own_learn():
    """Collecting, learning, collecting ...: in one block or in many, the same weights and rows come out."""
    ends = []
    for turns in (1, 16):
        run = bare(
            SAC.but(
                {"learning_starts": 20, "batch_size": 4, "train_every": 1, "num_envs": 1, "utd_ratio": 1.0}
            ),
            RunConfig(env_steps=75, eval_every=30),
        )
        run.data.turns_per_block = turns
        while run.data.clock.env_step < 75:
            run.learn(run.data.next_block())
        ends.append((run.model.state_dict(), run.data.buffer.store.rows[:75].clone(), run.data.clock.update))
    assert ends[0][2] == ends[1][2] == 55
    assert all(torch.equal(a, b) for a, b in zip(ends[0][0].values(), ends[1][0].values(), strict=True))
    assert torch.equal(ends[0][1], ends[1][1])


def test_blocks_end_where_something_is_due():
    schedule = RunClock(RunConfig(env_steps=100, eval_every=30))
    ends = []
    while not schedule.is_finished:
        schedule.env_step += 2 * schedule.blocks_until_due(wide=2, most=8)
        ends.append(schedule.env_step)
    assert ends == [16, 30, 32, 48, 60, 64, 80, 90, 96, 100]


def test_the_count_holds_over_a_whole_fit_of_several_epochs():
    """Where a Lightning epoch ends no block is lost or fetched ahead."""
    case = DQN.but(
        {"num_envs": 1, "train_every": 1, "utd_ratio": 0.5, "learning_starts": 10, "batch_size": 2}
    )
    done = fit(case, RunConfig(env_steps=60, eval_every=7))
    assert done.data.clock.env_step == 60 and done.data.clock.update == 25
    assert done.trainer.current_epoch > 3


def test_the_prefill_is_random_and_learns_nothing():
    run = bare(DQN.but({"learning_starts": 50}))
    run.model.act = None  # asking the agent would fail
    while run.data.clock.env_step < 50:
        assert Taken(run.data.next_block()).updates == 0
    assert run.data.clock.env_step == 50


def test_a_block_is_ready_batches():
    run = bare(SAC)
    block = run.block()
    assert all(one.obs.shape == (32, 1) for one in block)
    batch = block.stacked
    assert batch.obs.shape == (block.updates, 32, 1) and batch.action.shape == (block.updates, 32, 1)
    assert batch.reward.shape == batch.terminated.shape == batch.discount.shape == (block.updates, 32)
    assert batch.mask is None
    assert set(batch.discount.unique().tolist()) == {0.5}


def test_epsilon_falls_with_env_steps_not_with_updates():
    """Whatever the update ratio: the share of random actions is that of the step it is drawn at."""
    budget = RunConfig(env_steps=500)
    for ratio in (0.1, 2.0):
        data = {
            "learning_starts": 100,
            "train_every": 25,
            "utd_ratio": ratio,
            "batch_size": 2,
            "num_envs": 1,
        }
        case = DQN.but(data, {"epsilon": 1.0, "epsilon_schedule": Linear(0.0, 0.5)})
        run = bare(case, budget)
        seen = []
        inner, spent = run.model.act, run.data.clock

        def act(*args, model=run.model, clock=spent, inner=inner, seen=seen):
            seen.append((clock.env_step, model.epsilon_schedule.value(model.epsilon, model.progress)))
            return inner(*args)

        run.model.act = act
        while run.data.clock.env_step < 350:
            run.learn(run.data.next_block())
        assert seen
        for step, epsilon in seen:
            assert epsilon == pytest.approx(max(0.0, 1.0 - step / 250)), step


def test_epsilon_is_the_share_of_random_actions():
    run = bare(DQN)
    obs = torch.eye(4).repeat(2000, 1)
    greedy, _ = run.model.act(obs, (), None)
    run.model.epsilon_schedule, run.model.epsilon = Linear(0.0), 0.4
    for progress, share in ((0.0, 0.4), (0.5, 0.2), (1.0, 0.0)):
        run.model.clock.progress = progress
        action, _ = run.model.act(obs, (), torch.Generator().manual_seed(0))
        assert (action != greedy).float().mean().item() == pytest.approx(share * 3 / 4, abs=0.02)


def test_errors_of_a_batch_become_the_priorities_of_its_rows():
    run = bare(BY_NAME["dqn-dueling-n-step-prioritized"])
    block = run.block()
    buffer = run.data.buffer
    before = buffer.tree.sums.copy()
    block.update_priorities = run.data.update_priorities
    run.learn(block)
    leaves = buffer.tree.sums[buffer.tree.leaves :]
    changed = (leaves != before[buffer.tree.leaves :]).nonzero()[0].tolist()
    assert set(changed) == set(block.stacked.index.flatten().tolist())
    assert buffer.progress == run.data.clock.progress


@pytest.mark.parametrize("name", ["sac", "sac-discrete"])
def test_every_off_policy_rule_tells_how_wrong_it_was(name):
    """Else prioritized replay would quietly be uniform."""
    run = bare(BY_NAME[name].but({"buffer": partial(PrioritizedReplay, capacity=500)}))
    before = run.data.buffer
    block = run.block()
    equal = before.tree.sums.copy()
    block.update_priorities = run.data.update_priorities
    run.learn(block)
    assert (run.data.buffer.tree.sums != equal).any()


def test_beta_rises_to_one_with_the_run():
    run = bare(DQN.but({"buffer": partial(PrioritizedReplay, capacity=500)}), RunConfig(env_steps=200))
    while not run.data.clock.is_finished:
        run.learn(run.data.next_block())
    run.data.clock.begin_block()
    list(run.data.batches())  # what a larger budget would continue with
    assert run.data.buffer.progress == 1.0


def test_wrong_numbers_are_named():
    for key, value in (("batch_size", 0), ("train_every", 0), ("utd_ratio", -1.0), ("num_envs", 0)):
        with pytest.raises(ConfigError, match=key):
            DQN.but({key: value}).data()


@pytest.mark.parametrize("name", ["dqn", "dqn-pixels", "sac"])
def test_blocks_of_one_seed_are_the_same_and_of_ranks_are_not(name):
    blocks = []
    for rank in (0, 0, 1):
        run = bare(BY_NAME[name])
        run.data.teardown("fit")
        run.data.trainer = SimpleNamespace(global_rank=rank, world_size=1)
        run.data.open("fit")
        run.data.draw = run.data.generator("replay")
        blocks.append(run.block().stacked)
    assert torch.equal(blocks[0].obs, blocks[1].obs) and torch.equal(blocks[0].action, blocks[1].action)
    assert not torch.equal(blocks[0].action, blocks[2].action)


def test_actions_reach_the_env_rescaled():
    """Target's bounds are [-2, 2]: the agent's 1 is the env's 2."""
    data = BY_NAME["sac"].data()
    assert data.spec.action_low == (-2.0,) and data.spec.action_high == (2.0,)
    pendulum = BY_NAME["sac"].but({"env": env("Pendulum-v1")}).data()
    assert pendulum.spec.action_high == (2.0,)
