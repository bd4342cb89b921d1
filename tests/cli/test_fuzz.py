"""Whatever a config holds, composing and parsing it ends in a dict or in a ConfigError."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rl_lightning.cli.flags import parse, seed_list
from rl_lightning.errors import ConfigError
from rl_lightning.runs.config import yaml_io
from rl_lightning.runs.config.compose import check_keys, choose_classes, fill_variables, merge, normalize

from .conftest import CARTPOLE

BASE = normalize(yaml_io.loads(CARTPOLE, "base"))
WORDS = st.sampled_from(
    ["model", "data", "class_path", "init_args", "env", "id", "run", "lr", "PPO", "SAC", "os.system", "x"]
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-5, 10**6), st.floats(), WORDS, st.text(max_size=8))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
CONFIGS = st.dictionaries(WORDS, VALUES, max_size=4)


@given(CONFIGS, CONFIGS, CONFIGS)
def test_merge_is_associative_without_classes(a: Any, b: Any, c: Any) -> None:
    a, b, c = (_without_classes(config) for config in (a, b, c))
    assert _same(merge(merge(a, b), c), merge(a, merge(b, c))) or _mixed(a, b, c)


def _without_classes(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_classes(item) for key, item in value.items() if key != "class_path"}
    return value


def _mixed(*configs: Any) -> bool:
    """A mapping over a scalar over a mapping: the middle one decides how much is forgotten, by design."""
    kinds = [{key: isinstance(value, dict) for key, value in config.items()} for config in configs]
    shared = {key for kind in kinds for key in kind}
    return any(len({kind[key] for kind in kinds if key in kind}) > 1 for key in shared) or any(
        _mixed(*(config[key] for config in configs if isinstance(config.get(key), dict)))
        for key in shared
        if sum(isinstance(config.get(key), dict) for config in configs) > 1
    )


def _same(a: Any, b: Any) -> bool:
    return yaml.safe_dump(a) == yaml.safe_dump(b)


@given(CONFIGS, CONFIGS)
def test_merge_keeps_its_inputs(a: Any, b: Any) -> None:
    before = yaml.safe_dump([a, b])
    merge(a, b)
    assert yaml.safe_dump([a, b]) == before
    assert _same(merge(a, {}), a)


@given(CONFIGS)
def test_dumped_configs_read_back(config: Any) -> None:
    text = yaml.safe_dump(config)
    try:
        read = yaml_io.loads(text, "text")
    except ConfigError:
        return
    assert _same(normalize(read or {}), normalize(config))


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        yaml_io.loads(text, "text")
    except ConfigError as error:
        assert str(error).startswith("text: ")


@given(st.lists(st.text(max_size=12), max_size=6))
def test_any_command_line_is_parsed_or_refused(words: list[str]) -> None:
    with contextlib.suppress(ConfigError):
        parse(words, ("config",), ("dry_run",), config=True, command="fit")


@given(st.text(max_size=12))
def test_any_seed_list_is_parsed_or_refused(text: str) -> None:
    with contextlib.suppress(ConfigError):
        assert all(isinstance(seed, int) for seed in seed_list(text))


@given(VALUES)
def test_variables_leave_other_values_alone(value: Any) -> None:
    if "${" not in str(value):
        assert _same(fill_variables(value), value)


PATHS = st.sampled_from(
    [
        ("model",), ("model", "class_path"), ("model", "init_args"), ("model", "init_args", "lr"), ("data",),
        ("model", "init_args", "network"), ("data", "init_args", "env"), ("data", "init_args", "env", "id"),
        ("data", "init_args", "num_envs"), ("run",), ("run", "env_steps"), ("run", "x"), ("trainer",),
        ("trainer", "callbacks"), ("seed_everything",), ("threads",), ("log",), ("log", "wandb"),
    ]
)  # fmt: skip


def mutate(config: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    config = copy.deepcopy(config)
    place = config
    for key in path[:-1]:
        place = place.setdefault(key, {})
    place[path[-1]] = value
    return config


MUTATIONS = given(
    PATHS, VALUES, st.sampled_from([[], ["--model=DQN"], ["--data.num_envs=3"], ["--model.lr=x"]])
)
SLOW_START = [HealthCheck.too_slow]


@settings(max_examples=25, deadline=None, suppress_health_check=SLOW_START)
@MUTATIONS
def test_mutated_configs_parse_or_are_refused(path: tuple[str, ...], value: Any, flags: list[str]) -> None:
    parse_or_refuse(path, value, flags)


@pytest.mark.slow
@settings(max_examples=400, deadline=None, suppress_health_check=SLOW_START)
@MUTATIONS
def test_many_mutated_configs(path: tuple[str, ...], value: Any, flags: list[str]) -> None:
    parse_or_refuse(path, value, flags)


def parse_or_refuse(path: tuple[str, ...], value: Any, flags: list[str]) -> None:
    from rl_lightning.runs.config.build import RLCLI, allow_imports

    allow_imports([])
    try:
        config = mutate(BASE, path, value)
        check_keys(config, "fuzz")
        config, rest = choose_classes(normalize(config), flags)
        assert isinstance(RLCLI(config, rest).plain(), dict)
    except ConfigError as error:
        assert 1 <= len(str(error).splitlines()) <= 3
