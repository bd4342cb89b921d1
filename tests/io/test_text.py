"""Numbers for people."""

import pytest

from rl_lightning.io.text import counted, score


@pytest.mark.parametrize(
    ("value", "scale", "text"),
    [
        (487.25, None, "487.2"), (9.517, None, "9.52"), (0.7312, None, "0.731"), (0.0123, None, "0.0123"),
        (-0.0, None, "0.0"), (-0.001, 1.0, "0.00"), (0.5, 200.0, "0.5"), (-1250.0, None, "-1250.0"),
        (float("nan"), None, "nan"), (0.25, float("inf"), "0.25"),
    ],
)  # fmt: skip
def test_decimals_follow_the_scale(value: float, scale: float | None, text: str) -> None:
    assert score(value, scale) == text


def test_one_is_not_many() -> None:
    assert counted(1, "thread") == "1 thread" and counted(2, "thread") == "2 threads"
