"""One file, read strictly."""

from __future__ import annotations

from pathlib import Path

import pytest

from rl_lightning.errors import ConfigError
from rl_lightning.runs.config import yaml_io

REFUSED = {
    "duplicate": ("a: 1\nb: 2\na: 3\n", "key 'a' is there twice"),
    "nested duplicate": ("run: {x: 1, x: 2}\n", "twice"),
    "tab": ("run:\n\tenv_steps: 3\n", "a tab"),
    "empty": ("", "is empty"),
    "comment only": ("# nothing\n", "is empty"),
    "list": ("- 1\n- 2\n", "holds a list"),
    "word": ("hello\n", "holds a str"),
    "python tag": ("a: !!python/object/apply:os.system [ls]\n", "is refused"),
    "python name": ("a: !!python/name:os.system\n", "is refused"),
    "two documents": ("a: 1\n---\nb: 2\n", "document"),
    "unclosed": ("a: {b: 1\n", "expected"),
    "self alias": ("a: &x [*x]\n", "contains itself"),
    "deep": ("a: " + "[" * 60 + "]" * 60 + "\n", "nested deeper"),
    "very deep": ("a: " + "[" * 20_000 + "\n", "nested deeper"),
    "bool key": ("on: 1\n", "is not a key"),
    "null key": ("null: 1\n", "is not a key"),
    "list key": ("[1, 2]: 1\n", "is not a key"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses(case: str, tmp_path: Path) -> None:
    text, reason = REFUSED[case]
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=reason) as caught:
        yaml_io.load(path)
    assert str(path) in str(caught.value)


def test_nine_lines_cannot_stand_for_a_billion_values() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    with pytest.raises(ConfigError, match="once its aliases are followed"):
        yaml_io.loads("\n".join(lines), "bomb")


def test_size_limit_missing_folder_and_bytes(tmp_path: Path) -> None:
    (tmp_path / "big.yaml").write_text("a: " + "x" * yaml_io.MAX_BYTES)
    (tmp_path / "latin.yaml").write_bytes(b"a: \xff\xfe\n")
    for name, reason in {
        "big.yaml": "larger",
        "latin.yaml": "UTF-8",
        "none.yaml": "no such file",
        ".": "folder",
    }.items():
        with pytest.raises(ConfigError, match=reason):
            yaml_io.load(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3), ("3E4", 3e4), ("-.5", -0.5), ("1_000", 1000), ("0", 0), ("0x10", 16), ("true", True),
        ("null", None), ("1:30:00", "1:30:00"), ("2020-01-02", "2020-01-02"), ("010", "010"), ("1.5e3", 1500.0),
        (".inf", float("inf")), ("abc", "abc"), ("-3", -3), ("", ""), ("[1, 2]", "[1, 2]"), ("'3'", "3"),
    ],
)  # fmt: skip
def test_scalars_read_as_they_look(text: str, value: object) -> None:
    assert yaml_io.scalar(text) == value


def test_anchors_and_merge_keys_work() -> None:
    value = yaml_io.loads("base: &b {x: 1, y: 2}\nmore: {<<: *b, y: 3}\n", "text")
    assert value["more"] == {"x": 1, "y": 3}


def test_whole_numbers_with_exponents_up_to_where_floats_have_one() -> None:
    values = yaml_io.loads("[1e6, 2.5e4, 1e-3, 1.5e0, 1.0, 1e16, 1.0e+16]", "x")
    assert values == [1_000_000, 25_000, 1e-3, 1.5, 1.0, 1e16, 1e16]
    assert [type(value) for value in values] == [int, int, float, float, float, float, float]
