"""Words of other libraries: the table is true today, and the meaning that fits the config is told."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest
from lightning.pytorch import Trainer

from rl_lightning.cli.commands import COMMANDS
from rl_lightning.cli.help import text_of, verbs_of
from rl_lightning.runs.config import catalog
from rl_lightning.runs.config.aliases import (
    LIBRARIES,
    NONE,
    Alias,
    Place,
    advice,
    meanings,
    short_flag,
    table,
    takers,
    verb_advice,
)  # fmt: skip
from rl_lightning.runs.config.compose import PIPELINE_KEYS
from rl_lightning.runs.config.keys import GROUPS, TOP
from rl_lightning.sweep.definition import KEYS as SWEEP_KEYS

CONFIG_KEYS = {*TOP, *PIPELINE_KEYS, "extends", "class_path"}  # what needs no dot
TEXTS = {command: "\n".join([text_of(command), *verbs_of(command).values()]) for command in COMMANDS}
FLAGS = {flag for text in TEXTS.values() for flag in re.findall(r"--\w+", text)} | {"--help"}
OPTIONS = [row for row in table() if "metrics" not in row.library]


def exists(ours: str) -> bool:
    """Whether it is an option, a flag or a command of today."""
    head, *rest = ours.split(".")
    if ours.startswith("rl "):
        _, command, *flags = ours.split()
        return command in COMMANDS and all(flag in TEXTS[command] for flag in flags)
    if ours.startswith("--"):
        return ours.split()[0] in FLAGS | {"--KEY"}
    if head == "trainer" and rest:
        return rest[0] in catalog.argument_names(f"{Trainer.__module__}.Trainer")
    if head == "sweep":
        return rest[0] in SWEEP_KEYS
    return bool(takers(ours, {})) if rest else ours in CONFIG_KEYS


@pytest.mark.parametrize("ours", sorted({row.ours for row in OPTIONS} - {NONE}))
def test_what_we_call_it_exists(ours: str) -> None:
    assert exists(ours)


def test_an_option_that_is_gone_would_be_seen() -> None:
    assert not any(
        map(exists, ("model.slow_rate", "model.network.hidden", "run.keep_every", "--nope", "rl sweep --x"))
    )


@pytest.mark.parametrize("group", ["model", "data", "run", "log"])
def test_options_in_notes_exist(group: str) -> None:
    pattern = re.compile(rf"(?<![\w.]){group}\.[a-z_][\w.]*\w")
    named = {path for row in table() for path in pattern.findall(row.note)}
    assert named and not [path for path in sorted(named) if not takers(path, {})]


def test_a_word_of_a_library_stands_once() -> None:
    twice = Counter((row.library, row.theirs) for row in table())
    assert not [row for row, count in twice.items() if count > 1]


def test_rows_are_whole() -> None:
    for row in table():
        assert len(row) == 4 and row.theirs and row.ours and row.family in LIBRARIES
        assert row.note or row.ours != NONE, f"{row.library} {row.theirs}: why is there none?"


@pytest.mark.parametrize(
    ("library", "classes"),
    [
        ("SB3 PPO", ["PPO", "OnPolicyData"]), ("CleanRL ppo", ["PPO", "OnPolicyData"]),
        ("SB3 SAC", ["SAC", "OnlineData"]), ("SB3 DQN/QR-DQN", ["QRDQN", "OnlineData"]),
        ("CleanRL dqn", ["DQN", "OnlineData"]), ("d3rlpy IQL", ["IQL", "OfflineData"]),
        ("d3rlpy TD3+BC", ["TD3_BC", "OfflineData"]), ("d3rlpy BCQ", ["BCQ", "OfflineData"]),
        ("REDQ", ["SAC", "OnlineData"]), ("dreamerv3", ["Dreamer", "SequenceData"]),
        ("dreamerv3-torch", ["Dreamer", "SequenceData"]), ("tdmpc2", ["TDMPC2", "SequenceData"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_the_algorithm_of_a_row_has_its_option(library: str, classes: list[str]) -> None:
    place = Place(dict(zip(("model", "data"), classes, strict=True)))
    rows = [row for row in table() if row.library == library and row.ours.split(".")[0] in ("model", "data")]
    assert rows and not [row for row in rows if not place.holds(row.ours)]


def place(algorithm: str, data: str, path: str = "") -> Place:
    owner = {"model": algorithm, "data": data}.get(path, "")
    return Place({"model": algorithm, "data": data}, path, catalog.argument_names(owner))


PPO, SAC, DQN = ("PPO", "OnPolicyData"), ("SAC", "OnlineData"), ("DQN", "OnlineData")


@pytest.mark.parametrize(
    ("word", "classes", "path", "expected"),
    [
        ("n_steps", PPO, "model", "SB3's word for data.rollout_steps: --data.rollout_steps"),
        ("n_steps", PPO, "", "SB3's word for data.rollout_steps: --data.rollout_steps"),
        ("n_steps", SAC, "model", "SB3's word for model.n_step: --model.n_step"),
        ("learning_rate", PPO, "model", "SB3 and CleanRL's word for model.lr: --model.lr"),
        ("gradient_steps", SAC, "model", "SB3's word for data.utd_ratio: --data.utd_ratio"),
        ("gradient_steps", PPO, "model", "SB3's word for data.utd_ratio of OnlineData, SimulatedReplayData"),
        ("train_freq", SAC, "data", "SB3's word for data.train_every: --data.train_every"),
        ("ent_coef", SAC, "model", "SB3's word for model.alpha: --model.alpha"),
        ("batch_size", PPO, "data", "SB3's word for model.minibatch_size: --model.minibatch_size"),
        ("target_update_interval", DQN, "model", "SB3 and d3rlpy's word for model.target_every: --model.t"),
        ("target_update_interval", SAC, "model", "SB3's word has no counterpart: the targets move at every update"),
        ("exploration_fraction", DQN, "model", "SB3 and CleanRL's word for model.epsilon_schedule.fraction: --model.e"),
        ("exploration_fraction", SAC, "model", "SB3 and CleanRL's word for model.epsilon_schedule.fraction of DQN"),
        ("use_sde", SAC, "model", "SB3's word has no counterpart: no state-dependent exploration here"),
        ("save_model", PPO, "", "CleanRL's word has no counterpart: always saved"),
        ("total_timesteps", PPO, "run", "SB3 and CleanRL's word for run.env_steps: --run.env_steps"),
        ("steps", PPO, "run", "tdmpc2 and dreamerv3-torch's word for run.env_steps: --run.env_steps"),
        ("algo.gamma", PPO, "", "sheeprl's word for model.gamma: --model.gamma"),
        ("--real-ratio", ("SAC", "ModelRolloutData"), "", "OfflineRL-Kit's word for data.real_ratio: --data"),
        ("polyak", SAC, "model", "Spinning Up's word for model.tau: --model.tau (1 - polyak)"),
        ("max_epochs", PPO, "", "Lightning Trainer's word for trainer.max_epochs: --trainer.max_epochs"),
    ],
)  # fmt: skip
def test_the_meaning_that_fits_is_told(word: str, classes: tuple[str, str], path: str, expected: str) -> None:
    told = advice(word, place(*classes, path))
    assert told.startswith(f"; {expected}") and "\n" not in told


def test_the_option_of_a_nested_class_comes_first() -> None:
    rnn = Place({"model": "PPO", "data": "OnPolicyData"}, "model.network", ["hidden_dim"])
    assert "model.network.hidden_dim:" in advice("lstm_hidden_size", rnn)
    assert "of BC" in advice("lstm_hidden_size", rnn._replace(arguments=["hidden_dims"]))


def test_an_unknown_word_has_no_meaning() -> None:
    assert meanings("nothing_of_the_kind") == [] and advice("nothing_of_the_kind", Place()) == ""


def test_our_own_word_is_no_news() -> None:
    assert meanings("--config") == [] and meanings("dry_run") == []


def test_a_class_of_the_users_own_may_have_anything() -> None:
    assert advice("learning_rate", Place({"model": "mine.Own"})).startswith(
        "; SB3 and CleanRL's word for model.lr:"
    )


def test_commands_are_told_of_their_own_flags_alone() -> None:
    assert verb_advice("n_trials", "sweep", ["trials"]) == "; RL Zoo's word for rl sweep --trials"
    assert verb_advice("load_best", "play", ["checkpoint"]) == "; RL Zoo's word for --checkpoint (best)"
    assert verb_advice("learning_rate", "plot", ["metrics"]) == ""


def test_flags_that_are_taken_as_they_are() -> None:
    assert short_flag("total_timesteps") == "run.env_steps" and short_flag("seed") == "seed_everything"
    assert short_flag("learning_rate") is None and short_flag("steps") is None
    for group in GROUPS:
        assert short_flag(group) is None


def test_the_library_of_a_row_is_the_longest_that_fits() -> None:
    def family(library: str) -> Any:
        return Alias(library, "x", NONE, "y").family

    assert family("dreamerv3-torch") == "dreamerv3-torch" and family("SB3 SAC/DQN/TD3/QR-DQN") == "SB3"
    assert family("OfflineRL-Kit/MOPO/GORMPO") == "OfflineRL-Kit" and family("sb3-contrib") == "sb3-contrib"


def test_the_table_needs_no_torch() -> None:
    code = "import sys; from rl_lightning.runs.config import aliases; aliases.table(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_an_option_of_the_same_name_is_whose_it_is() -> None:
    line = advice("data.buffer", Place({"data": "OfflineData"}))
    assert line.startswith("; data.buffer is an option of OnlineData") and "word" not in line
