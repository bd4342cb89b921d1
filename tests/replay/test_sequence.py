"""Windows of arrival rows against plain lists: nothing crosses the write head, nothing is paired wrongly."""

import gc
from functools import partial
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from replay.naive import Player, pixel_spec, vector_spec

from rl_lightning.behaviors.random_actor import random_actor
from rl_lightning.envs.make import EnvConfig, make_envs
from rl_lightning.errors import ConfigError, DataError
from rl_lightning.replay import (
    EpisodeWindows,
    PrioritizedWindows,
    RecentWindows,
    SequenceReplay,
    UniformWindows,
)
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.replay.sequence import row_bytes
from rl_lightning.rollout.collect import Collector

WAYS = [UniformWindows, partial(RecentWindows, half_life=5), PrioritizedWindows]


def arrivals(player: Player, env: int) -> list[tuple]:
    """All rows of an env as (obs, action, reward, terminated, truncated, is_first)."""
    rows, owed = [], 0.0
    for row in player.rows[env]:
        first = row.age == 0
        rows.append((row.obs, row.action, 0.0 if first else owed, False, False, first))
        owed = row.reward
        if row.done:
            rows.append((row.next_obs, 0, row.reward, row.terminated, row.truncated, False))
    return rows


def same(found, wanted) -> bool:
    obs, action, reward, terminated, truncated, is_first = wanted
    return (
        np.array_equal(found.obs.numpy(), obs)
        and found.action.item() == action
        and found.reward.item() == pytest.approx(reward)
        and bool(found.terminated) == terminated
        and bool(found.truncated) == truncated
        and bool(found.is_first) == is_first
    )


def row(batch, b, t):
    return SimpleNamespace(**{k: v[b, t] for k, v in batch._asdict().items() if k in batch._fields[:6]})


