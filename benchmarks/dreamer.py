"""Dreamer v3 updates against sheeprl's at equal work (1M preset, 16 x 64, horizon 15), and acting in 8 envs against 1.

    .venv/bin/python benchmarks/dreamer.py [--quick]

Both sides learn their actor by the same gradient: REINFORCE, and through the dynamics (dreamer_worker.py). sheeprl has
a venv of its own (peers.py). Contenders take turns with one and with two threads, the median counts.
"""

from __future__ import annotations

import argparse
import sys
import time

import peers
from run import ROUNDS, take_turns, worker

BAR, ACTING_BAR = 1.2, 2.0


def updates(gradient: str, threads: int, count: int, rounds: int) -> None:
    how = [gradient, str(threads), str(count)]
    contenders = [("ours", worker(sys.executable, "dreamer_worker.py", "ours", *how))]
    python = peers.python_of("sheeprl")
    if python is not None:
        contenders.append(("sheeprl", worker(python, "dreamer_worker.py", "sheeprl", *how)))
    rates = take_turns(contenders, "rate", rounds)
    mine, theirs = rates["ours"], rates.get("sheeprl")
    ratio = f"{mine / theirs:.2f}x (at least {BAR}x)" if mine and theirs else "no ratio"
    print(
        f"update by {gradient}, {threads} thread(s): ours {mine or 0:.3g}/s, sheeprl {theirs or 0:.3g}/s, {ratio}"
    )


def acting(count: int) -> None:
    """Time of one policy step for 1 and for 8 envs."""
    import torch
    from dreamer_worker import model_of_ours

    torch.set_num_threads(1)
    model, spec = model_of_ours()
    seconds = {}
    for envs in (1, 8, 1, 8):
        obs, carry = torch.randn(envs, *spec.obs_shape), model.initial_carry(envs)
        explore = torch.Generator().manual_seed(0)
        with torch.no_grad():
            begin = time.perf_counter()
            for _ in range(count):
                _, carry = model.act(obs, carry, explore)
        seconds[envs] = (time.perf_counter() - begin) / count
    ratio = seconds[8] / seconds[1]
    print(
        f"acting: 1 env {1e3 * seconds[1]:.2f} ms, 8 envs {1e3 * seconds[8]:.2f} ms, "
        f"{ratio:.2f}x (at most {ACTING_BAR}x)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round of few updates: does it run?")
    quick = parser.parse_args().quick
    acting(20 if quick else 500)
    for gradient in ("reinforce", "dynamics"):
        for threads in (1, 2):
            updates(gradient, threads, 2 if quick else 10, 1 if quick else ROUNDS)


if __name__ == "__main__":
    main()
