"""What is a secret, and where it must not be: one rule for everything that is written down."""

from __future__ import annotations

import pytest

from rl_lightning.redaction import REDACTED, redact, redact_words, redacted_keys, scrub, secret_name


@pytest.mark.parametrize(
    "name",
    [
        "api_key", "apiKey", "APIKey", "apikey", "access_key_id", "aws_secret_access_key", "apiToken", "passphrase",
        "auth", "basic_auth", "Authorization", "password", "PGPASS", "WANDB_API_KEY", "token", "hf_token",
        "secrets", "credentials", "key", "ssh_key", "client_keys",
    ],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["author", "num_tokens", "tokens", "tokenizer", "monitor_keys", "obs_key", "keep_every", "passes", "compass",
     "mask_token", "keyboard", "HOME", "DATA_ROOT", "", "x"],
)  # fmt: skip
def test_names_of_other_things(name: str) -> None:
    assert not secret_name(name)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://me:hunter2@host/x", f"postgresql://me:{REDACTED}@host/x"),
        ("redis://:pa/ss@w@host", f"redis://:{REDACTED}@host"),
        ("http://host:8080/a@b", "http://host:8080/a@b"),
        ("postgresql://me:${PGPASS}@host", "postgresql://me:${PGPASS}@host"),
        ("https://h/x?api_key=hunter2&n=3", f"https://h/x?api_key={REDACTED}&n=3"),
        ("Bearer abcdefgh1234", f"Bearer {REDACTED}"),
        ("ghp_" + "a" * 36, REDACTED),
        ("task-cartpole-with-a-long-name", "task-cartpole-with-a-long-name"),
        ("data/hopper.hdf5", "data/hopper.hdf5"),
    ],
)  # fmt: skip
def test_texts(text: str, shown: str) -> None:
    assert scrub(text) == shown == scrub(shown)


def test_numbers_and_what_lies_below_a_secret_name() -> None:
    config = {
        "password": 1234,
        "auth": {"user": "me", "rest": [1.5, "x"], "on": True},
        "key": 5,
        "n": 3,
        "pass": "",
    }
    assert redact(config) == {
        "password": REDACTED, "auth": {"user": REDACTED, "rest": [REDACTED] * 2, "on": True}, "key": 5, "n": 3,
        "pass": "",
    }  # fmt: skip
    assert redacted_keys({"data": {"init_args": {"env": {"kwargs": {"token": REDACTED}}}}}) == [
        "data.env.kwargs.token"
    ]


def test_command_lines() -> None:
    words = ["--data.env.kwargs", "{api_key: hunter2, n: 3}", "--x.auth.user=me", "--log.apiToken", "t", "--lr", "1e-3",
             "--url=a://u:p@h", "--x.token", "--y", "{n: 3}"]  # fmt: skip
    assert redact_words(words) == [
        "--data.env.kwargs", f"{{api_key: {REDACTED}, n: 3}}", f"--x.auth.user={REDACTED}", "--log.apiToken", REDACTED,
        "--lr", "1e-3", f"--url=a://u:{REDACTED}@h", "--x.token", "--y", "{n: 3}",
    ]  # fmt: skip
