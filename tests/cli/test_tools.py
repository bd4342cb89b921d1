"""Commands that only look, and how soon they may answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from rl_lightning.analysis import doctor
from rl_lightning.analysis.plot import Curve, in_characters
from rl_lightning.cli.commands import COMMANDS
from rl_lightning.extras import pip_command, pip_install
from rl_lightning.io.text import short
from rl_lightning.runs.config import catalog

from .conftest import Rl

QUICK = [
    ["--help"],
    ["--version"],
    ["doctor"],
    ["list"],
    ["list", "configs"],
    ["list", "algorithms"],
    ["list", "envs"],
]


def test_quick_commands_load_neither_torch_nor_lightning(workdir: Path) -> None:
    lines = QUICK + [[name, "--help"] for name in COMMANDS]
    script = (
        "import sys, json\nfrom rl_lightning.cli import main\n"
        f"codes = [main(line) for line in {lines!r}]\n"
        "heavy = [m for m in ('torch', 'lightning', 'gymnasium', 'jsonargparse', 'numpy') if m in sys.modules]\n"
        "print(json.dumps([codes, heavy]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    codes, heavy = json.loads(done.stdout.splitlines()[-1])
    assert heavy == [] and codes[2] in (0, 2)
    assert all(code == 0 for i, code in enumerate(codes) if i != 2)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(rl: Rl, command: str) -> None:
    result = rl(command, "--help")
    assert result.code == 0 and f"usage: rl {command}" in result.out
    assert rl("help", command).out.startswith(f"usage: rl {command}")


def test_the_overview_has_a_line_for_every_command(rl: Rl) -> None:
    lines = [line.split() for line in rl("--help").out.splitlines() if line.startswith("  ")]
    assert [line[0] for line in lines] == list(COMMANDS) and all(len(line) > 1 for line in lines)


@pytest.mark.parametrize(
    ("command", "shared"),
    [
        ("fit", "--KEY.SUBKEY"), ("validate", "--KEY.SUBKEY"), ("test", "--KEY.SUBKEY"), ("compare", "--threshold"),
        ("export", "--threshold"), ("report", "group of seeds"),
    ],
)  # fmt: skip
def test_shared_options_are_filled_in(rl: Rl, command: str, shared: str) -> None:
    text = rl(command, "--help").out
    assert shared in text and not {"[CONFIG]", "[GROUPS]", "[STATISTICS]"} & set(text.split())


def test_fit_help_shows_the_options_of_a_config(rl: Rl) -> None:
    text = rl("fit", "--config", "cartpole.yaml", "--help").out
    for option in ("--run.env_steps", "--log.wandb", "--model.gamma", "--data.num_envs"):
        assert option in text
    assert "--model.spec" not in text


def test_lists(rl: Rl) -> None:
    assert {"PPO", "DQN", "SAC"} <= {
        row["algorithm"] for row in json.loads(rl("list", "algorithms", "--format=json").out)
    }
    assert "--model.lr" in rl("list", "algorithms", "PPO").out
    assert "CartPole-v1" in rl("list", "envs", "classic").out
    assert "nothing among" in rl("list", "envs", "no-such-thing").out
    assert rl("list", "confgs").code == 2
    assert rl("list").out.startswith("no runs here yet")
    assert rl("list", "--format", "xml").code == 2


def test_listed_envs_exist(rl: Rl) -> None:
    import gymnasium

    rows = json.loads(rl("list", "envs", "--format", "json").out)
    own = [row["env"] for row in rows if row["suite"] in ("classic_control", "box2d", "mujoco", "toy_text")]
    assert len(own) > 20 and [name for name in own if name not in gymnasium.registry] == []


def test_catalog_reads_docs_and_defaults() -> None:
    entry = catalog.find("RunConfig")
    assert entry is not None and catalog.find(entry.path) == entry
    options = {option.name: option for option in entry.options}
    assert options["eval_episodes"].default == "10" and options["tags"].default == "[]"
    assert "Budget of environment steps" in options["env_steps"].doc
    assert catalog.find("rl_lightning.nowhere.RunConfig") is None


def test_short_class_names_are_unique() -> None:
    seen: dict[str, str] = {}
    for folder in catalog.FOLDERS:
        for name, entry in catalog.classes(folder).items():
            assert name not in seen, f"{name}: {seen[name]} and {entry.path}"
            seen[name] = entry.path


def test_argument_docs() -> None:
    text = "Does x.\n\nArgs:\n    a: First.\n    b (int): Second,\n        goes on.\n\nMore: no.\n"
    assert catalog.argument_docs(text) == {"a": "First.", "b": "Second, goes on."}
    assert catalog.argument_docs("None here.") == {}


def test_doctor_judges_versions_by_their_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    have = {"torch": "2.13.0+cpu", "lightning": "2.6.5"}
    monkeypatch.setattr(doctor, "version", lambda name: have.get(name, "1000"))
    told = {finding.text.split()[0]: finding for finding in doctor.required() if finding.level == "bad"}
    assert "lightning" in told and "torch" not in told
    assert "lightning 2.6.5 does not fit" in told["lightning"].text


def test_doctor_names_known_bad_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    have = {"mujoco": "4.0.0", "dm_control": "1.0.50", "lightning": "2.6.3", "gym": "0.26"}
    monkeypatch.setattr(doctor, "version", have.get)
    text = " ".join(f"{finding.text} {finding.repair}" for finding in doctor.known_bad())
    assert pip_install("mujoco>=3.17,<4") in text and "malicious" in text and "uninstall gym" in text


def test_doctor_gives_the_line_for_a_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = doctor.version
    monkeypatch.setattr(doctor, "version", lambda name: None if name == "wandb" else real(name))
    missing = [finding for finding in doctor.extras() if "wandb" in finding.text]
    assert missing[0].level == "note" and missing[0].repair == pip_command("wandb")


def test_curves_in_characters() -> None:
    curve = Curve("a", "env_step", [0.0, 50.0, 100.0], [1.0, 5.0, 9.0])
    lines = in_characters([curve], "eval/return", width=21, height=5).splitlines()
    assert lines[1].endswith("●") and lines[5].split("┤")[1].startswith("●") and "env_step" in lines[7]
    assert in_characters([Curve("a", "update", [3.0], [2.0])], "m")  # a single point has no span
    assert [short(x) for x in (5, 31_000, 1.2e6, 0.03125, -4e9)] == ["5", "31k", "1.2M", "0.03125", "-4G"]


@pytest.mark.slow
def test_doctor_deep(rl: Rl) -> None:
    assert "CartPole-v1 steps" in rl("doctor", "--deep").out


def test_data_modules_of_generic_bases_are_known_too():
    names = {entry.name for entry in catalog.data_modules()}
    assert {"OnlineData", "SequenceData", "OnPolicyData"} <= names


def test_watching_that_is_stopped_stops_nothing_else(rl: Rl, monkeypatch: pytest.MonkeyPatch) -> None:
    import rl_lightning.cli.train.watch as verb

    def interrupted(*words: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(verb, "_look", interrupted)
    result = rl("watch", "some-run")
    assert result.code == 130 and "stopped watching; some-run itself was left alone" in result.err


def test_tensorboard_calls_a_run_by_its_name(rl: Rl, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import rl_lightning.cli.train.tensorboard as verb

    commands: list[list[str]] = []

    def called(words: list[str], check: bool) -> SimpleNamespace:
        commands.append(words)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(verb.subprocess, "run", called)
    folder = workdir / "lightning_logs" / "one"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{}")
    assert rl("tensorboard", "one").code == 0
    assert f"one:{folder}" in commands[0]


def test_doctor_names_a_package_that_finds_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = "metaworld 3.1.1 needs mujoco==3.3.0, and 3.17.0 is installed"
    monkeypatch.setattr(doctor.wanted, "misfit", lambda name: pinned)
    assert any(pinned in finding.text for finding in doctor.known_bad())
