"""Where time was broken off: no row is joined across, however many steps are summed, also after saving and loading."""

import numpy as np
import pytest
import torch
from replay.naive import Player, pixel_spec, vector_spec

from rl_lightning.replay import PrioritizedReplay, Replay, SequenceReplay
from rl_lightning.replay.segments import SegmentStore

GAMMA = 0.5
SPECS = {"rows": vector_spec(), "frames": pixel_spec(2)}
RECIPES = {"uniform": Replay, "prioritized": PrioritizedReplay}


def with_a_gap(kind: str, recipe: str, capacity: int):
    """Four steps, a gap, four steps of another episode; a row's reward is its number."""
    player = Player(SPECS[kind], 1, seed=0, end=0.0)
    buffer = RECIPES[recipe](player.spec, 1, capacity)
    buffer.add(player.play(4))
    buffer.end_episode(0)
    player.frames[0] = [player._frame(0)]
    buffer.add(player.play(4))
    return player, buffer


def drawn(buffer, n_step: int) -> dict[float, tuple[float, float, bytes]]:
    """Of every row that can be drawn, by its number: what it sums, its discount and its next observation."""
    draw = lambda steps: buffer.sample(400, torch.Generator().manual_seed(0), steps, GAMMA)  # noqa: E731
    one, many = draw(1), draw(n_step)
    fields = zip(many.reward.tolist(), many.discount.tolist(), many.next_obs.numpy(), strict=True)
    found = [(total, discount, np.ascontiguousarray(obs).tobytes()) for total, discount, obs in fields]
    return dict(zip(one.reward.tolist(), found, strict=True))


def expected(player: Player, kind: str) -> dict[float, tuple[float, float, bytes]]:
    """By hand, for three steps. The frame after row 3 is lost, and that after row 7 is not yet there."""
    rows, lost = player.rows[0], kind == "frames"
    sides = (range(0, 3 if lost else 4), range(4, 7 if lost else 8))
    wanted = {}
    for side in sides:
        for first in side:
            summed = [row for row in range(first, first + 3) if row in side]
            total = sum(GAMMA**k * row for k, row in enumerate(summed))
            wanted[float(first)] = (total, GAMMA ** len(summed), rows[summed[-1]].next_obs.tobytes())
    return wanted


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("kind", SPECS)
def test_sums_end_at_a_gap(kind, recipe, tmp_path):
    player, buffer = with_a_gap(kind, recipe, 20)
    assert drawn(buffer, 3) == expected(player, kind)
    saved = buffer.save(SegmentStore(tmp_path))
    again = RECIPES[recipe](player.spec, 1, 20)
    again.load(saved, SegmentStore(tmp_path))
    assert drawn(again, 3) == expected(player, kind)


@pytest.mark.parametrize("kind", SPECS)
def test_sums_end_at_a_gap_in_what_was_saved_before_it(kind, tmp_path):
    """Segments are never rewritten: a gap after rows that are on disk is made again whenever they are loaded."""
    player = Player(SPECS[kind], 1, seed=0, end=0.0)
    buffer, store = Replay(player.spec, 1, capacity=20), SegmentStore(tmp_path)
    buffer.add(player.play(4))
    buffer.save(store)
    buffer.end_episode(0)
    player.frames[0] = [player._frame(0)]
    buffer.add(player.play(4))
    again = Replay(player.spec, 1, capacity=20)
    again.load(buffer.save(store), SegmentStore(tmp_path))
    assert drawn(again, 3) == expected(player, kind)


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("more", range(1, 12))
def test_a_gap_goes_when_its_rows_are_overwritten(kind, more, tmp_path):
    """The newest row must not be taken for the one before a gap, whose slot it got."""
    player, buffer = with_a_gap(kind, "uniform", 8)
    buffer.add(player.play(more))
    again = Replay(player.spec, 1, capacity=8)
    again.load(buffer.save(SegmentStore(tmp_path)), SegmentStore(tmp_path))
    assert drawn(again, 3) == drawn(buffer, 3)
    again.add(rows := player.play(4))
    buffer.add(rows)
    assert drawn(again, 3) == drawn(buffer, 3)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("frames", [1, 2, 4])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_rows_that_begin_within_an_episode_have_their_whole_stacks(frames, steps, recipe):
    """After a switch of buffers the first rows show what the agent saw, although earlier frames went elsewhere."""
    player = Player(pixel_spec(frames), 2, seed=0, end=0.0)
    buffer = RECIPES[recipe](player.spec, 2, 80)
    buffer.add(player.play(3))
    for env in range(2):
        buffer.end_episode(env)
    player.play(6)  # into another buffer
    for turn in range(6 // steps + 1):
        rows = player.play(steps)
        rows.is_first[0] |= turn == 0
        buffer.add(rows)
    sample = buffer.sample(600, torch.Generator().manual_seed(0), 1, GAMMA)
    last = len(player.rows[0]) - 1
    assert {player.find(name)[1] for name in sample.reward.tolist()} == {0, 1, *range(9, last)}
    for obs, next_obs, name in zip(sample.obs, sample.next_obs, sample.reward.tolist(), strict=True):
        env, index = player.find(name)
        np.testing.assert_array_equal(obs.numpy(), player.rows[env][index].obs)
        np.testing.assert_array_equal(next_obs.numpy(), player.rows[env][index].next_obs)


def test_windows_are_broken_off_once_and_where_no_end_was():
    """A gap right behind an episode's end is none; gaps whose rows were overwritten are not made again."""
    player = Player(vector_spec(), 1, seed=0, end=0.0)
    buffer = SequenceReplay(player.spec, 1, 3, 0, capacity=8)
    for _ in range(5):
        buffer.add(player.play(3))
        buffer.end_episode(0)
    newest = buffer.total[0] - 1
    gaps = {row % 8 for row in range(newest - 7, newest + 1) if row % 3 == 2}
    assert set(buffer.truncated[0].nonzero()[:, 0].tolist()) == gaps
    player.end = 1.0
    while not player.rows[0][-1].terminated:
        buffer.add(player.play(1))
    buffer.end_episode(0)
    assert not buffer.truncated[0, (buffer.total[0] - 1) % 8]
