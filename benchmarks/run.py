"""Ratios against other libraries, against Lightning's own cost, and against the env's own pace.

    make bench                                   everything; writes docs/benchmarks.md
    .venv/bin/python benchmarks/run.py --only ppo --quick

Rows: PPO CartPole-v1 (8 envs x 128 steps, 4 passes of 4 minibatches of 256), SAC Hopper-v5 (256 x 256, batch 256, one
update per step, after learning has started; fp32, and bf16 beside it), DQN CartPole-v1 (rl-zoo's settings), all
against stable-baselines3, and sheeprl where it installs; Lightning's share of PPO, DQN and SAC; collecting with a
random policy on CartPole, Hopper and Atari (wrappers, and ALE's native vector env).

Each library has a venv of its own below $RL_BENCH_DIR (default: rl_lightning-bench in the user's cache) and every
figure a process of its own, with one thread or as many as `--threads` says. Contenders take turns, and the median of
three counts. Let nothing else run meanwhile: the load average is printed with the table, and above about 1 (or the
number of threads) the figures are rough.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import machine
import peers
import settings
from report import Row, table, write

HERE = Path(__file__).resolve().parent
ROUNDS = 3
TIMEOUT = 1800.0
Contender = tuple[str, list[str]]  # name and command


def play(command: list[str]) -> dict[str, Any] | None:
    """The figures that a worker prints as its last line; None where it failed."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    threads = dict.fromkeys(names, str(settings.threads()))
    try:
        found = subprocess.run(
            command, env=os.environ | threads, cwd=HERE, capture_output=True, text=True, timeout=TIMEOUT
        )
    except subprocess.TimeoutExpired:
        print(f"  {' '.join(command[1:])}: no answer in {TIMEOUT:.0f} s", file=sys.stderr)
        return None
    if found.returncode:
        reason = (found.stderr.strip().splitlines() or ["no reason given"])[-1]
        print(f"  {' '.join(command[1:])} failed: {reason}", file=sys.stderr)
        return None
    return json.loads(found.stdout.strip().splitlines()[-1])  # type: ignore[no-any-return]


def take_turns(contenders: list[Contender], key: str, rounds: int) -> dict[str, float | None]:
    """The median of each contender; a contender that fails once is not asked again."""
    figures: dict[str, list[float]] = {name: [] for name, _ in contenders}
    failed: set[str] = set()
    for _ in range(rounds):
        for name, command in contenders:
            result = None if name in failed else play(command)
            if result is None:
                failed.add(name)
            else:
                figures[name].append(result[key])
                print(f"  {name}: {result[key]:.4g}", file=sys.stderr)
    return {name: statistics.median(found) if found else None for name, found in figures.items()}


def worker(python: Path | str, file: str, *args: str) -> list[str]:
    return [str(python), str(HERE / file), *args]


def training(rule: str, size: str, rounds: int) -> list[Row]:
    """Our steps per second against each peer's; the bar is for the fastest of them."""
    title, bar, names = {
        "ppo": ("PPO CartPole-v1, 8 envs", 1.8, ("sb3", "sheeprl")),
        "dqn": ("DQN CartPole-v1", 1.5, ("sb3",)),
        "sac": ("SAC Hopper-v5", 1.3, ("sb3", "sheeprl")),
    }[rule]
    contenders: list[Contender] = [("ours", worker(sys.executable, "ours.py", rule, size))]
    missing = []
    for name in names:
        python = peers.python_of(name)
        if python is None:
            missing.append(Row(rule, title, "", f"{name}: does not install here", None))
        else:
            contenders.append((name, worker(python, f"{name}_worker.py", rule, size)))
    if rule == "sac" and has_bf16():
        contenders.append(("ours bf16", worker(sys.executable, "ours.py", rule, size, "bf16-mixed")))
    rates = take_turns(contenders, "rate", rounds)
    fastest = max(names, key=lambda name: rates.get(name) or 0.0)
    rows = [
        compare(rule, title, rates["ours"], name, rates[name], bar if name == fastest else None)
        for name, _ in contenders
        if name in names
    ]
    if "ours bf16" in rates:
        beside = rates.get(fastest)
        rows.append(
            compare(rule, f"{title}, bf16-mixed", rates["ours bf16"], f"{fastest} fp32", beside, None)
        )
    elif rule == "sac":
        rows.append(Row(rule, f"{title}, bf16-mixed", "not run", "this CPU has no bf16 products", None))
    return rows + missing


