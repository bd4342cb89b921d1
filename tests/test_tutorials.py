"""The tutorials do what they say, with smaller budgets; sweeps.md shows sweeps."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from rl_lightning.sweep.definition import read_definition

DOCS = Path(__file__).parents[1] / "docs"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What makes a shown command short; the rest of it is run as it stands.
SMALL = {
    "fit": [
        "--env_steps",
        "512",
        "--eval_every",
        "256",
        "--eval_episodes",
        "2",
        "--log.tensorboard",
        "false",
    ],
    "resume": ["--env_steps", "768"],
    "test": ["--episodes", "2"],
}
DRIVER = """\
import json, sys
from rl_lightning.cli import main
if __name__ == "__main__":
    for words in json.loads(sys.argv[1]):
        print("$", *words, flush=True)
        assert main(words[1:]) == 0, words
"""


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in FENCE.findall(page.read_text()) if kind == language]


def commands(page: Path) -> list[list[str]]:
    lines = [line for block in blocks(page, "bash") for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.startswith("rl ")]


def run(lines: list[list[str]], folder: Path) -> str:
    (folder / "drive.py").write_text(DRIVER)
    done = subprocess.run(
        [sys.executable, "drive.py", json.dumps(lines)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_train_resume_compare(tmp_path):
    shown = commands(DOCS / "tutorials/train-resume-compare.md")
    lines = []
    for words in shown:
        small = SMALL.get(words[1], [])
        given = [option for option in small[::2] if option in words]
        for option in given:  # the smaller number instead of the one that is shown
            words[words.index(option) + 1] = small[small.index(option) + 1]
        lines.append(words + [w for i, w in enumerate(small) if small[i - i % 2] not in given])
    out = run(lines, tmp_path)
    assert "was reproduced" in out and "group slow: 2 of 2 seeds finished" in out
    assert (tmp_path / "lightning_logs/slow-s1/run.json").is_file()


def test_add_an_algorithm(tmp_path):
    page = DOCS / "tutorials/add-an-algorithm.md"
    for text in [*blocks(page, "python"), *blocks(page, "yaml")]:
        name = re.match(r"# (\S+\.(?:py|yaml))\n", text)
        assert name, f"a file must start with its name: {text[:40]}"
        path = tmp_path / name.group(1)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    out = run(commands(page), tmp_path)
    assert out.count("done:") == 3


@pytest.mark.parametrize("page", sorted((DOCS / "tutorials").glob("*.md")), ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target


@pytest.mark.parametrize("text", blocks(DOCS / "sweeps.md", "yml"), ids=lambda text: text.split("\n", 1)[0])
def test_shown_sweeps_are_sweeps(text):
    read_definition(yaml.safe_load(text), "shown")


def test_shown_tuner_runs(tmp_path):
    pytest.importorskip("optuna")
    (code,) = blocks(DOCS / "sweeps.md", "python")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0 and "complete" in done.stdout, done.stderr
