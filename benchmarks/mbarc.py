"""MBARC at full size: imagined steps with 16 agents, training on batches of 4, collecting, memory and arithmetic.

    python benchmarks/mbarc.py                    everything, three rounds, contenders in turn
    python benchmarks/mbarc.py --threads 2        as the bars are stated
    python benchmarks/mbarc.py --quick            does it run?

Bars: imagined steps 1.5 times the plain way at an equal network (rgb256), 3 times with palette output; a training
batch 1.3 times; 100k steps in at most 1 GB; collecting at 85 % of the env's own rate. The original is not ours to run:
`plain` is its arithmetic written out anew, on our own network so that both compute the same: channels first, dropout
left on while imagining, one sample after the other into and out of the network, every agent's frames pickled to a
process and back, fairseq's Adafactor; fresh pages for every big tensor, where ours are kept (malloc.py).
"""

from __future__ import annotations

import argparse
import pickle
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from rl_lightning.algorithms.worlds.next_frame import NextFrame
from rl_lightning.behaviors.random_actor import random_actor
from rl_lightning.envs.make import EnvConfig, make_envs
from rl_lightning.envs.wrappers.transforms import AtariFrames
from rl_lightning.functional.frame_losses import clipped_frame_loss
from rl_lightning.kernels.malloc import set_malloc_thresholds
from rl_lightning.models.frames.frame_world import FrameWorld, NextFramePredictor
from rl_lightning.nn.frames.reward_net import SpatialRewardNet
from rl_lightning.replay.frames.frame_log import FrameLog
from rl_lightning.rollout.collect import Collector
from rl_lightning.rollout.simulated_env import SimulatedEnvs, StartStates
from rl_lightning.types import EnvSpec, FrameWindow

AGENTS, BATCH = 16, 4
GAMES, BLOCK = 8, 64  # played at once, and steps collected at a time, as in a run


class Size:
    """Agents that imagine and windows of a batch; --quick makes both small."""

    agents, batch = AGENTS, BATCH


# Updates, sizes and samples of a whole game, for the estimate of its hours.
WORLD_STEPS, HEAD_SAMPLES, SIM_STEPS = 255_000, 720_000, 15_200_000
GPU_FLOPS = 30e12  # sustained in bf16 on one of today's data-centre GPUs: an assumption, not a measurement


def spec(colors: int) -> EnvSpec:
    channels = 1 if colors else 3
    return EnvSpec("ALE/Freeway-v5", (4 * channels, 105, 80), "uint8", "discrete", (), (3,), num_stack=4)


def world(colors: int) -> FrameWorld:
    torch.manual_seed(0)
    made = NextFramePredictor(spec(colors), colors=colors, norm="instance", reward_net=SpatialRewardNet)
    made.latent_anneal.fill_(1.0)
    return made


class AnyStart:
    """Random frames; what they show does not matter to the clock."""

    def __init__(self, shape: tuple[int, ...], colors: int) -> None:
        self.frames = torch.randint(colors or 256, (64, *shape), dtype=torch.uint8)

    def draw(self, count: int, generator: torch.Generator) -> StartStates:
        nothing = torch.zeros(count, 0)
        stacks = self.frames[torch.randint(64, (count,), generator=generator)]
        return StartStates(stacks, stacks[:, None][:, :0], nothing.long(), nothing.bool())

    def first(self) -> StartStates:
        return self.draw(1, torch.Generator().manual_seed(0))


def imagine(colors: int, steps: int, half: bool = False) -> float:
    """Imagined env steps per second, all agents in one pass."""
    about = spec(colors)
    envs = SimulatedEnvs(
        world(colors).eval().for_simulation(half),
        None,
        AnyStart(about.obs_shape, colors),
        about,
        Size.agents,
        50,
        sim_dtype=half,
    )
    envs.reset(seed=0)
    actions = np.random.default_rng(0).integers(3, size=(steps + 1, Size.agents))
    envs.step(actions[0])
    began = time.perf_counter()
    for action in actions[1:]:
        envs.step(action)
    return steps * Size.agents / (time.perf_counter() - began)


