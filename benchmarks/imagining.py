"""Learning an ensemble of dynamics models, and imagining with it, against OfflineRL-Kit's way of doing both.

    python benchmarks/imagining.py                everything, three rounds, contenders in turn, one thread each
    python benchmarks/imagining.py --quick        does it run?

Rows: an epoch of 778 batches of 256 on 200,000 rows (bar 1.15 times as fast in fp32, held-out error unchanged); a
rollout of 50,000 starts x 5 steps at Hopper's sizes, one elite per row (bar 8 times), all seven members with MOPO's
penalty (bar 2 times), one elite with a RealNVP's penalty (bar 3 times GORMPO's manner); and gathering a block of
recorded and imagined rows, as a share of the updates made of it (bar 5 %). The peer is a timing peer, see
offlinerl_kit_worker.py.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from functools import partial
from typing import Any

import imagining_settings as settings
import machine
import torch
from run import ROUNDS, gemm, has_bf16, play, worker

GFLOP = 2e-9 * (
    (settings.OBS + settings.ACTION) * 200 + 3 * 200 * 200 + 200 * 2 * (settings.OBS + 1)
)  # of one row through one member

OURS = ("train", "imagine", "imagine-all", "imagine-flow", "mixed", "train-bf16")


def train(batches: int, precision: str) -> dict[str, float]:
    """Seconds of an epoch, with the gather of its rows, and the error on held-out rows after it."""
    from rl_lightning.algorithms.models.dynamics import Dynamics
    from rl_lightning.models.dynamics.dynamics_metrics import squared_errors
    from rl_lightning.rollout.block import select_update
    from rl_lightning.types import EnvSpec, Transitions

    inputs, targets, held = settings.rows()
    packed = torch.cat([torch.from_numpy(part) for part in (inputs, targets)], 1)
    wide = [settings.OBS, settings.ACTION, settings.OBS, 1]

    def rows(columns: torch.Tensor) -> Transitions:
        obs, action, change, reward = columns.split(wide, -1)
        ones = torch.ones_like(reward[..., 0])
        return Transitions(obs, action, reward[..., 0], obs + change, ones, ones, ones, ones)

    module = Dynamics(EnvSpec("Hopper-v5", (settings.OBS,), action_shape=(settings.ACTION,)), lr=settings.LR)
    module.raw_optimizers()
    module.fit_statistics(rows(packed))
    draw, block = torch.Generator().manual_seed(0), 50
    begin = time.perf_counter()
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        for number in range(batches):
            if number % block == 0:
                shape = (block, settings.MEMBERS, settings.BATCH)
                batch = rows(packed[torch.randint(len(packed), shape, generator=draw)])
            module.update(select_update(batch, number % block))
    seconds = time.perf_counter() - begin
    last = rows(torch.cat([torch.from_numpy(part) for part in held], 1))
    error = squared_errors(module.model, last).mean(-1).sort().values[: settings.ELITES].mean()
    return {"seconds": seconds, "error": float(error)}


def roll(starts: int, penalty: Any) -> dict[str, float]:
    from rl_lightning.algorithms.online.sac import SAC
    from rl_lightning.envs.termination import HopperTermination
    from rl_lightning.models.dynamics.ensemble_dynamics import EnsembleDynamics
    from rl_lightning.rollout.imagine import imagine
    from rl_lightning.types import EnvSpec

    sac = SAC(EnvSpec("Hopper-v5", (settings.OBS,), action_shape=(settings.ACTION,)))
    model = EnsembleDynamics(settings.OBS, settings.ACTION)
    start = torch.from_numpy(settings.start(starts))
    rule = HopperTermination(min_z=-1e9, max_angle=1e9)  # as in the peer: all live on
    noise, explore = (torch.Generator().manual_seed(seed) for seed in (0, 1))
    imagine(model, sac.act, start[:2000], 1, rule, noise, explore, penalty, 0.5)  # warms up
    begin = time.perf_counter()
    found = imagine(model, sac.act, start, settings.HORIZON, rule, noise, explore, penalty, 0.5)
    return {"seconds": time.perf_counter() - begin, "rows": len(found.reward)}


class Deviation:
    """MOPO's penalty."""

    needs_spread = True

    def __call__(self, obs: Any, action: Any, step: Any) -> tuple[Any, Any]:
        return step.spread, torch.zeros_like(step.spread, dtype=torch.bool)


def flow() -> Any:
    """GORMPO's penalty by a RealNVP of its sizes; what it is calibrated on does not change what it costs."""
    from rl_lightning.models.density import RealNVP
    from rl_lightning.models.density.calibrated import CalibratedDensity
    from rl_lightning.models.described import describe
    from rl_lightning.models.dynamics.penalties import TanhPenalty

    recipe = partial(RealNVP, num_couplings=settings.COUPLINGS, hidden_dims=[settings.FLOW_HIDDEN] * 2)
    density = CalibratedDensity(describe(recipe), settings.OBS, settings.ACTION)
    density.calibrate(torch.randn(1000, settings.OBS + settings.ACTION))
    penalty = TanhPenalty("none")
    penalty.use(density.eval())
    return penalty


