"""Agents that plan and populations that dream, on two processes: both hold the same in the end."""

from pathlib import Path

import pytest
from contracts.cases import BY_NAME
from contracts.harness import differing
from ddp.support import fit

UNTIL = {"tdmpc2": 160, "vae": 8, "evolve-dream": 3, "record": 256}


@pytest.mark.parametrize(("name", "until"), UNTIL.items())
def test_ranks_hold_the_same(name: str, until: int, tmp_path: Path) -> None:
    first, second = fit(BY_NAME[name], tmp_path, until)
    assert not differing(first, second)
    if name == "record":
        assert len(first["recording.reward"]) > 100, "the episodes of both"
