"""Where time was broken off: no row is joined across, however many steps are summed, also after saving and loading."""

import numpy as np
import pytest
import torch
from buffers.naive import Player, pixel_spec, vector_spec

from rl_lightning.buffers import PrioritizedReplay, Replay
from rl_lightning.buffers.segments import SegmentStore

GAMMA = 0.5
SPECS = {"rows": vector_spec(), "frames": pixel_spec(2)}
RECIPES = {"uniform": Replay, "prioritized": PrioritizedReplay}


def with_a_gap(kind: str, recipe: str, capacity: int):
    """Four steps, a gap, four steps of another episode; a row's reward is its number."""
    player = Player(SPECS[kind], 1, seed=0, end=0.0)
    buffer = RECIPES[recipe](capacity).build(player.spec, 1)
    buffer.add(player.play(4))
    buffer.cut(0)
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
    again = RECIPES[recipe](20).build(player.spec, 1)
    again.load(saved, SegmentStore(tmp_path))
    assert drawn(again, 3) == expected(player, kind)


@pytest.mark.parametrize("kind", SPECS)
def test_sums_end_at_a_gap_in_what_was_saved_before_it(kind, tmp_path):
    """Segments are never rewritten: a gap after rows that are on disk is made again whenever they are loaded."""
    player = Player(SPECS[kind], 1, seed=0, end=0.0)
    buffer, store = Replay(20).build(player.spec, 1), SegmentStore(tmp_path)
    buffer.add(player.play(4))
    buffer.save(store)
    buffer.cut(0)
    player.frames[0] = [player._frame(0)]
    buffer.add(player.play(4))
    again = Replay(20).build(player.spec, 1)
    again.load(buffer.save(store), SegmentStore(tmp_path))
    assert drawn(again, 3) == expected(player, kind)


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("more", range(1, 12))
def test_a_gap_goes_when_its_rows_are_overwritten(kind, more, tmp_path):
    """The newest row must not be taken for the one before a gap, whose slot it got."""
    player, buffer = with_a_gap(kind, "uniform", 8)
    buffer.add(player.play(more))
    again = Replay(8).build(player.spec, 1)
    again.load(buffer.save(SegmentStore(tmp_path)), SegmentStore(tmp_path))
    assert drawn(again, 3) == drawn(buffer, 3)
    again.add(rows := player.play(4))
    buffer.add(rows)
    assert drawn(again, 3) == drawn(buffer, 3)
