"""Rows that were foretold badly are drawn more often, by a power of how badly."""

import pytest
import torch
from scipy.stats import chisquare

from rl_lightning.buffers.surprises import LEAST, MOST, RATE, Surprises

LEGAL = torch.tensor([1, 2, 4, 5, 6])


def shares(surprises: Surprises, count: int = 20_000) -> list[int]:
    drawn = surprises(count, torch.Generator().manual_seed(0))
    return torch.bincount(drawn, minlength=8).tolist()


def test_at_first_all_legal_rows_are_alike_and_no_others_are_drawn():
    found = shares(Surprises(8, LEGAL, 0.5))
    assert [found[k] for k in (0, 3, 7)] == [0, 0, 0]
    assert chisquare([found[k] for k in LEGAL]).pvalue > 1e-3


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_chances_are_powers_of_losses(power):
    surprises = Surprises(8, LEGAL, power)
    surprises.put(torch.tensor([1, 2, 4]), torch.tensor([1.0, 2.0, 6.0]))  # usual: 3
    expected = (
        torch.tensor([1 / 3, 2 / 3, 2.0, 1.0, 1.0], dtype=torch.float64) ** power
    )  # two were not seen yet
    found = torch.tensor([shares(surprises)[k] for k in LEGAL])
    assert chisquare(found, expected / expected.sum() * found.sum()).pvalue > 1e-3


def test_none_is_forgotten_none_drawn_all_the_time_and_the_usual_moves_slowly():
    surprises = Surprises(8, LEGAL, 1.0)
    surprises.put(torch.tensor([1, 2]), torch.tensor([0.0, 2.0]))
    assert surprises.usual == 1.0 and surprises.chance[1].item() == pytest.approx(LEAST)
    surprises.put(torch.tensor([4]), torch.tensor([1000.0]))
    assert surprises.usual == pytest.approx(1.0 + RATE * 999.0) and surprises.chance[4].item() == MOST
    surprises.put(torch.tensor([4]), torch.tensor([surprises.usual]))
    assert surprises.chance[4].item() == pytest.approx(1.0), "what counts is how it was foretold last"


def test_a_world_without_any_loss_leaves_all_alike():
    surprises = Surprises(8, LEGAL, 1.0)
    surprises.put(LEGAL, torch.zeros(5))
    assert surprises.chance[LEGAL].tolist() == [1.0] * 5


def test_what_was_saved_draws_the_same():
    one, other = Surprises(8, LEGAL, 0.7), Surprises(8, LEGAL, 0.7)
    one.put(LEGAL, torch.rand(5, generator=torch.Generator().manual_seed(1)))
    state = one.state()
    one.put(LEGAL[:1], torch.tensor([9.0]))  # what was saved stays as it was
    other.load(state)
    assert shares(one) != shares(other) and other.usual == state["usual"]
    one.load(state)
    assert shares(one) == shares(other)


def test_a_draw_that_rounds_up_to_all_is_the_last_legal_row(monkeypatch):
    monkeypatch.setattr(torch, "rand", lambda count, **_: torch.ones(count, dtype=torch.float64))
    assert Surprises(8, LEGAL, 1.0)(3, torch.Generator()).tolist() == [6, 6, 6]
