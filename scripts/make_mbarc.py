"""Measures what docs/mbarc.md says of small worlds: next frames of Freeway, open loop, and reward heads by strategy.

    python scripts/make_mbarc.py --steps 600 --head_steps 200 --seeds 1 --held 22000

Frames come from an actor that goes up four times of five, so that there are rewards; the held-out ones from another
collection with another seed. Copying the last frame scores 0 on changed pixels.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from rl_lightning.algorithms.worlds.next_frame import NextFrame
from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.datamodules.frame_data import FrameWindowData
from rl_lightning.envs.make import EnvConfig, make_envs
from rl_lightning.envs.wrappers.transforms import AtariFrames
from rl_lightning.functional.reward_classes import reward_label
from rl_lightning.models.frames import frame_metrics as checks
from rl_lightning.models.frames.frame_world import NextFramePredictor
from rl_lightning.optim import Adam
from rl_lightning.replay import reward_samplers
from rl_lightning.replay.frames.frame_artifacts import write_frames
from rl_lightning.replay.frames.frame_log import FrameLog
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.rollout.block import select_update
from rl_lightning.rollout.collect import Collector

GAME = EnvConfig("ALE/Freeway-v5", transforms=[AtariFrames(pixel_stride=4)])
SAMPLERS = {
    "online": reward_samplers.OnlineSampler(),
    "class_balanced": reward_samplers.ClassBalancedSampler(),
    "mbarc": reward_samplers.MBARCSampler(),
}
HORIZONS = [1, 5, 10, 25, 50]


def upward(obs: Any, carry: Any, generator: torch.Generator, mask: Any = None) -> Any:
    action = torch.randint(3, (len(obs),), generator=generator)
    return torch.where(torch.rand(len(obs), generator=generator) < 0.8, 1, action), carry


def collected(steps: int, seed: int, game: EnvConfig = GAME, actor: Any = upward) -> FrameLog:
    envs = make_envs(game, 1)
    log = FrameLog(envs.env_spec, steps + 64)
    log.add(Collector(envs, seed).collect(actor, steps, torch.Generator().manual_seed(seed)))
    return log


def artifact(log: FrameLog, folder: Path) -> str:
    spec = [list(part) if isinstance(part, tuple) else part for part in log.spec]
    state = {
        "log": log.save(SegmentStore(folder / "c" / "replay" / "rank-0")),
        "previous": None,
        "spec": spec,
    }
    (folder / "artifact").mkdir()
    write_frames(folder / "artifact", folder / "c" / "last", [{"frames": state}])
    return str(folder / "artifact")


def learn_world(
    frames: str, steps: int, length: int, game: EnvConfig = GAME, seed: int = 0, batch_size: int = 16,
    sizes: dict[str, int] | None = None, half: bool = False, turning: float = 0.0, first: NextFrame | None = None,
    **settings: Any,
) -> NextFrame:  # fmt: skip
    torch.manual_seed(seed)
    data = FrameWindowData(
        game, frames, sequence_length=length, batch_size=batch_size, val_fraction=0.0, event_fraction=turning
    )
    data.configure(RunConfig(updates=steps), seed)
    recipe = partial(
        NextFramePredictor,
        embed_dim=8,
        base_channels=24,
        filter_double_steps=2,
        dropout=0.0,
        residual_dropout=0.0,
        bottleneck_bits=0,
        **sizes or {"compress_steps": 3},
    )
    usual = {
        "optimizer": partial(Adam, eps=1e-5),
        "lr": 1e-3,
        "scheduled_sampling_decay_steps": 2 * steps,
        "input_noise": 0.01,
    }
    model = NextFrame(data.spec, predictor=recipe, value_coef=0.05, **(usual | settings))
    data.connect(model)
    model.on_fit_start()
    if first is not None:
        model.world.load_state_dict(first.world.state_dict())
    updates = steps // length
    for k in range(updates):
        model.clock.progress = k / updates
        with torch.autocast("cpu", torch.bfloat16, enabled=half):  # as `--trainer.precision bf16-mixed` does
            model.update(select_update(data.sample(1), 0))
    return model.eval()


def learn_head(
    model: NextFrame, log: FrameLog, sampler: reward_samplers.RewardSampler, steps: int, seed: int
) -> Any:
    torch.manual_seed(seed)
    world = model.world
    head = world.make_head("spatial")
    optimizer = Adam(head.parameters(), 1e-3)
    rows = (log.walk(0.99).run > 0).nonzero()[:, 0]
    earlier, later = log.neighbors()
    reward = log.tensor("reward")[rows]
    draw = reward_samplers.GroupSampler(sampler, rows, reward, earlier[rows], later[rows])
    own = torch.Generator().manual_seed(seed)
    for t in range(steps):
        window = log.windows(draw(32, t / steps, own), 1, 0.99)
        with torch.no_grad():
            found = world.features(window.stack, window.action[:, 0])
        optimizer.zero_grad()
        F.cross_entropy(head(found.mid, found.fin), reward_label(window.reward[:, 0])).backward()
        optimizer.step()
    return head.eval()


@torch.no_grad()
def judge(model: NextFrame, heads: dict[str, Any], log: FrameLog) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The class that each head tells for every held-out step, and the true one; the trunk is walked once."""
    rows = (log.walk(0.99).run > 0).nonzero()[:, 0]
    told: dict[str, list[torch.Tensor]] = {name: [] for name in heads}
    for part in rows.split(256):
        window = log.windows(part, 1, 0.99)
        found = model.world.features(window.stack, window.action[:, 0])
        for name, head in heads.items():
            told[name].append(head(found.mid, found.fin).argmax(-1))
    label = reward_label(log.tensor("reward")[rows]).numpy()
    return {name: torch.cat(parts).numpy() for name, parts in told.items()}, label


