"""What the documents say is so: commands parse, files exist, every option is described, extending.md runs."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from rl_lightning.cli import main
from rl_lightning.cli.commands import COMMANDS
from rl_lightning.cli.help import text_of, verbs_of
from rl_lightning.runs.config import catalog
from rl_lightning.runs.config.compose import compose
from rl_lightning.runs.config.parsing import parse_config
from rl_lightning.runs.request import Request

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in FENCE.findall(page.read_text()) if kind == language]


def commands(page: Path) -> list[list[str]]:
    lines = [line for block in blocks(page, "bash") for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.startswith("rl ")]


def load_generator():
    spec = importlib.util.spec_from_file_location("make_options", ROOT / "scripts" / "make_options.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def generator():
    return load_generator()


OPTION_CLASSES = [cls for section in load_generator().sections() for cls in section.classes]


@pytest.mark.parametrize("cls", OPTION_CLASSES, ids=lambda cls: cls.__name__)
def test_every_argument_has_a_line(generator, cls):
    rows = generator.rows(cls)
    assert not [row.name for row in rows if not row.doc], "undocumented arguments"
    stale = generator.documented(cls) - {row.name for row in rows}
    assert not stale, f"the docstring describes what is no argument: {stale}"


def test_options_page_is_up_to_date(generator):
    text = generator.PAGE.read_text(encoding="utf-8")
    assert text == generator.page(), "docs/options.md is out of date: make docs"


def test_the_page_of_other_libraries_is_up_to_date(generator):
    text = generator.COMING_FROM.read_text(encoding="utf-8")
    assert text == generator.coming_from(), "docs/coming-from.md is out of date: make docs"


def test_the_page_of_other_libraries_names_every_one(generator):
    text = generator.COMING_FROM.read_text(encoding="utf-8")
    assert all(f"\n## {name}\n" in text for name in generator.aliases.LIBRARIES)
    rows = sum(line.startswith("| `") for line in text.splitlines())
    assert rows == len(generator.aliases.table())


def test_options_page_leaves_nothing_out(generator):
    """Read from the source, so that a recipe in a module that nobody imports is missed here and not by the user."""
    roots = {
        "algorithms": "RLModule", "datamodules": "RLData", "networks": "Network", "buffers": "BufferRecipe",
        "envs": "Transform", "callbacks": "Callback",
    }  # fmt: skip
    described = {cls.__name__ for cls in OPTION_CLASSES}
    bases = {
        "SimulatedEnvMixin",
        "EnvData",
        "EvaluatedData",
        "EvalEnvData",
        "ReplayData",
    }  # make no blocks themselves
    bases |= {"PolicyModule", "ModelModule", "EMAModule", "SoftActorCritic", "DeepQLearning"}  # no rules
    for folder, root in roots.items():
        names = {entry.name for entry in catalog.children(folder, root)}
        assert names - bases <= described, names - described


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target


SHOWN = [(page.stem, words) for page in PAGES for words in commands(page) if "--import" not in words]


@pytest.mark.parametrize("words", [words for _, words in SHOWN], ids=[" ".join(words) for _, words in SHOWN])
def test_shown_commands_are_real(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RL_LOGS", raising=False)
    command, *rest = words[1:]
    if command == "fit":
        code = main(["fit", *rest, "--print_config"])
        assert code == 0, capsys.readouterr().err
        return
    help_text = verbs_of(command).get(rest[0] if rest else "", text_of(command))
    for word in rest:
        if word.startswith("--"):
            assert word in help_text, f"rl {command} has no {word}"
    assert command in COMMANDS


YAML = [text for page in PAGES if page.stem != "extending" for text in blocks(page, "yaml")]


@pytest.mark.parametrize("text", YAML, ids=lambda text: text.split("\n", 1)[0])
def test_shown_yaml_parses(text, tmp_path, monkeypatch):
    """A whole config by itself, a part of one over a shipped one; of a pipeline only the keys are looked at."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shown.yaml").write_text(text)
    groups = yaml.safe_load(text)
    whole = {"model", "extends", "stages"} & set(groups)
    config = compose(["./shown.yaml"] if whole else ["ppo/cartpole", "./shown.yaml"])
    if "stages" not in groups:
        resolved = parse_config(config, Request()).config
        assert all(group in resolved for group in groups if group != "extends")


def test_source_files_that_source_names_exist():
    """Docstrings and comments speak of modules by file name; one that moved must take its mentions along."""
    there = {
        path.name
        for folder in ("rl_lightning", "benchmarks", "scripts")
        for path in (ROOT / folder).rglob("*.py")
    }
    written = {"play.py"}  # an export of ours writes it
    for folder in ("rl_lightning", "benchmarks"):
        for path in (ROOT / folder).rglob("*.py"):
            named = set(re.findall(r"(?<![\w.}/-])([a-z_0-9]+\.py)\b", path.read_text(encoding="utf-8")))
            assert not named - there - written, f"{path.relative_to(ROOT)} names {named - there - written}"


def test_docstrings_describe_arguments_that_exist():
    """Of every class and function of the package, also of those that no config can name."""
    for path in (ROOT / "rl_lightning").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ClassDef | ast.FunctionDef):
                continue
            _, _, described = (ast.get_docstring(node) or "").partition("Args:")
            made_by = node
            if isinstance(node, ast.ClassDef):
                made_by = next((part for part in node.body if getattr(part, "name", "") == "__init__"), None)
            if not described or made_by is None or made_by.args.vararg or made_by.args.kwarg:
                continue
            takes = made_by.args
            names = {each.arg for each in (*takes.posonlyargs, *takes.args, *takes.kwonlyargs)}
            stale = set(re.findall(r"^    (\w+):", described, re.MULTILINE)) - names
            assert not stale, f"{path.relative_to(ROOT)}: {node.name} does not take {stale}"


DRIVER = """\
import json, sys
from rl_lightning.cli import main
if __name__ == "__main__":
    for words in json.loads(sys.argv[1]):
        assert main(words[1:]) == 0, words
"""


def test_extending_runs_as_shown(tmp_path):
    """Writes the files of extending.md and runs its commands, all in one fresh process."""
    page = ROOT / "docs" / "extending.md"
    for text in [*blocks(page, "python"), *blocks(page, "yaml")]:
        name = re.match(r"# (\S+\.(?:py|yaml))\n", text)
        assert name, f"a file must start with its name: {text[:40]}"
        path = tmp_path / name.group(1)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    lines = commands(page)
    assert lines and all("--debug" in words and "my_package" in words for words in lines)
    (tmp_path / "drive.py").write_text(DRIVER)
    done = subprocess.run(
        [sys.executable, "drive.py", json.dumps(lines)],
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("\nnext:") >= len(lines)
    assert "dropped with the former class DQN" not in done.stderr
    configs = [
        yaml.safe_load(path.read_text()) for path in (tmp_path / "lightning_logs").glob("*/config.yaml")
    ]
    child = next(found["model"] for found in configs if str(found.get("model")).find("ArrowOfTime") >= 0)
    parent = compose(["dqn/cartpole"])["model"]["init_args"]
    kept = {name: child["init_args"][name] for name in parent if not isinstance(parent[name], dict)}
    assert kept == {name: parent[name] for name in kept} and len(kept) > 2, (
        "a subclass keeps its parent's settings"
    )