def imagine_plain(steps: int) -> float:
    net = world(0).to(memory_format=torch.contiguous_format).train()  # type: ignore[call-overload]
    stacks = torch.randint(256, (Size.agents, 12, 105, 80), dtype=torch.uint8)
    began = 0.0
    for t in range(steps + 1):
        if t == 1:
            began = time.perf_counter()
        with torch.no_grad():
            rows = torch.stack([s.float() / 255.0 for s in stacks])  # one by one, as it is written
            rows = torch.stack(
                [torch.stack([(p - p.mean()) / p.std().clamp(min=0.0109) for p in r]) for r in rows]
            )
            found = net.net(
                rows.contiguous(), torch.zeros(Size.agents, dtype=torch.long), None, 1.0, 1.0, None
            )
            logits = net.frame_logits(found)
            assert net.reward is not None
            reward = net.reward(found.mid, found.fin).argmax(-1) - 1
            frame = logits.argmax(1).to(torch.uint8)
        stacks = torch.cat([stacks[:, 3:], frame], 1)
        for n in range(Size.agents):  # to the agent's own process and back
            sent = pickle.loads(pickle.dumps((stacks[n].float().numpy(), float(reward[n]))))
            pickle.loads(pickle.dumps(sent))
    return steps * Size.agents / (time.perf_counter() - began)


def windows(colors: int, length: int) -> FrameWindow:
    channels, top = (1, colors) if colors else (3, 256)
    stack = torch.randint(top, (Size.batch, 4 * channels, 105, 80), dtype=torch.uint8)
    frame = torch.randint(top, (Size.batch, length, channels, 105, 80), dtype=torch.uint8)
    zeros, none = torch.zeros(Size.batch, length), torch.zeros(Size.batch, 0)
    return FrameWindow(
        stack,
        frame,
        zeros.long(),
        zeros,
        zeros.bool(),
        zeros,
        zeros.bool(),
        stack[:, None][:, :0],
        none.long(),
        none.bool(),
    )


def train(colors: int, batches: int) -> float:
    """Batches of 4 per second, each with its gradient step."""
    recipe = partial(NextFramePredictor, colors=colors, norm="instance")
    model = NextFrame(spec(colors), predictor=recipe)
    model.raw_optimizers()
    model.gradient_steps.fill_(22_250)  # the latent is in full use
    model.update(windows(colors, 1))
    began = time.perf_counter()
    model.update(windows(colors, batches))
    return batches / (time.perf_counter() - began)


class PlainAdafactor:
    """The original's update rule: relative steps, rows and columns of the last two axes, one weight after the other."""

    def __init__(self, params: list[torch.nn.Parameter]) -> None:
        self.params, self.steps = params, 0
        self.rows: dict[int, torch.Tensor] = {}
        self.columns: dict[int, torch.Tensor] = {}

    @torch.no_grad()
    def step(self) -> None:
        self.steps += 1
        beta, rate = 1.0 - self.steps**-0.8, min(0.01, self.steps**-0.5)
        for number, param in enumerate(self.params):
            if param.grad is None:
                continue
            update = param.grad.square().add_(1e-30)
            if param.ndim > 1:
                row = self.rows.setdefault(number, torch.zeros_like(update[..., 0]))
                column = self.columns.setdefault(number, torch.zeros_like(update[..., 0, :]))
                row.mul_(beta).add_(update.mean(-1), alpha=1.0 - beta)
                column.mul_(beta).add_(update.mean(-2), alpha=1.0 - beta)
                scale = (row / row.mean(-1, keepdim=True)).rsqrt_().unsqueeze(-1)
                update = torch.mul(scale, column.unsqueeze(-2).rsqrt()).mul_(param.grad)
            else:
                square = self.rows.setdefault(number, torch.zeros_like(update))
                square.mul_(beta).add_(update, alpha=1.0 - beta)
                update = square.rsqrt().mul_(param.grad)
            size = param.numel() ** 0.5
            update.div_((update.norm() / size).clamp_(min=1.0))
            param.add_(update.mul_(rate * max(1e-3, float(param.norm()) / size)), alpha=-1.0)


def train_plain(batches: int) -> float:
    net = NextFramePredictor(spec(0), colors=0, norm="instance")
    net = net.to(memory_format=torch.contiguous_format).train()  # type: ignore[call-overload]
    optimizer = PlainAdafactor(list(net.parameters()))
    window = windows(0, batches + 1)
    stack, began = window.stack, 0.0
    for t in range(batches + 1):
        if t == 1:
            began = time.perf_counter()
        rows = torch.stack([s.float() / 255.0 for s in stack])
        noisy = torch.stack([torch.where(torch.rand_like(r) < 0.95, r, r.median()) for r in rows])
        rows = torch.stack(
            [torch.stack([(p - p.mean()) / p.std().clamp(min=0.0109) for p in r]) for r in noisy]
        )
        target = window.frame[:, t].float() / 255.0
        found = net.net(rows.contiguous(), window.action[:, t], target, 1.0, 0.8, None)
        logits = net.frame_logits(found)
        loss = (
            clipped_frame_loss(logits, window.frame[:, t], 0.03)
            + found.value.square().mean()
            + found.latent_loss / 50
        )
        net.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        stack = torch.cat([stack[:, 3:], logits.detach().argmax(1).to(torch.uint8)], 1)
    return batches / (time.perf_counter() - began)