def compare(
    rule: str, title: str, ours: float | None, name: str, peer: float | None, bar: float | None
) -> Row:
    ratio = ours / peer if ours and peer else None
    mine = f"{ours:,.0f} steps/s" if ours else "failed"
    return Row(rule, title, mine, f"{name} {peer:,.0f} steps/s" if peer else f"{name}: failed", ratio, bar)


def lightning_share(size: str, rounds: int) -> list[Row]:
    rows = []
    for rule in ("ppo", "dqn", "sac"):
        over = take_turns(
            [(f"share of {rule}", worker(sys.executable, "share.py", rule, size))], "over", rounds
        )
        (value,) = over.values()
        title = f"Lightning's share, {rule.upper()}"
        rows.append(Row("share", title, "Trainer", "bare loop", value, 0.05, at_most=True, percent=True))
    return rows


def collecting(size: str, rounds: int) -> list[Row]:
    rows = []
    cases = {
        "cartpole": ("CartPole-v1, 8 envs", 0.5),
        "hopper": ("Hopper-v5, 8 envs", 0.85),
        "atari": ("Pong, wrappers, 8 envs", 0.85),
        "atari-native": ("Pong, native, 8 envs", 0.85),
    }
    for case, (title, bar) in cases.items():
        found = [
            result
            for _ in range(rounds)
            if (result := play(worker(sys.executable, "collecting.py", case, size)))
        ]
        if not found:
            rows.append(
                Row("collect", f"Collecting {title}", "failed", "own stepping", None, bar, percent=True)
            )
            continue
        rate = f"{statistics.median(result['rate'] for result in found):,.0f} steps/s"
        print(f"  collecting {case}: {rate}", file=sys.stderr)
        for key, name, least in (("own", "own stepping", bar), ("gymnasium", "SyncVectorEnv", None)):
            if found[0][key] is not None:
                share = statistics.median(result[key] for result in found)
                rows.append(Row("collect", f"Collecting {title}", rate, name, share, least, percent=True))
    return rows


@cache
def gemm() -> dict[str, Any]:
    return play(worker(sys.executable, "gemm.py")) or {"fp32": float("nan"), "bf16": float("nan")}


def has_bf16() -> bool:
    """Without the instructions torch's bf16 products are a hundred times slower: such a run would never end."""
    return bool(gemm()["bf16"] > 0.5 * gemm()["fp32"])


def notes(quick: bool) -> list[str]:
    found = [
        f"Matrix products of 256 x 256 x 256: {gemm()['fp32']:.0f} GFLOP/s in fp32, {gemm()['bf16']:.1f} in bf16",
        f"Load average when the last row was done: {machine.load():.1f}",
    ]
    for name, packages in (("sb3", ["stable-baselines3", "torch"]), ("sheeprl", ["sheeprl", "torch"])):
        python = peers.python_of(name)
        found.append(f"{name}: {peers.versions(python, packages) if python else 'does not install here'}")
    return [*found, "A quick run: fewer steps, rough figures"] if quick else found


def main() -> None:
    groups: dict[str, Callable[[str, int], list[Row]]] = {
        "ppo": lambda size, rounds: training("ppo", size, rounds),
        "dqn": lambda size, rounds: training("dqn", size, rounds),
        "sac": lambda size, rounds: training("sac", size, rounds),
        "share": lightning_share,
        "collect": collecting,
    }
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", choices=list(groups), action="append", help="run this group; may be repeated"
    )
    parser.add_argument("--quick", action="store_true", help="fewer steps and one round: does it run?")
    parser.add_argument(
        "--threads", type=int, default=1, help="of every process; docs are written with 1 only"
    )
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    size, rounds = ("quick", 1) if options.quick else ("full", ROUNDS)
    rows: list[Row] = []
    for name, measure in groups.items():
        if options.only is None or name in options.only:
            print(name, file=sys.stderr)
            rows += measure(size, rounds)
    extra = notes(options.quick)
    print("\n".join([table(rows), "", *machine.describe(options.threads), *extra]))
    if options.only is None and not options.quick and options.threads == 1:
        write(rows, machine.describe(options.threads), extra)
    sys.exit(1 if any(row.holds is False for row in rows) and not options.quick else 0)


if __name__ == "__main__":
    main()
