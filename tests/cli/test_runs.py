"""Run folders: names, claims, records."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rl_lightning.errors import ConfigError, ResumeError
from rl_lightning.redaction import REDACTED, redact, redact_words
from rl_lightning.runs.store.names import check_run_name, did_you_mean, nearest, slug
from rl_lightning.runs.store.run_folder import (
    Run,
    claim,
    fresh_name,
    resolve,
    resolve_group,
)
from rl_lightning.runs.store.run_record import config_hash, new_record

BAD_NAMES = [
    "../x",
    "/abs",
    "",
    "a" * 300,
    "a/b",
    "a\0b",
    ".hidden",
    "..",
    ".",
    "a b",
    "a\nb",
    "ä",
    "a" * 65,
    "~",
    "$HOME",
    "-x",
    "--name",
]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_bad_names(name: str, workdir: Path) -> None:
    before = sorted(workdir.rglob("*"))
    with pytest.raises(ConfigError, match="is not allowed"):
        claim(name, "stem")
    assert sorted(p for p in workdir.rglob("*") if p.name != "lightning_logs") == before


def test_good_names() -> None:
    for name in ("a", "lr1e-4", "ppo-cartpole-1", "x.y_z", "a" * 64, "_x"):
        assert check_run_name(name) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ppo/cartpole", "ppo-cartpole"),
        ("a/b.yaml", "a-b"),
        ("/x/y z.yml", "x-y-z"),
        ("...", "run"),
        ("../up", "up"),
    ],
)
def test_slug(text: str, name: str) -> None:
    assert slug(text) == name and check_run_name(slug(text))


def test_fresh_names_count_up(workdir: Path) -> None:
    assert [claim(None, "ppo-cartpole").name for _ in range(3)] == [f"ppo-cartpole-{i}" for i in (1, 2, 3)]
    assert claim(None, "ppo").name == "ppo-1"
    (workdir / "lightning_logs" / "sac-4-s0").mkdir()
    assert fresh_name("sac") == "sac-5"


def test_a_name_in_use_is_refused(workdir: Path) -> None:
    claim("mine", "stem")
    with pytest.raises(ConfigError, match="rl resume mine"):
        claim("mine", "stem")


def test_only_one_of_many_gets_a_name(workdir: Path) -> None:
    def attempt(_: int) -> bool:
        try:
            claim("same", "stem")
        except ConfigError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(16))) == 1
        names = list(pool.map(lambda _: claim(None, "fresh").name, range(16)))
    assert len(set(names)) == 16


def test_logs_root_by_variable_and_unwritable(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RL_LOGS", str(workdir / "elsewhere"))
    assert claim(None, "x").folder == workdir / "elsewhere" / "x-1"
    (workdir / "file").write_text("")
    monkeypatch.setenv("RL_LOGS", str(workdir / "file" / "below"))
    with pytest.raises(ConfigError, match="cannot make a run folder"):
        claim(None, "x")


def test_record(workdir: Path) -> None:
    run = claim("a", "a")
    run.update(status="started", group="g")
    run.update(status="finished")
    assert run.read()["status"] == "finished" and run.read()["group"] == "g"
    assert [p.name for p in run.folder.iterdir()] == ["run.json"]
    (run.folder / "run.json").write_text("{half")
    with pytest.raises(ResumeError, match="cannot be read"):
        run.read()


def test_resolve(workdir: Path) -> None:
    run = claim("mine", "x")
    run.update(group="g")
    assert resolve("mine").folder == run.folder
    assert resolve(str(workdir / "lightning_logs" / "mine")).name == "mine"
    assert [r.name for r in resolve_group("g")] == ["mine"]
    with pytest.raises(ConfigError, match="did you mean 'mine'"):
        resolve("mime")
    for name in ("", "a\0b", "nothing"):
        with pytest.raises(ConfigError):
            resolve(name)


def test_checkpoints(workdir: Path) -> None:
    run = claim("mine", "x")
    with pytest.raises(ResumeError, match="none yet"):
        run.checkpoint("best")
    folder = run.folder / "checkpoints"
    for number in (1, 2, 10):
        generation = folder / f"last-{number:06d}"
        generation.mkdir(parents=True)
        (generation / "model.ckpt").write_text("")
        (generation / "meta.json").write_text("{}")
    (folder / "last-000011").mkdir()  # cut short: nothing is in it
    newest = folder / "last-000010" / "model.ckpt"
    assert run.checkpoint("best") == run.checkpoint("last") == newest  # never evaluated: there is no best
    (folder / "best.ckpt").write_text("")
    assert run.checkpoint("best") == folder / "best.ckpt"
    assert run.checkpoint("last-000001").parent.name == "last-000001"
    with pytest.raises(ResumeError, match=r"it has best, last-000001"):
        run.checkpoint("step-5")


def test_secrets_are_blanked() -> None:
    config = {
        "log": {"api_key": "abc", "wandb_token": "t"},
        "env": {"kwargs": {"password": "p", "secret": ["s"], "PASSWORD": "q"}},
        "monitor_keys": "a", "num_tokens": 3, "key": 5, "tokenizer": "x", "milestone_every": "y",
    }  # fmt: skip
    assert redact(config) == {
        "log": {"api_key": REDACTED, "wandb_token": REDACTED},
        "env": {"kwargs": {"password": REDACTED, "secret": [REDACTED], "PASSWORD": REDACTED}},
        "monitor_keys": "a", "num_tokens": 3, "key": 5, "tokenizer": "x", "milestone_every": "y",
    }  # fmt: skip
    words = ["fit", "--log.api-key", "abc", "--x.token=t", "--name", "n"]
    assert redact_words(words) == ["fit", "--log.api-key", REDACTED, f"--x.token={REDACTED}", "--name", "n"]


def test_new_record_is_plain() -> None:
    config = {
        "model": {"class_path": "a.b.SAC"},
        "data": {"init_args": {"env": {"id": "X-v0"}}},
        "seed_everything": 3,
    }
    record = new_record(config, "g", ["rl"], 2)
    assert (record["algorithm"], record["env"], record["seed"], record["group"]) == ("SAC", "X-v0", 3, "g")
    assert "torch" in record["versions"]
    json.dumps(record)


def test_config_hash_ignores_seed_names_and_folders() -> None:
    config = {
        "model": {"class_path": "SAC", "init_args": {"lr": 1e-3, "pretrained": "/here/a/artifact"}},
        "run": {"name": "a", "tags": ["x"], "env_steps": 10},
        "seed_everything": 0,
    }
    other = {
        "model": {"class_path": "SAC", "init_args": {"lr": 1e-3, "pretrained": "/moved/a/artifact"}},
        "run": {"name": "b", "tags": [], "env_steps": 10},
        "seed_everything": 4,
        "log": {"tensorboard": False},
    }
    assert config_hash(config) == config_hash(other)
    for changed in ({"run": {"env_steps": 11}}, {"model": {"class_path": "SAC", "init_args": {"lr": 2e-3}}}):
        assert config_hash({**config, **changed}) != config_hash(config)


def test_nearest() -> None:
    assert nearest("ppo/cartpol", ["ppo/cartpole", "dqn/cartpole", "sac/hopper"])[0] == "ppo/cartpole"
    assert nearest("CARTPOLE", ["cartpole"]) == ["cartpole"]
    assert nearest("zzz", ["cartpole"]) == []
    assert did_you_mean("lrr", ["lr"]) == "; did you mean 'lr'?"
    assert Run(Path("x/y")).name == "y"
