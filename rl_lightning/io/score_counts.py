"""How many evaluations and runs a statistic is of. Needs no numpy: `rl list` answers at once."""

LAST = 10  # evaluations whose mean is a run's score
ENOUGH_RUNS = 5


def is_few(runs: int) -> bool:
    """Whether a bootstrap interval over so many runs would promise too much: their scores stand in its place."""
    return runs < ENOUGH_RUNS
