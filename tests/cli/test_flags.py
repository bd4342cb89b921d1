"""The command line taken apart."""

from __future__ import annotations

import pytest

from rl_lightning.cli.flags import RUN_KEYS, normalize, parse, seed_list
from rl_lightning.errors import ConfigError
from rl_lightning.runs.engine.group import without

OPTIONS = {"takes": ("config", "jobs"), "switches": ("dry_run",), "config": True, "command": "fit"}


def test_both_spellings() -> None:
    words = ["--dry-run", "--data.num-envs", "4", "--name=a-b-c", "--eval-every=-5", "-c", "x-y"]
    assert normalize(words) == [
        "--dry_run", "--data.num_envs", "4", "--name=a-b-c", "--eval_every=-5", "-c", "x-y",
    ]  # fmt: skip


def test_three_parts() -> None:
    words = [
        "-c",
        "a/b",
        "--config=c.yaml",
        "--jobs",
        "2",
        "--dry-run",
        "--model.lr",
        "-3e-4",
        "--env_steps=7",
        "w",
        "--seed",
        "1",
    ]
    parsed = parse(words, **OPTIONS)  # type: ignore[arg-type]
    assert (
        parsed.all("config") == ["a/b", "c.yaml"] and parsed.integer("jobs", 1) == 2 and parsed.has("dry_run")
    )
    assert parsed.config_flags == ["--model.lr=-3e-4", "--run.env_steps=7", "--seed_everything=1"]
    assert parsed.words == ["w"] and parsed.raw == words


def test_switch_for_the_config_reads_as_true() -> None:
    parsed = parse(["--log.wandb", "--model.double_q=false"], **OPTIONS)  # type: ignore[arg-type]
    assert parsed.config_flags == ["--log.wandb=true", "--model.double_q=false"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--dryrun"], "did you mean 'dry_run'"),
        (["--env-step", "3"], "did you mean 'env_steps'"),
        (["--modle.lr", "3"], "no option '--modle.lr'"),
        (["--jobs"], "needs a value"),
    ],
)
def test_unknown_options(words: list[str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        parse(words, **OPTIONS)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["0", "-1", "x", "1.5", ""])
def test_whole_numbers(value: str) -> None:
    with pytest.raises(ConfigError, match="whole number"):
        parse([f"--jobs={value}"], **OPTIONS).integer("jobs", 1)  # type: ignore[arg-type]


def test_seed_lists() -> None:
    assert seed_list("0-4") == [0, 1, 2, 3, 4]
    assert seed_list("1,2,5") == [1, 2, 5]
    assert seed_list("7, 1-2") == [7, 1, 2]
    for text in ("", "4-1", "a", "1,,2", "-1", "1,1", "0-99999999", "1.5"):
        with pytest.raises(ConfigError, match="--seeds"):
            seed_list(text)


def test_without_drops_options_and_their_values() -> None:
    words = ["x", "--seeds", "0-4", "--jobs=2", "--model.lr", "3", "--debug", "--name", "n"]
    assert without(words, ("seeds", "jobs", "name")) == ["x", "--model.lr", "3", "--debug"]


def test_short_flags_are_the_run_group() -> None:
    from dataclasses import fields

    from rl_lightning.clock.run_clock import RunConfig

    assert set(RUN_KEYS) == {field.name for field in fields(RunConfig)}


def test_words_of_other_libraries_are_understood() -> None:
    options = {"takes": ("seeds",), "config": True, "command": "fit"}
    assert parse(["--total_timesteps", "9"], **options).config_flags == ["--run.env_steps=9"]
    assert parse(["--seed", "1,2,3"], **options).values["seeds"] == ["1,2,3"]
    assert parse(["--seed", "3"], **options).config_flags == ["--seed_everything=3"]
