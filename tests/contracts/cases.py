"""One row per algorithm and variant; every contract in this folder runs over all of them."""

import pytest
from contracts.families import diffusion, dreamer, frames, models, offline, online, planning, world_models

CASES = [
    case
    for family in (online, dreamer, planning, offline, models, diffusion, frames, world_models)
    for case in family.CASES
]
BY_NAME = {case.name: case for case in CASES}


def each(cases=CASES):
    """Runs a test over rows."""
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)
