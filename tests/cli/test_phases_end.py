"""Phases from the command line: those that end are an end of the run, and a budget ends them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import CARTPOLE, Rl

COLLECT, UPDATE = {"hooks": ["collect"]}, {"hooks": ["collect", "update"]}


def config(folder: Path, *phases: dict[str, Any], run: str = "run: {eval_episodes: 1}") -> str:
    """The tiny config without a budget, in phases."""
    lines = [line for line in CARTPOLE.splitlines() if not line.startswith("run:")]
    callback = {"class_path": "Phases", "init_args": {"phases": list(phases)}}
    path = folder / "phases.yaml"
    path.write_text("\n".join([*lines, run, f"trainer: {{callbacks: [{json.dumps(callback)}]}}", ""]))
    return str(path)


def test_phases_that_end_are_the_end_of_the_run(rl: Rl, workdir: Path) -> None:
    path = config(workdir, {"env_steps": 64, **COLLECT}, {"updates": 2, **UPDATE}, {"type": "eval_only"})
    result = rl("fit", "--config", path, "--name", "ends")
    assert result.code == 0, result
    assert "until its phases end" in result.out and "all phases done" in result.out
    record = json.loads((workdir / "lightning_logs/ends/run.json").read_text())
    assert (record["status"], record["env_step"], record["update"]) == ("finished", 128, 2)
    again = rl("resume", "ends")
    assert again.code == 0, again
    record = json.loads((workdir / "lightning_logs/ends/run.json").read_text())
    assert (record["status"], record["env_step"], record["update"]) == ("finished", 128, 2)


ENDLESS = [
    ({"name": "forever", **UPDATE},),
    ({"name": "forever", **UPDATE}, {"cycles": 1}),  # the last one is never reached
    ({"name": "forever", "updates": 5, **COLLECT},),
    ({"name": "forever", "type": "offline", "env_steps": 5},),
]


@pytest.mark.parametrize("phases", ENDLESS, ids=str)
def test_a_phase_without_an_end_needs_a_budget(rl: Rl, workdir: Path, phases: tuple[Any, ...]) -> None:
    result = rl("fit", "--config", config(workdir, *phases))
    assert result.code == 2 and "phase 'forever' has no end" in result.err, result
    assert not list((workdir / "lightning_logs").glob("*")), "nothing is left behind"


def test_a_budget_ends_phases(rl: Rl, workdir: Path) -> None:
    path = config(workdir, {"name": "forever", **UPDATE}, run="run: {updates: 2, eval_episodes: 1}")
    result = rl("fit", "--config", path, "--name", "budget")
    assert result.code == 0 and "2 updates done" in result.out, result