def precision_gap(told: dict[str, np.ndarray], label: np.ndarray, one: str, other: str) -> list[float]:
    """Precision of one head minus another's on the same steps, and its 95% interval by drawing steps anew."""
    draw = np.random.default_rng(0)
    pairs = {name: (told[name] == 2, label == 2) for name in (one, other)}

    def gap(index: Any) -> float:
        found = [float(true[index][said[index]].mean()) for said, true in pairs.values()]
        return found[0] - found[1]

    some = np.flatnonzero(pairs[one][0] | pairs[other][0])
    gaps = [gap(draw.choice(some, len(some))) for _ in range(1000)]
    return [gap(some), *(float(q) for q in np.quantile(gaps, [0.025, 0.975]))]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, value in (("steps", 1000), ("head_steps", 300), ("seeds", 3), ("held", 24_000), ("length", 10)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--plot", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    began = time.process_time()
    log, held = collected(6400, 0), collected(given.held, 1)
    print("collected", len(log), len(held), f"{time.process_time() - began:.0f} s", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        model = learn_world(artifact(log, Path(folder)), given.steps, given.length)
    rows = (held.walk(0.99).run >= 50).nonzero()[:, 0]
    chosen = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))]
    world = checks.one_step(model.world, held.windows(chosen[:512], 1, 0.99))
    print(f"world {given.steps} steps, {time.process_time() - began:.0f} s", json.dumps(world), flush=True)
    loop = checks.open_loop(model.world, held.windows(chosen[:32], 50, 0.99), HORIZONS)
    print(json.dumps(loop), flush=True)
    if given.plot:
        plot(loop, given.plot)
    heads = {
        f"{name}-{seed}": learn_head(model, log, sampler, given.head_steps, seed)
        for seed in range(given.seeds)
        for name, sampler in SAMPLERS.items()
    }
    print(f"heads {time.process_time() - began:.0f} s", flush=True)
    told, label = judge(model, heads, held)
    for name, each in told.items():
        scores = checks.reward_scores(torch.from_numpy(each), torch.from_numpy(label))
        print(name, {key.removeprefix("eval/"): round(value, 4) for key, value in scores.items()})
    for seed in range(given.seeds):
        gap = precision_gap(told, label, f"mbarc-{seed}", f"class_balanced-{seed}")
        print(
            f"seed {seed}: precision of mbarc minus class_balanced {gap[0]:.3f} ({gap[1]:.3f} to {gap[2]:.3f})"
        )
    print(f"{time.process_time() - began:.0f} s of one core")


def plot(loop: dict[str, float], path: Path) -> None:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5, 3))
    for key, label in (("open_loop_error", "on its own"), ("copy_error", "the first frame, copied")):
        axes.plot(HORIZONS, [100 * loop[f"eval/{key}_{h}"] for h in HORIZONS], marker="o", label=label)
    axes.set(xlabel="steps", ylabel="wrong pixels, %", title="Freeway, held out")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