@settings(max_examples=60, deadline=None)
@given(
    num_envs=st.integers(1, 3),
    length=st.integers(2, 6),
    ring=st.integers(7, 23),
    adds=st.lists(st.integers(1, 30), min_size=1, max_size=5),
    within=st.booleans(),
    way=st.sampled_from(WAYS),
    pixels=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_every_window_is_what_happened(num_envs, length, ring, adds, within, way, pixels, seed):
    """T1, T2, T5, T7, T8: all rows in order, of one env, none across the head, ends as they were."""
    spec = pixel_spec(1) if pixels else vector_spec()
    player = Player(spec, num_envs, seed, end=0.15)
    buffer = SequenceReplay(
        spec, num_envs, length, 0, capacity=ring * num_envs, windows=way, within_episode=within
    )
    generator = torch.Generator().manual_seed(seed)
    for steps in adds:
        played = player.play(steps)
        buffer.add(played)
        for field in (played.obs, played.reward):
            field[...] = 0  # what an env does with its arrays later must not matter
        known = [arrivals(player, n) for n in range(num_envs)]
        assert buffer.total == [len(rows) for rows in known]
        windows = {
            (n, end)
            for n, rows in enumerate(known)
            for end in range(max(0, len(rows) - ring) + length - 1, len(rows))
            if not (within and any(rows[k][5] for k in range(end - length + 2, end + 1)))
        }
        assert buffer.ready == bool(windows)
        listed = {(int(i) // ring, int(i) % ring) for i in buffer.all_windows()}
        assert listed == {(n, end % ring) for n, end in windows}
        if not windows:
            continue
        batch = buffer.sample(12, generator)
        for b, index in enumerate(batch.index.tolist()):
            n, slot = divmod(index, ring)
            (end,) = [e for m, e in windows if m == n and e % ring == slot]
            for t in range(length):
                assert same(row(batch, b, t), known[n][end - length + 1 + t])


@pytest.mark.parametrize("within", [False, True])
def test_uniform_drawing_is_uniform(within):
    spec, generator = vector_spec(), torch.Generator().manual_seed(1)
    player = Player(spec, 2, 3, end=0.1)
    buffer = SequenceReplay(spec, 2, 4, 0, capacity=60, within_episode=within)
    buffer.add(player.play(50))
    windows = buffer.all_windows()
    drawn = buffer.window_sampler.sample(20_000, generator)[0]
    share = torch.bincount(drawn, minlength=60)[windows] / 20_000
    assert share.sum().item() == pytest.approx(1.0)
    assert (share - 1 / len(windows)).abs().max() < 4 * (1 / len(windows) / 20_000) ** 0.5


def test_recent_windows_halve_with_age():
    spec, generator = vector_spec(), torch.Generator().manual_seed(1)
    buffer = SequenceReplay(
        spec, 1, 2, 0, capacity=400, windows=partial(RecentWindows, half_life=20, recent_fraction=1.0)
    )
    buffer.add(Player(spec, 1, 0, end=0.0).play(300))
    back = (buffer.total[0] - 1 - buffer.window_sampler.sample(40_000, generator)[0]) % buffer.ring
    assert back.max() < 299
    near, far = (back < 20).sum().item(), ((back >= 20) & (back < 40)).sum().item()
    assert far / near == pytest.approx(0.5, abs=0.03)
    mixed = SequenceReplay(
        spec, 1, 2, 0, capacity=400, windows=partial(RecentWindows, half_life=1, recent_fraction=0.25)
    )
    mixed.add(Player(spec, 1, 0, end=0.0).play(300))
    back = (mixed.total[0] - 1 - mixed.window_sampler.sample(40_000, generator)[0]) % mixed.ring
    assert (back < 10).float().mean().item() == pytest.approx(0.25 + 0.75 * 10 / 299, abs=0.02)


def test_episodes_are_drawn_alike_however_long():
    """One of 40 rows and one of 10: half of the windows each."""
    spec, generator = vector_spec(), torch.Generator().manual_seed(0)
    buffer = SequenceReplay(spec, 1, 5, 0, capacity=200, windows=EpisodeWindows, within_episode=True)
    long, short = (Player(spec, 1, seed, end=0.0).play(steps) for seed, steps in ((0, 39), (1, 9)))
    for played in (long, short):
        played.truncated[-1] = True
        buffer.add(played._replace(ends=[(len(played.obs) - 1, 0, played.last_obs[0])]))
    drawn = buffer.window_sampler.sample(8000, generator)[0]
    assert (drawn < 40).float().mean().item() == pytest.approx(0.5, abs=0.03)
    assert drawn.unique().numel() == 36 + 6
    with pytest.raises(ConfigError, match="within_episode"):
        SequenceReplay(spec, 1, 5, 0, capacity=200, windows=EpisodeWindows)


def test_prioritized_windows_follow_their_priorities():
    spec, generator = vector_spec(), torch.Generator().manual_seed(0)
    buffer = SequenceReplay(
        spec, 1, 3, 0, capacity=20, windows=partial(PrioritizedWindows, alpha=1.0, beta=1.0, eps=0.0)
    )
    buffer.add(Player(spec, 1, 0, end=0.0).play(12))
    index = buffer.all_windows()
    assert index.tolist() == list(range(2, 12))
    worth = torch.arange(1.0, 11.0)
    buffer.set_priorities(index, worth)
    drawn, weight = buffer.window_sampler.sample(40_000, generator)
    share = torch.bincount(drawn, minlength=20)[index] / 40_000
    assert torch.allclose(share, worth / worth.sum(), atol=0.01)
    assert torch.allclose(weight * worth[drawn - 2], weight.new_tensor(1.0) * weight.max(), atol=1e-4)
    buffer.add(Player(spec, 1, 1, end=0.0).play(15))  # overwrites; stale priorities must be gone
    assert set(buffer.window_sampler.sample(2000, generator)[0].tolist()) <= set(
        buffer.all_windows().tolist()
    )


@pytest.mark.parametrize("disk", [False, True])
@pytest.mark.parametrize("way", WAYS, ids=lambda w: type(w).__name__)
def test_saved_and_loaded_it_goes_on_exactly(way, disk, tmp_path):
    """Segments, priorities, stored states, what is owed to the next row, and the broken-off episode."""
    spec = pixel_spec(1)
    recipe = partial(
        SequenceReplay, capacity=2 * 15, windows=way, memmap_dir=str(tmp_path / "rows") if disk else None
    )
    player, store = Player(spec, 2, 5, end=0.2), SegmentStore(tmp_path / "segments")
    buffer = recipe(spec, 2, 4, 3)
    rng = np.random.default_rng(0)
    for steps in (9, 5, 11):  # the ring is overwritten between saves
        buffer.add(player.play(steps), rng.random((steps, 2, 3)).astype(np.float32))
        state = buffer.save(store)
    buffer.end_episode(1)
    index = buffer.all_windows()[:3]
    buffer.set_priorities(index, torch.tensor([3.0, 0.5, 7.0]))
    buffer.set_latents(index, torch.rand(3, 4, 3))
    state = buffer.save(store)
    again, other = recipe(spec, 2, 4, 3), SegmentStore(tmp_path / "segments")
    again.load(state, other)
    more = player.play(6)
    latents = rng.random((6, 2, 3)).astype(np.float32)
    for each in (buffer, again):
        each.add(more, latents)
    one, two = (each.sample(64, torch.Generator().manual_seed(9)) for each in (buffer, again))
    for name in one._fields[:-1]:
        assert torch.equal(getattr(one, name), getattr(two, name)), name
    assert one.latent.abs().sum() > 0
    if disk:
        assert len(list((tmp_path / "rows").iterdir())) == 2
        del again, buffer, each
        gc.collect()
        assert not list((tmp_path / "rows").iterdir())  # a run leaves nothing there


def test_stored_states_belong_to_the_row_that_follows():
    """The state after a step is what the next row arrives with; an episode's first row arrives with none."""
    spec = vector_spec()
    buffer = SequenceReplay(spec, 1, 2, 1, capacity=40)
    player = Player(spec, 1, 0, end=0.3)
    mark = np.arange(1.0, 13.0, dtype=np.float32).reshape(12, 1, 1)
    for part in (slice(0, 5), slice(5, 12)):
        buffer.add(player.play(part.stop - part.start), mark[part])
    wanted, owed = [], 0.0
    for step, played in enumerate(player.rows[0]):
        wanted.append(0.0 if played.age == 0 else owed)
        owed = float(mark[step, 0, 0])
        if played.done:
            wanted.append(owed)
    assert buffer.latent[0, : len(wanted), 0].tolist() == wanted
    window = buffer.all_windows()[:1]
    buffer.set_latents(window, torch.full((1, 2, 1), 99.0))
    assert buffer.latent[0, 1, 0].item() == (0.0 if buffer.is_first[0, 1] else 99.0)


@pytest.mark.parametrize(("length", "limit"), [(None, 7), (5, 50), (9, 6)], ids=["cut", "ends", "either"])
def test_behind_a_real_collector(length, limit):
    """Counter's observation is (episode, t), its reward t + 1: rows of an episode count up, arrivals carry t."""
    config = EnvConfig("rl/Counter-v0", {"episode_length": length, "jitter": 3}, max_episode_steps=limit)
    envs = make_envs(config, 3, "sync")
    try:
        collector, act = Collector(envs, seed=5), random_actor(envs.env_spec)
        buffer = SequenceReplay(envs.env_spec, 3, 6, 0, capacity=90)
        explore = torch.Generator().manual_seed(0)
        for steps in (1, 9, 20, 13):
            buffer.add(collector.collect(act, steps, explore))
            if not buffer.ready:
                continue
            rows = buffer.sample(64, torch.Generator().manual_seed(1))
            (episode, t), first = rows.obs.unbind(-1), rows.is_first
            assert torch.equal(first, t == 0)
            assert torch.equal(rows.reward, t)
            assert torch.equal(first[:, 1:], episode[:, 1:] != episode[:, :-1])
            assert torch.equal(t[:, 1:][~first[:, 1:]], t[:, :-1][~first[:, 1:]] + 1)
            over = (rows.terminated + rows.truncated) > 0
            assert torch.equal(over[:, :-1], first[:, 1:])
            assert not rows.action[over].any()
    finally:
        envs.close()


def test_a_restart_breaks_the_episode_off():
    spec = vector_spec()
    buffer, player = SequenceReplay(spec, 1, 3, 0, capacity=40), Player(spec, 1, 0, end=0.0)
    buffer.add(player.play(5))
    buffer.end_episode(0)
    fresh = Player(spec, 1, 1, end=0.0).play(3)
    buffer.add(fresh)
    assert buffer.truncated[0, :8].tolist() == [False] * 4 + [True] + [False] * 3
    assert buffer.is_first[0, 5] and buffer.reward[0, 5] == 0.0 and not buffer.terminated.any()


def test_memory_is_asked_first(monkeypatch, tmp_path):
    spec = pixel_spec(1)._replace(obs_shape=(3, 64, 64))
    assert row_bytes(spec) == 3 * 64 * 64 + 8 + 11
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=10**7))
    auto = SequenceReplay(spec, 2, 10, 0, capacity="auto")
    assert auto.capacity == 5 * 10**6 // row_bytes(spec) // 2 * 2
    with pytest.raises(ConfigError, match="capacity"):
        SequenceReplay(spec, 1, 10, 0, capacity=10**4)
    monkeypatch.setattr(psutil, "disk_usage", lambda _: SimpleNamespace(free=10**9))
    assert SequenceReplay(spec, 1, 10, 0, capacity=1000, memmap_dir=str(tmp_path)).capacity == 1000
    with pytest.raises(ConfigError, match="windows of 10 rows"):
        SequenceReplay(spec, 2, 10, 0, capacity=20)


def test_short_episodes_are_told():
    spec = vector_spec()
    buffer = SequenceReplay(spec, 1, 9, 0, capacity=100, within_episode=True)
    buffer.add(Player(spec, 1, 0, end=0.9).play(40))
    assert not buffer.ready
    with pytest.raises(DataError, match=r"smaller data\.sequence_length"):
        buffer.sample(4, torch.Generator())