def collecting(blocks: int) -> tuple[float, float]:
    """Agent steps per second of the env alone, and of collecting from it into a log of frames: in turns, medians."""
    envs = make_envs(EnvConfig("ALE/Freeway-v5", transforms=[AtariFrames()]), GAMES, "native")
    collector, log = Collector(envs, 0), FrameLog(envs.env_spec, GAMES * BLOCK * (blocks + 1))
    actions = np.random.default_rng(0).integers(3, size=(BLOCK, GAMES))
    actor, explore = random_actor(envs.env_spec), torch.Generator().manual_seed(0)
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(blocks):
        began = time.perf_counter()
        for action in actions:
            envs.native.step(action)  # type: ignore[attr-defined]
        middle = time.perf_counter()
        log.add(collector.collect(actor, BLOCK, explore))
        times[0].append(middle - began)
        times[1].append(time.perf_counter() - middle)
    alone, collected = (GAMES * BLOCK / statistics.median(part) for part in times)
    return alone, collected


def arithmetic(colors: int) -> float:
    """GFLOP of one imagined step of one agent."""
    net = world(colors).eval()
    stack = torch.zeros(1, *spec(colors).obs_shape, dtype=torch.uint8)
    with FlopCounterMode(display=False) as counter:
        net.predict_step(stack, torch.zeros(1, dtype=torch.long), None, None, None)
    return counter.get_total_flops() / 1e9


def hours(gflop: float) -> float:
    """Of a whole game on one GPU, from arithmetic alone: a training step costs three forward passes."""
    total = WORLD_STEPS * BATCH * 3 * gflop + HEAD_SAMPLES * gflop + SIM_STEPS * gflop
    return total * 1e9 / GPU_FLOPS / 3600


ROWS: dict[str, Callable[[int], float]] = {
    "imagine, plain": imagine_plain,
    "imagine, rgb256": lambda steps: imagine(0, steps),
    "imagine, palette": lambda steps: imagine(128, steps),
    "imagine, rgb256, bf16": lambda steps: imagine(0, steps, half=True),
    "imagine, palette, bf16": lambda steps: imagine(128, steps, half=True),
    "train, plain": train_plain,
    "train, rgb256": lambda steps: train(0, steps),
    "train, palette": lambda steps: train(128, steps),
}


def alone(name: str, given: argparse.Namespace) -> float:
    """One row in a process of its own: ours keeps its pages, as every run does, and the plain way must not."""
    command = [sys.executable, __file__, "--threads", str(given.threads), "--row", name]
    found = subprocess.run(
        [*command, *(["--quick"] if given.quick else [])], check=True, capture_output=True, text=True
    )
    return float(found.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--row", choices=list(ROWS), help="this one only, here")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    steps, rounds = (1, 1) if given.quick else (6, given.rounds)
    if given.quick:
        Size.agents, Size.batch = 2, 1
    if given.row is not None:
        if "plain" not in given.row:
            set_malloc_thresholds()
        print(ROWS[given.row](steps))
        return
    found: dict[str, list[float]] = {name: [] for name in ROWS}
    for _ in range(rounds):
        for name in ROWS:
            found[name].append(alone(name, given))
    middle = {name: statistics.median(values) for name, values in found.items()}
    for name, value in middle.items():
        kind = name.split(",")[0]
        unit = "env steps/s" if kind == "imagine" else "batches/s"
        print(f"{name:<22} {value:8.2f} {unit}  {value / middle[f'{kind}, plain']:.2f} times plain")
    log = FrameLog(spec(128), 102_400)
    print(f"frames of 102,400 steps: {log.nbytes() / 1e9:.2f} GB")
    for name, colors in (("rgb256", 0), ("palette", 128)):
        gflop = arithmetic(colors)
        print(f"{name}: {gflop:.2f} GFLOP an imagined step; a game is about {hours(gflop):.1f} h of pure arithmetic "
              f"at {GPU_FLOPS / 1e12:.0f} TFLOP/s (estimated, launches not counted)")  # fmt: skip
    set_malloc_thresholds()
    pairs = [collecting(2 if given.quick else 20) for _ in range(rounds)]
    own, collected = (statistics.median(side) for side in zip(*pairs, strict=True))
    print(f"collecting: {collected:.0f} agent steps/s, {collected / own:.0%} of the env's own {own:.0f}")


if __name__ == "__main__":
    main()
