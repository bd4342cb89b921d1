"""`--seeds`: one child process per seed, and what they say together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any

from rl_lightning.errors import ConfigError
from rl_lightning.io.score_counts import LAST, is_few
from rl_lightning.io.text import score
from rl_lightning.runs.engine.folder import GROUP_SEEDS
from rl_lightning.runs.store.names import check_run_name
from rl_lightning.runs.store.run_folder import Run, group_of, logs_root

RL = [sys.executable, "-m", "rl_lightning.cli"]


def run_group(words: list[str], group: str, seeds: list[int], jobs: int) -> int:
    """Trains every seed, `jobs` at a time; the group's scores at the end."""
    members = members_of(group, seeds)
    rest = without(words, ("seeds", "jobs", "name", "run.name", "seed", "seed_everything", "group"))
    cores = os.cpu_count() or 1
    if jobs > 1 and not any(word.startswith("--threads") for word in rest):
        rest += ["--threads", str(max(1, cores // jobs))]
    commands = {
        seed: [*RL, "fit", *rest, "--name", member, "--seed_everything", str(seed), "--group", group]
        for seed, member in members.items()
    }
    return finish(group, members, commands, jobs)


def members_of(group: str, seeds: list[int]) -> dict[int, str]:
    """The name of each seed's run; raises if one is in use."""
    members = {seed: check_run_name(f"{group}-s{seed}") for seed in seeds}
    used = [member for member in members.values() if (logs_root() / member).exists()]
    if used:
        raise ConfigError(
            f"run name '{used[0]}' is in use. Continue it with: rl resume {group}\nor choose another --name"
        )
    return members


def resume_group(group: str, runs: list[Run], words: list[str], jobs: int) -> int:
    """Goes on with every seed that is not finished, and begins those that never were; flags go to all of them."""
    records = {run.name: run.read() for run in runs}
    first = next(iter(records.values()))
    members = noted_members(group, runs)
    rest = without([word for word in words if word != group], ("jobs",))
    commands: dict[int, list[str]] = {}
    for seed, name in members.items():
        if name not in records:
            first_words = without([str(word) for word in first["command"][2:]], ("name", "seed_everything"))
            commands[seed] = [*RL, "fit", *first_words, *rest, "--name", name, "--seed_everything", str(seed)]
        elif rest or records[name].get("status") != "finished":
            commands[seed] = [*RL, "resume", name, *rest]
    return finish(group, members, commands, jobs)


def noted_members(group: str, runs: list[Run]) -> dict[int, str]:
    """The name of each seed's run, those that never began among them, by what the runs' records say."""
    records = {run.name: run.read() for run in runs}
    seeds = next(iter(records.values())).get("group_seeds")
    if not seeds:  # of trials, or begun before seeds were noted
        raise ConfigError(f"'{group}' does not say which seeds it has; resume its runs: {', '.join(records)}")
    return {seed: f"{group}-s{seed}" for seed in seeds}


def finish(group: str, members: dict[int, str], commands: dict[int, list[str]], jobs: int) -> int:
    """Runs the commands and says the scores of the group, and how to resume it if it was stopped."""
    codes = run_all(commands, jobs, list(members))
    print(summary(group, members))
    failed = {seed: code for seed, code in codes.items() if code}
    if failed:
        with_folder = {seed for seed, name in members.items() if (logs_root() / name).is_dir()}
        listing = ", ".join(
            f"seed {seed} ({f'exit {code}' if seed in with_folder else 'not begun'})"
            for seed, code in failed.items()
        )
        recorded = group_of(group) is not None  # else the same line is typed again
        following = f"; continue with: rl resume {group}" if recorded else ""
        print(f"not finished: {listing}{following}", file=sys.stderr)
    return next(iter(failed.values()), 0)


def run_all(commands: dict[int, list[str]], jobs: int, seeds: list[int]) -> dict[int, int]:
    """Exit code of every command. A signal goes to all that run; the rest is not started."""
    waiting = list(commands)
    running: dict[int, subprocess.Popen[str]] = {}
    codes: dict[int, int] = {}
    stopped: list[int] = []

    def stop(number: int, frame: Any) -> None:
        stopped.append(number)
        if number == signal.SIGTERM:  # Ctrl-C reaches the children by itself
            for process in running.values():
                process.send_signal(number)

    previous = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        while running or (waiting and not stopped):
            while waiting and len(running) < jobs and not stopped:
                seed = waiting.pop(0)
                running[seed] = start(commands[seed], f"[s{seed}] " if jobs > 1 else "", seeds)
            for seed, process in list(running.items()):
                if process.poll() is not None:
                    codes[seed] = process.returncode if process.returncode >= 0 else 128 - process.returncode
                    del running[seed]
            time.sleep(0.05)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    return codes | {seed: 128 + stopped[0] for seed in waiting if stopped}


def start(command: list[str], prefix: str, seeds: list[int]) -> subprocess.Popen[str]:
    """One child: with the terminal to itself, or with its lines marked when several share it."""
    known = {**os.environ, GROUP_SEEDS: ",".join(map(str, seeds))}
    if not prefix:
        return subprocess.Popen(command, text=True, env=known)
    process = subprocess.Popen(
        command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=1, env=known
    )

    def copy() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            print(prefix + line.rstrip(), flush=True)

    threading.Thread(target=copy, daemon=True).start()
    return process


def summary(group: str, members: dict[int, str]) -> str:
    """Best and last-10 score over seeds: a mean with its interval, or the scores themselves where they are few."""
    from rl_lightning.functional.score_statistics import bootstrap_interval, mean

    records = [Run(logs_root() / name).read() for name in members.values()]
    finished = sum(record.get("status") == "finished" for record in records)
    lines = [f"group {group}: {finished} of {len(records)} seeds finished"]
    for key, label in (("best", "best evaluation"), ("last10", "last-10 mean")):
        values = [record[key] for record in records if record.get(key) is not None]
        if not values:
            continue
        scale = max(map(abs, values))
        if is_few(len(values)):
            spread = f"from {', '.join(score(value, scale) for value in values)}"
        else:
            low, high = bootstrap_interval(values, statistic=mean)
            spread = f"95% interval {score(low, scale)} to {score(high, scale)}"
        lines.append(f"  {label:15}  mean {score(mean(values), scale)}, {spread}")
    if any(record.get("last10_of", LAST) < LAST for record in records):
        lines.append("  fewer than ten evaluations: the last-10 mean is that of all")
    return "\n".join([*lines, f"  rl plot {group} draws them"] if len(lines) > 1 and finished else lines)


def without(words: list[str], names: Iterable[str]) -> list[str]:
    """The command line without some options and their values (to hand the rest on to a child)."""
    names = set(names)
    rest: list[str] = []
    queue = list(words)
    while queue:
        word = queue.pop(0)
        name, equals, _ = word[2:].partition("=")
        if word.startswith("--") and name in names:
            if not equals and queue and not queue[0].startswith("--"):
                queue.pop(0)
            continue
        rest.append(word)
    return rest
