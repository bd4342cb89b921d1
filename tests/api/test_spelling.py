"""What errors advise, as it is written in Python."""

import pytest

import rl_lightning as rl
from rl_lightning.api.spelling import in_python
from rl_lightning.errors import ConfigError, RLError


@pytest.fixture(autouse=True)
def logs(tmp_path, monkeypatch):
    monkeypatch.setenv("RL_LOGS", str(tmp_path / "logs"))
    return tmp_path / "logs"


@pytest.mark.parametrize(
    ("typed", "written"),
    [
        (
            "the run has no end: give it --env_steps, --updates or --max_hours",
            'the run has no end: give it env_steps=, updates= or "run.max_hours"',
        ),
        ("if you trust it, add: --import a --import b.c", 'if you trust it, add: imports=["a", "b.c"]'),
        ("(a class of your own needs --import PACKAGE)", "(a class of your own needs imports=[...])"),
        ("--import mine: no module 'mine' here", "imports=[\"mine\"]: no module 'mine' here"),
        (
            "Use --data.split transition, or --data.val_fraction 0",
            'Use {"data.split": "transition"}, or {"data.val_fraction": 0}',
        ),
        ("Add: --model.normalize_obs false", 'Add: {"model.normalize_obs": False}'),
        ("use a smaller --data.sequence_length", 'use a smaller "data.sequence_length"'),
        ("(--eval_max_steps N, or more)", '({"run.eval_max_steps": ...}, or more)'),
        ("give it again: --log.url VALUE", 'give it again: {"log.url": ...}'),
        (
            "clipped by the model: --model.max_grad_norm 1.5",
            'clipped by the model: {"model.max_grad_norm": 1.5}',
        ),
        ("use --resume_mode warm_start", 'use {"resume_mode": "warm_start"}'),
        ("choose one with --against, or time", "choose one with against=, or time"),
        ("--filter takes KEY=VALUE", "a condition takes KEY=VALUE"),
        ("or choose another --name", "or choose another name="),
        ("Continue it with: rl resume mine-1", 'Continue it with: rl_lightning.resume("mine-1")'),
        ("or the run --run.env_steps 500", "or the run env_steps=500"),
    ],
)
def test_flags_become_arguments(typed, written):
    assert in_python(typed) == written


@pytest.mark.parametrize(
    "line",
    [
        "no config 'x'; see them with: rl list configs",
        "rl fit --config run/config.yaml --ckpt_path run --resume_mode warm_start",
        "continue with more updates: rl resume RUN --updates N",
        "an em-dash -- or a-b--c stays",
        "model.lr is -1; it must not be negative",
    ],
)
def test_commands_and_plain_words_stay(line):
    assert in_python(line) == line


def no_end(logs):
    rl.fit("ppo/cartpole", {"run.env_steps": "null"})


def foreign(logs):
    rl.fit("ppo/cartpole", {"model": "nobodys.PPO"}, env_steps=64)


def gradient(logs):
    rl.fit("ppo/cartpole", {"trainer.gradient_clip_val": 1.0}, env_steps=64)


def condition(logs):
    rl.find("nonsense")


def used(logs):
    (logs / "taken").mkdir(parents=True)
    rl.fit("ppo/cartpole", env_steps=64, name="taken")


def nowhere(logs):
    rl.resume("no-such-run")


def nothing(logs):
    rl.load("no-such-run")


def missing_package(logs):
    rl.fit("ppo/cartpole", env_steps=64, imports=["no_such_package_of_mine"])


def standard(logs):
    rl.fit("ppo/cartpole", env_steps=64, imports=["os"])


def foreign_env(logs):
    rl.fit("ppo/cartpole", {"data.env.id": "nobodys:Env-v0"}, env_steps=64)


ASKED = [
    no_end, foreign, gradient, condition, used, nowhere, nothing, missing_package, standard, foreign_env,
]  # fmt: skip


@pytest.mark.parametrize("ask", ASKED, ids=lambda ask: ask.__name__)
def test_no_error_of_the_api_names_a_flag(ask, logs):
    with pytest.raises(RLError) as caught:
        ask(logs)
    assert "--" not in str(caught.value), caught.value


def test_the_error_stays_what_it_was(logs):
    with pytest.raises(ConfigError, match=r"env_steps=, updates= or") as caught:
        no_end(logs)
    assert caught.value.exit_code == 2 and caught.traceback[-1].name == "train"