def mixed(quick: bool) -> dict[str, float]:
    """Seconds to gather the blocks of a stretch and to learn from them: SAC's usual sizes on half a million rows."""
    from rl_lightning.algorithms.online.sac import SAC
    from rl_lightning.datamodules.model_rollout_data import ModelRolloutData
    from rl_lightning.replay.ring import RingBuffer
    from rl_lightning.rollout.block import select_update
    from rl_lightning.types import EnvSpec

    spec = EnvSpec("Hopper-v5", (settings.OBS,), action_shape=(settings.ACTION,))
    widths = [settings.OBS, settings.ACTION, 1, 1, 1, settings.OBS]
    data: Any = ModelRolloutData.__new__(ModelRolloutData)  # its sampling alone, on rows made up here
    agent = SAC(spec)
    data.__dict__ |= {
        "spec": spec,
        "widths": widths,
        "rows": torch.randn(settings.ROWS, sum(widths)),
        "train_index": torch.arange(settings.ROWS),
        "draw": torch.Generator().manual_seed(0),
        "bootstrap": 0,
        "batch_size": settings.BATCH,
        "real_ratio": 0.05,
        "model_rows": RingBuffer(spec, 1, 2 * settings.ROWS),
        "agent": agent,
    }
    data.model_rows.push(torch.randn(2 * settings.ROWS, sum(widths)))
    agent.raw_optimizers()
    gathering = learning = 0.0
    for _ in range(2 if quick else 20):
        begin = time.perf_counter()
        block = data.sample(50)
        gathered = time.perf_counter()
        for number in range(50):
            agent.update(select_update(block, number))
        gathering += gathered - begin
        learning += time.perf_counter() - gathered
    return {"seconds": gathering, "share": gathering / (gathering + learning)}


def ours(what: str, quick: bool) -> dict[str, float]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if what == "mixed":
        return mixed(quick)
    if what.startswith("train"):
        return train(settings.QUICK_BATCHES if quick else settings.BATCHES, what.removeprefix("train-"))
    starts = settings.QUICK_STARTS if quick else settings.STARTS
    penalties = {"imagine-all": Deviation, "imagine-flow": flow}
    return roll(starts, penalties[what]() if what in penalties else None)


def compare(size: str, rounds: int) -> None:
    names = [name for name in OURS if name != "train-bf16" or has_bf16()]
    commands = {name: worker(sys.executable, "imagining.py", "--ours", name, *_quick(size)) for name in names}
    for name in ("train", "imagine", "imagine-flow"):
        commands[f"peer {name}"] = worker(sys.executable, "offlinerl_kit_worker.py", name, size)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            result = play(command)
            if result is not None:
                found[name].append(result)
                print(f"  {name}: {result['seconds']:.2f} s", file=sys.stderr)
    bars = {"train": 1.15, "imagine": 8.0, "imagine-all": 2.0, "imagine-flow": 3.0, "train-bf16": None}
    for name, bar in bars.items():
        peer = found.get(f"peer {name}") or found[f"peer {name.split('-')[0]}"]
        if found.get(name) and peer:
            told(name, found[name], peer, bar)
    if found["mixed"]:
        share = statistics.median(result["share"] for result in found["mixed"])
        print(f"mixed: gathering recorded and imagined rows is {share:.1%} of an update (bar 5 %)")
    rate = gemm()["fp32"]
    whole = 3 * settings.MEMBERS * settings.BATCH * settings.BATCHES * GFLOP / rate
    print(f"products of an epoch at {rate:.0f} GFLOP/s: {whole:.1f} s; load average {machine.load():.1f}")


def told(name: str, mine: list[dict[str, Any]], peer: list[dict[str, Any]], bar: float | None) -> None:
    own, other = (statistics.median(r["seconds"] for r in found) for found in (mine, peer))
    line = f"{name}: {own:.2f} s, timing peer {other:.2f} s, {other / own:.2f} times as fast"
    line += "" if bar is None else f" (bar {bar})"
    if "error" in mine[0]:
        errors = [statistics.median(r["error"] for r in found) for found in (mine, peer)]
        line += f"; held-out error {errors[0]:.5f} against {errors[1]:.5f}"
    print(line)


def _quick(size: str) -> list[str]:
    return ["--quick"] if size == "quick" else []


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small sizes and one round")
    parser.add_argument("--ours", choices=OURS, help="one figure, as JSON")
    options = parser.parse_args()
    if options.ours:
        print(json.dumps(ours(options.ours, options.quick)))
    else:
        compare("quick" if options.quick else "full", 1 if options.quick else ROUNDS)


if __name__ == "__main__":
    main()
