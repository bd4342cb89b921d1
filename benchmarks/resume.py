"""Six things that happen to a training, done to ours, stable-baselines3 and sheeprl: who ends as a run left alone?

    .venv/bin/python benchmarks/resume.py                    everything; prints the table
    .venv/bin/python benchmarks/resume.py --only kill --kills 30 --contender ours
    .venv/bin/python benchmarks/resume.py --quick --contender ours

Every library trains the same (resume_settings.py): PPO on CartPole-v1 and SAC on Pendulum-v1, one thread, one seed;
all but the first two rows are SAC's, which has a replay to lose. Each is asked by its own documented means:

- ours: `rl fit` with run.save_every, `rl resume RUN`.
- stable-baselines3: CheckpointCallback(save_replay_buffer=True), and model.save and save_replay_buffer at the end;
  load(env=...), load_replay_buffer, learn(reset_num_timesteps=False). The newest file is the one with the most steps.
- sheeprl: checkpoint.every, buffer.checkpoint=True, buffer.memmap=False; checkpoint.resume_from, likewise the newest.

`equal` is to the last bit: weights, optimizers, env steps and updates, replay, env, metrics (without seconds). The
number behind `weights` is the largest absolute difference. What a library does not save is not compared: the env of
sheeprl, the generators of both peers. `never stopped, twice` shows that each repeats itself if nothing happens.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import machine
import peers
from resume_trials import TRIALS, Contender, attempt

PACKAGES = {"sb3": "stable-baselines3", "sheeprl": "sheeprl"}
NAMES = ("ours", *PACKAGES)


def contender(name: str, place: Path, kills: int) -> Contender | None:
    python = sys.executable if name == "ours" else peers.python_of(name)
    folder = place / name
    folder.mkdir()
    return Contender(name, str(python), f"resume_{name}.py", folder, kills) if python else None


def table(answers: dict[str, dict[str, str]]) -> str:
    """Rows are what happens, columns who it happens to."""
    chosen = list(next(iter(answers.values())))
    rows = [["", *answers], ["---"] * (len(answers) + 1)]
    rows += [[TRIALS[trial][0], *(found[trial] for found in answers.values())] for trial in chosen]
    return "\n".join("| " + " | ".join(cell.replace("|", "/") for cell in row) + " |" for row in rows)


def versions(names: list[str]) -> str:
    found = [machine.describe(1)[1]]
    for name in names:
        python = peers.python_of(name) if name in PACKAGES else None
        if python:
            found.append(f"{name}: {peers.versions(python, [PACKAGES[name], 'torch'])}")
    return "\n".join([*found, f"{datetime.now(UTC):%Y-%m-%d}"])


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--only", choices=list(TRIALS), action="append", help="this trial; may be repeated")
    parser.add_argument("--contender", choices=NAMES, action="append", help="this one; may be repeated")
    parser.add_argument("--kills", type=int, help="how many runs are killed (default 8, quick 1)")
    parser.add_argument("--jobs", type=int, default=1, help="contenders at a time; no time is measured")
    parser.add_argument("--quick", action="store_true", help="fewer steps: does it run?")
    options = parser.parse_args()
    os.environ["RL_RESUME_SIZE"] = "quick" if options.quick else "full"
    kills = options.kills or (1 if options.quick else 8)
    names, trials = options.contender or list(NAMES), options.only or list(TRIALS)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        chosen = {name: contender(name, Path(folder), kills) for name in names}
        there = [me for me in chosen.values() if me]
        found = pool.map(lambda me: {trial: attempt(trial, me) for trial in trials}, there)
        answers = dict(zip((me.name for me in there), found, strict=True))
    print("\n".join([table(answers), "", versions(names)]))
    print(*(f"{name}: does not install here" for name, me in chosen.items() if me is None), sep="\n")


if __name__ == "__main__":
    main()
