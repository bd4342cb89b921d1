"""Agents that plan and populations that dream, on two processes: both hold the same in the end."""

from pathlib import Path

import pytest
from contracts.cases import Case
from contracts.harness import differing
from contracts.planning_cases import PLANNING
from contracts.world_model_cases import RECORD, STAGES
from ddp.support import fit

CASES = [(PLANNING[0], 160), (STAGES[0], 8), (STAGES[2], 3), (RECORD, 256)]


@pytest.mark.parametrize(("case", "until"), CASES, ids=[case.name for case, _ in CASES])
def test_ranks_hold_the_same(case: Case, until: int, tmp_path: Path) -> None:
    first, second = fit(case, tmp_path, until)
    assert not differing(first, second)
    if case is RECORD:
        assert len(first["recording.reward"]) > 100, "the episodes of both"
