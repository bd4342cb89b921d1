"""Numbers for people."""

import pytest

from rl_lightning.io.text import counted, file_size, number, score


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


@pytest.mark.parametrize(
    ("value", "text"),
    [(-1250.34, "-1250"), (-12503.4, "-12503"), (0.03125, "0.03125"), (1e-5, "1e-05"), (3e9, "3e+09")],
)
def test_numbers_without_exponents(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(12, "12 bytes"), (4096, "4.1 kB"), (34_567, "34.6 kB"), (1.7e6, "1.7 MB"), (2.31e9, "2.31 GB")],
)
def test_small_files_have_a_size(count: float, text: str) -> None:
    assert file_size(count) == text
