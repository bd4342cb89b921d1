"""Conditions on metrics: what they compute, what they refuse, and that they cannot do anything else."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl_lightning.errors import ConfigError
from rl_lightning.io.expressions import MAX_LENGTH, Expression

PAST = {"train/loss": [3.0, 2.0, 1.0], "eval/return": [10.0, 30.0], "x": [math.nan], "odd name, (1)": [7.0]}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("10 - 2 - 3", 5),
        ("-train/loss", -1),
        ("train/loss / 4", 0.25),
        ("8 / 4 / 2", 1),
        ("train/loss < 2 and eval/return >= 30", 1),
        ("not train/loss < 2", 0),
        ("not (1 == 2) and 1 != 2", 1),
        ("mean(train/loss, 2)", 1.5),
        ("mean(train/loss)", 2),
        ("slope(train/loss, 3)", -1),
        ("std(train/loss)", math.sqrt(2 / 3)),
        ("highest(eval/return) - lowest(eval/return)", 20),
        ("count(eval/return)", 2),
        ("max(abs(-3), min(1, 2))", 3),
        ("'odd name, (1)' + 1", 8),
        ('isnan("x")', 1),
        ("1e-3 * 1E3 + .5", 1.5),
        ("sqrt(4) + log(exp(1))", 3),
    ],
)
def test_values(text, value):
    assert Expression(text).value(PAST) == pytest.approx(value)


def test_what_is_not_known_decides_nothing():
    assert Expression("nothing > 1").value(PAST) is None
    assert not Expression("nothing > 1").holds(PAST) and not Expression("not nothing > 1").holds(PAST)
    assert Expression("nothing > 1 or train/loss < 2").holds(PAST)
    assert Expression("nothing > 1 and train/loss > 2").value(PAST) == 0.0
    assert Expression("nothing > 1").violation(PAST) == 1.0


@pytest.mark.parametrize(
    ("text", "value"), [("1 / 0", math.nan), ("log(-1)", math.nan), ("exp(1e9)", math.inf)]
)
def test_arithmetic_never_raises(text, value):
    found = Expression(text).value({})
    assert found is not None and (found == value or (math.isnan(found) and math.isnan(value)))
    assert not Expression("1 / 0").holds({})


def test_violation_says_how_far():
    assert Expression("train/loss < 0.25").violation(PAST) == pytest.approx(0.75)
    assert Expression("train/loss < 4").violation(PAST) == pytest.approx(-3)
    assert Expression("train/loss < 0.5 and eval/return > 40").violation(PAST) == 10
    assert Expression("train/loss < 0.5 or eval/return > 40").violation(PAST) == 0.5
    assert Expression("train/loss < train/loss").violation(PAST) > 0
    assert Expression("x < 1").violation(PAST) == 1.0


def test_names():
    assert Expression("mean(a/b, 3) > c.d_1 + 'e f'").names == ["a/b", "c.d_1", "e f"]


@pytest.mark.parametrize(
    "text",
    ["", "   ", "1 +", "(1", "1)", "a b", "1 < 2 < 3", "and", "a >", "mean()", "mean(1, 2)", "mean(a, b)",
     "mean(a, 0)",
     "mean(a, 1001)", "abs(1, 2)", "f(1)", "__import__('os')", "a.__class__()", "[1]", "{}", "a; b", "a = 1",
     "lambda: 1",
     "'open", "a ** 2", "a[0]", "é > 1", "\0", "1 if a else 2", "a/b/",
     "x" * (MAX_LENGTH + 1), "(" * 100 + "1" + ")" * 100,
     "-" * 200 + "1", "not " * 200 + "1", None, 3],
)  # fmt: skip
def test_what_is_no_condition_is_refused(text):
    with pytest.raises(ConfigError) as found:
        Expression(text)
    assert len(str(found.value).splitlines()) == 1


@given(st.text(max_size=60))
def test_any_text_is_a_condition_or_a_config_error(text):
    with contextlib.suppress(ConfigError):
        Expression(text).value(PAST)


NUMBERS = st.integers(0, 9).map(str)
TREES = st.recursive(
    NUMBERS,
    lambda part: st.one_of(
        st.tuples(part, st.sampled_from("+-*"), part).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        part.map(lambda text: f"(-{text})"),
    ),
    max_leaves=12,
)


@given(TREES)
def test_agrees_with_python(text):
    assert Expression(text).value({}) == eval(text)
