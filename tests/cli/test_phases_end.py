"""Phases from the command line: those that end are an end of the run, and a budget ends them."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from generated_data import write_rows

from rl_lightning.clock.phases import PhaseCursor, parse_phases
from rl_lightning.clock.run_clock import RunClock, RunConfig

from .conftest import CARTPOLE, Rl

CONFIGS = Path(__file__).parents[2] / "configs"
PHASED = sorted(path for path in CONFIGS.rglob("*.yaml") if "Phases" in path.read_text())

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


def test_noise_on_discrete_actions_is_refused_before_anything_is_trained(rl: Rl, workdir: Path) -> None:
    later = {"name": "noisy", "updates": 1, "exploration_noise": 0.1, **UPDATE}
    result = rl("fit", "--config", config(workdir, {"updates": 1, **UPDATE}, later))
    assert result.code == 2 and "phase 'noisy': exploration_noise needs continuous" in result.err, result
    assert not list((workdir / "lightning_logs").glob("*")), "nothing was trained, nothing is left behind"


def reached(err: str) -> int:
    return sum(line.startswith("phase ") for line in err.splitlines())


@pytest.mark.parametrize("path", PHASED, ids=lambda path: str(path.relative_to(CONFIGS)))
def test_debug_reaches_every_phase(rl: Rl, workdir: Path, path: Path) -> None:
    for name in re.findall(r"dataset: (local/[\w-]+)", path.read_text()):
        write_rows(name)
    small = {"env_steps": "60", "eval_episodes": "1", "data.batch_size": "2", "data.num_envs": "1"}
    if path.parent.name != "sac":
        small["data.sequence_length"] = "4"
    words = [word for key, value in small.items() for word in (f"--{key}", value)]
    result = rl(
        "fit", "--config", str(path), "--name", "debug", "--debug", "--log.tensorboard", "false", *words
    )
    assert result.code == 0, result
    count = len(yaml.safe_load(path.read_text())["trainer"]["callbacks"][0]["init_args"]["phases"])
    assert reached(result.err) == count, result.err
    assert json.loads((workdir / "lightning_logs/debug/run.json").read_text())["update"] > 0


def test_debug_makes_room_for_phases_and_leaves_what_flags_set(rl: Rl, workdir: Path) -> None:
    warm = {"name": "update", "count": 500, "after_updates": 0}
    phases = [
        {"duration_steps": 5000, "hooks": ["collect"]},
        {"env_steps": 5000, "cycles": 2, "hooks": ["collect", warm], "collect_steps": 400},
        {"type": "offline", "updates": 900},
        {"type": "online"},
    ]
    path = config(workdir, *phases, run="run: {env_steps: 100000, eval_episodes: 1}")

    def shown(*words: str) -> tuple[int, Any]:
        result = rl("fit", "--config", path, "--debug", "--print_config", *words)
        assert result.code == 0, result
        found = yaml.safe_load(result.out)
        return found["run"]["env_steps"], found["trainer"]["callbacks"][0]["init_args"]["phases"]

    budget, (first, second, third, last) = shown()
    assert budget == 3 * 128, "three phases collect"
    assert (first["duration_steps"], second["env_steps"], third["updates"]) == (128, 128, 8)
    assert (second["cycles"], second["collect_steps"]) == (2, 32), "what is small stays"
    assert second["hooks"][1] == {"name": "update", "count": 4, "after_updates": 0} and last == {
        "type": "online"
    }
    budget, (first, *_) = shown("--env_steps", "60")
    assert (budget, first["duration_steps"]) == (60, 20)
    given = json.dumps([{"class_path": "Phases", "init_args": {"phases": phases}}])
    assert shown(f"--trainer.callbacks={given}")[1] == phases


def offline(folder: Path) -> str:
    """DQN that collects a little, then learns from that alone."""
    phases = [
        {"name": "fill", "env_steps": 64, **COLLECT},
        {"name": "learn", "type": "offline", "hooks": ["update"], "updates": 40},
    ]
    path = config(folder, *phases, run="run: {eval_episodes: 1}")
    whole = yaml.safe_load(Path(path).read_text())
    whole["model"] = {"class_path": "DQN"}
    whole["data"] = {
        "class_path": "OnlineData",
        "init_args": {"env": {"id": "CartPole-v1"}, "num_envs": 2, "batch_size": 8, "learning_starts": 16},
    }
    Path(path).write_text(yaml.safe_dump(whole))
    return path


@pytest.mark.parametrize(("flags", "rows"), [([], 40), (["--log.every", "10"], 4)])
def test_an_offline_phase_writes_rows(rl: Rl, workdir: Path, flags: list[str], rows: int) -> None:
    """While no env steps, updates are what metrics are written against; also after a resume."""
    assert rl("fit", "--config", offline(workdir), "--name", "o", *flags).code == 0
    with open(workdir / "lightning_logs/o/metrics.csv", newline="") as file:
        found = [
            (int(row["env_step"]), int(row["update"]))
            for row in csv.DictReader(file)
            if row.get("train/loss")
        ]
    later = [update for env_step, update in found if env_step == 64 and update]
    assert len(set(later)) == rows and max(later) == 40


def test_the_bar_moves_with_the_updates_of_an_offline_phase() -> None:
    from types import SimpleNamespace

    from rl_lightning.callbacks.progress_bar import Fact, RunProgressBar

    def said(state: tuple[float | None, list[Fact]]) -> str:
        return " ".join(fact.text for fact in state[1])

    bar = RunProgressBar(SimpleNamespace(latest={"train/loss": 0.5}), SimpleNamespace(last=None), "run")
    schedule = RunClock(RunConfig(env_steps=1000))
    schedule.env_step, schedule.phases = (
        64,
        PhaseCursor(parse_phases([{"type": "offline", "updates": 40}], ["update"])),
    )
    assert "env_step 64/1k" in said(bar.state(schedule))
    schedule.update = schedule.phases.updates = 20
    state = bar.state(schedule)
    assert "update 20/40" in said(state) and "updates/s" in said(state) and "loss 0.5" in said(state)
    assert state[0] == 0.5


def test_a_phase_is_announced_where_it_begins_and_where_a_run_goes_on(workdir: Path, rl: Rl) -> None:
    phases = ({"name": "fill", "env_steps": 64, **COLLECT}, {"name": "learn", "updates": 40, **UPDATE})
    path = config(workdir, *phases, run="run: {env_steps: 32, eval_episodes: 1}")
    begun = rl("fit", "--config", path, "--name", "a")
    assert begun.err.count("phase ") == 1 and "phase 1/2: fill at env_step 0\n" in begun.err
    more = rl("resume", "a", "--env_steps", "900", "--updates", "10")
    assert "phase 1/2: fill resumed at env_step 32 (32/64 env steps done)" in more.err
    assert more.err.count("phase ") == 2 and "phase 2/2: learn at env_step 64\n" in more.err
    rest = rl("resume", "a", "--env_steps", "900", "--updates", "30")
    assert rest.err.count("phase ") == 1 and "learn resumed at env_step 384 (10/40 updates done)" in rest.err
