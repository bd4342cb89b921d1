"""Diffusion-DICE at the original's sizes against the original's arithmetic, in turns, one thread.

    python benchmarks/diffusion.py                three rounds, writes nothing
    python benchmarks/diffusion.py --quick        does it run?

Rows: drawing for 10 states x 64 candidates x 15 evaluations (bars 1.2 times as fast in fp32, 2 times in bf16), a step
of the behaviour at batch 4096 and of critic, ensemble and guide at batch 512 with 16 draws of noise (bars 1.3 times).
The peer is diffusion_original.py. Times are CPU seconds of this process, so that neighbors on the machine matter less.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import diffusion_original as original
import machine
import torch
from gemm import rate
from torch import Tensor

from rl_lightning.algorithms import BehaviorDiffusion, DiceGuidance
from rl_lightning.functional.diffusion_samplers import DPMSolver
from rl_lightning.types import EnvSpec, Transitions

SPEC = EnvSpec("Hopper-v5", (original.OBS,), action_shape=(original.ACTION,))
BARS = {"sample": 1.2, "sample, bf16": 2.0}  # the rest: 1.3


def rows(count: int) -> Transitions:
    ones = torch.ones(count)
    obs, action = torch.randn(count, original.OBS), torch.rand(count, original.ACTION) * 2 - 1
    reward, index = torch.randn(count), torch.arange(count)
    return Transitions(obs, action, reward, torch.randn_like(obs), 0 * ones, 0.99 * ones, ones, index)


def with_optimizers(model: Any) -> Any:
    """Makes them now, so that no clock sees it."""
    model.raw_optimizers()
    return model


def seconds(work: Callable[[], Any], repeats: int) -> float:
    begin = time.process_time()
    for _ in range(repeats):
        work()
    return (time.process_time() - begin) / repeats


def contenders(quick: bool) -> dict[str, tuple[Callable[[], Any], Callable[[], Any], int]]:
    """name -> ours, the original's, repeats"""
    states, candidates, wide, narrow = (2, 4, 64, 32) if quick else (10, 64, 4096, 512)
    behavior = with_optimizers(
        BehaviorDiffusion(SPEC, normalize_obs=False, lr=1e-4, ema_decay=0.0, ema_power=None)
    )
    paper = {"sampler": DPMSolver(skip_type="uniform"), "guidance_scale": 4.0, "num_samples": candidates}
    dice = {
        p: DiceGuidance(SPEC, "none", num_selection_critics=10, sampling_dtype=p, **paper)
        for p in ("full", "half")
    }
    for model in dice.values():
        model.__dict__["behavior"] = behavior.average
        model.setup("fit")
    learner = with_optimizers(dice["full"])
    obs = torch.randn(states, original.OBS)
    score, guide = original.Score(), original.Guide()
    first, second = original.Behavior(), original.Critic(16)
    large, small = rows(wide), rows(narrow)

    def draw(precision: str) -> Tensor:
        with torch.inference_mode():
            return dice[precision].draw_candidates(obs, torch.Generator().manual_seed(0))

    def half(work: Callable[[], Any]) -> None:
        with torch.autocast("cpu", torch.bfloat16):
            work()

    def theirs() -> Tensor:
        return original.sample(score, guide, obs, candidates)

    def behave() -> None:
        first.step(large.obs, large.action)

    def criticise() -> None:
        second.step(small.obs, small.action, small.reward, small.next_obs)

    return {
        "sample": (lambda: draw("full"), theirs, 3),
        "sample, bf16": (lambda: draw("half"), theirs, 3),
        "behaviour": (lambda: behavior.update(large), behave, 4),
        "behaviour, bf16": (lambda: half(lambda: behavior.update(large)), behave, 4),
        "critic and guide": (lambda: learner.update(small), criticise, 8),
        "critic and guide, bf16": (lambda: half(lambda: learner.update(small)), criticise, 8),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, one round: does it run?")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print("\n".join(machine.describe(1)))
    print(
        f"GFLOP/s: {rate(torch.float32):.0f} in fp32, {rate(torch.bfloat16):.0f} in bf16; load {machine.load():.1f}"
    )
    print("| work | ours, ms | original's arithmetic, ms | ratio | bar |\n|---|---|---|---|---|")
    for name, (ours, theirs, repeats) in contenders(given.quick).items():
        times: tuple[list[float], list[float]] = ([], [])
        for turn in range(2 if given.quick else given.rounds + 1):
            for which, work in enumerate((ours, theirs)):
                took = seconds(work, 1 if given.quick else repeats)
                if turn:  # the first warms up
                    times[which].append(took)
        own, other = (1e3 * statistics.median(part) for part in times)
        print(f"| {name} | {own:.1f} | {other:.1f} | {other / own:.2f} | {BARS.get(name, 1.3)} |", flush=True)


if __name__ == "__main__":
    main()
