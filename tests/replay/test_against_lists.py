"""Both stores against lists, on random episodes: every row that can be drawn is one that happened."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from replay.naive import Player, Row, pixel_spec, vector_spec

from rl_lightning.replay.frames.frame_buffer import FrameBuffer
from rl_lightning.replay.prioritized import PrioritizedReplay
from rl_lightning.replay.ring import RingBuffer
from rl_lightning.types import Transitions

GAMMA = 0.9
chunks = st.lists(st.integers(1, 9), min_size=1, max_size=6)


def known(player: Player, buffer, env: int) -> int:
    """The newest row of an env that n-step sums may use: a stored frame must follow it."""
    newest = len(player.rows[env]) - 1
    whole = not isinstance(buffer, FrameBuffer) or player.rows[env][newest].done
    return newest if whole else newest - 1


def check(player: Player, buffer, rows: Transitions, first: Transitions, n_step: int) -> None:
    """Every drawn row is the one that its (one-step) reward names."""
    for i, name in enumerate(first.reward.tolist()):
        env, index = player.find(name)
        row = player.rows[env][index]
        total, discount, last = player.n_step(env, index, n_step, GAMMA, known(player, buffer, env))
        np.testing.assert_array_equal(rows.obs[i].numpy(), row.obs)
        np.testing.assert_array_equal(rows.next_obs[i].numpy(), last.next_obs)
        assert rows.action[i].item() == row.action
        assert rows.terminated[i].item() == last.terminated
        assert rows.reward[i].item() == pytest.approx(total, rel=1e-5)
        assert rows.discount[i].item() == pytest.approx(discount, rel=1e-5)
        if player.spec.action_mask:
            np.testing.assert_array_equal(rows.mask[i].numpy(), row.mask)
            np.testing.assert_array_equal(rows.next_mask[i].numpy(), last.next_mask)


@given(st.integers(0, 999), st.integers(1, 3), st.integers(4, 20), chunks, st.integers(1, 4), st.booleans())
def test_ring_holds_the_newest_rows_in_order(seed, num_envs, per_env, lengths, n_step, masked):
    player = Player(vector_spec(action_mask=masked), num_envs, seed)
    buffer = RingBuffer(player.spec, num_envs, per_env * num_envs)
    for steps in lengths:
        buffer.add(player.play(steps))
        everything = torch.arange(len(buffer))
        one = buffer.gather(everything, 1, GAMMA)
        newest = sorted(row.reward for rows in player.rows for row in rows)[-buffer.capacity :]
        assert sorted(one.reward.tolist()) == newest
        check(player, buffer, buffer.gather(everything, n_step, GAMMA), one, n_step)


def drawable(player: Player, env: int, buffer: FrameBuffer) -> set[float]:
    """Rows whose frames are all in the ring: the stack, the observation itself and the next one."""
    newest = player.slots[env] - 1
    oldest = max(0, player.slots[env] - buffer.length)
    frames = player.spec.num_stack

    def whole(row: Row) -> bool:
        return row.slot - min(row.age, frames - 1) >= oldest and row.slot < newest

    return {row.reward for row in player.rows[env] if whole(row)}


@given(
    st.integers(0, 999), st.integers(1, 2), st.integers(1, 4), st.integers(24, 40), chunks, st.integers(1, 4)
)
def test_frames_give_what_stacking_in_the_env_gives(seed, num_envs, frames, per_env, lengths, n_step):
    player = Player(pixel_spec(frames, action_mask=bool(seed % 2)), num_envs, seed)
    buffer = FrameBuffer(player.spec, num_envs, per_env * num_envs)
    for steps in lengths:
        buffer.add(player.play(steps))
        index = torch.arange(buffer.capacity)
        index = index[buffer.valid(index)]
        one = buffer.gather(index, 1, GAMMA)
        expected = set().union(*(drawable(player, env, buffer) for env in range(num_envs)))
        assert set(one.reward.tolist()) == expected
        assert one.obs.dtype == torch.uint8
        check(player, buffer, buffer.gather(index, n_step, GAMMA), one, n_step)


@pytest.mark.parametrize("make", [RingBuffer, FrameBuffer])
def test_more_than_the_ring_holds_at_once_leaves_the_newest(make):
    spec = pixel_spec(2) if make is FrameBuffer else vector_spec()
    player = Player(spec, 2, seed=0)
    buffer = make(spec, 2, 20)
    buffer.add(player.play(35))
    sample = buffer.sample(200, torch.Generator().manual_seed(0), 1, GAMMA)
    check(player, buffer, sample, sample, 1)
    assert min(sample.reward) >= 2 * 22, "older rows than the ring can hold"


@given(st.integers(0, 999), st.integers(1, 2), st.integers(1, 3), chunks)
def test_exactly_the_drawable_rows_have_a_priority(seed, num_envs, frames, lengths):
    player = Player(pixel_spec(frames), num_envs, seed)
    buffer = PrioritizedReplay(player.spec, num_envs, 12 * num_envs, alpha=1.0, beta=0.4, eps=0.0)
    rng, mine = np.random.default_rng(seed), {}  # reward (the row's name) -> priority
    for steps in lengths:
        before = set().union(*(drawable(player, env, buffer.store) for env in range(num_envs)))
        buffer.add(player.play(steps))
        now = set().union(*(drawable(player, env, buffer.store) for env in range(num_envs)))
        mine = {name: mine[name] if name in before else buffer.largest for name in now}
        leaves = torch.from_numpy(buffer.tree.sums[buffer.tree.leaves :][: buffer.capacity])
        live = leaves.nonzero()[:, 0]
        names = buffer.store.gather(live, 1, GAMMA).reward.tolist()
        assert dict(zip(names, leaves[live].tolist(), strict=True)) == pytest.approx(mine)
        if len(live):
            fresh = torch.from_numpy(rng.random(len(live))) + 0.5
            buffer.set_priorities(live, fresh)
            mine = dict(zip(names, fresh.tolist(), strict=True))
