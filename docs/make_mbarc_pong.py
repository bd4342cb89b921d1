"""Measures what docs/mbarc.md says of Pong: does a small world carry the ball along, ten steps on its own?

    python docs/make_mbarc_pong.py --seeds 3

Every second pixel of the playing field (80 x 80), 25,600 steps of a player that keeps an action for a while, 6,000
gradient steps of 8 single frames each. Tracked: the dreamed ball is at most two pixels from the true one, in windows
whose true ball is seen at every step. Beside it, the ball left where it was, and one that flies straight on.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from make_mbarc import collected, learn_world, product
from torch import Tensor

from rl_lightning.envs.make import EnvConfig
from rl_lightning.envs.transforms import AtariFrames
from rl_lightning.functional.schedules import Cosine
from rl_lightning.models import frame_checks as checks
from rl_lightning.networks import Adam
from rl_lightning.types import FrameWindow

GAME = EnvConfig("ALE/Pong-v5", transforms=[AtariFrames(stride=2, top=34, bottom=194)])
BALL = 7  # its colour; inside the field nothing else has it
STEPS, NEAR, HOLD = 10, 2.0, 8
# A small map of 20 x 20, so that the ball's place is not squeezed into a few cells; no eps beside the small gradients
# of two pixels of 6,400; true frames as inputs: from its own, without a ball yet, it would learn that balls vanish; and
# pixels that change count more, because a ball that may be at three places is at none of them by each pixel's vote.
SETTINGS: dict[str, Any] = {
    "batch_size": 8,
    "sizes": {"levels": 2, "middle": 4},
    "lr": 3e-3,
    "lr_schedule": Cosine(1e-4),
    "optimizer": Adam(),
    "decay_steps": 1_000_000_000,
    "changed_weight": 5.0,
    "input_noise": 0.0,
}


def restless(obs: Any, carry: Any, explore: torch.Generator, mask: Any = None) -> Any:
    """Keeps an action for eight steps on average."""
    fresh = torch.randint(6, (len(obs),), generator=explore)
    if not carry:
        return fresh, (fresh[:, None].float(),)
    change = torch.rand(len(obs), generator=explore) < 1.0 / HOLD
    action = torch.where(change, fresh, carry[0][:, 0].long())
    return action, (action[:, None].float(),)


def ball(frames: Tensor) -> Tensor:
    """Row and column of the ball, NaN where it is not seen.  [..., 1, H, W] -> [..., 2]"""
    shown = (frames[..., 0, :, :] == BALL).float()
    count = shown.sum((-2, -1))
    rows = torch.arange(shown.shape[-2]).float()
    columns = torch.arange(shown.shape[-1]).float()
    place = torch.stack([(shown.sum(-1) * rows).sum(-1), (shown.sum(-2) * columns).sum(-1)], -1)
    return torch.where((count > 0)[..., None], place / count[..., None], torch.nan)


def tracked(found: Tensor, truth: Tensor) -> list[float]:
    """Share of windows whose ball is near the true one after each step; a ball that is gone is not."""
    distance = (found - truth).norm(dim=-1)
    return [round(float((distance[:, t] <= NEAR).float().mean()), 3) for t in range(distance.shape[1])]


def chosen(log: Any, count: int) -> FrameWindow:
    """Windows whose ball is seen all along, in the last two frames before them, too."""
    rows = (log.walk(0.99).run >= STEPS).nonzero()[:, 0]
    rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))][: 8 * count]
    windows = log.windows(rows, STEPS, 0.99)
    seen = ~ball(windows.frame).isnan().any(-1).any(-1)
    seen &= ~ball(windows.stack[:, -2:, None]).isnan().any(-1).any(-1)
    keep = seen.nonzero()[:count, 0]
    return FrameWindow(*(part[keep] for part in windows))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, value in (("steps", 6000), ("first", 0), ("seeds", 3), ("windows", 256), ("frames", 25600)):
        parser.add_argument(f"--{name}", type=int, default=value)
    given = parser.parse_args()
    torch.set_num_threads(1)
    held = chosen(collected(2 * given.frames, 100, GAME, restless), given.windows)
    truth, before = ball(held.frame), ball(held.stack[:, -2:, None])
    ahead = torch.arange(1, STEPS + 1)[None, :, None]
    still = before[:, 1:].expand_as(truth)
    straight = before[:, 1:] + ahead * (before[:, 1:] - before[:, :1])
    print(f"{len(truth)} held-out windows; near after 1 to {STEPS} steps: ball left {tracked(still, truth)}")
    print(f"ball straight on {tracked(straight, truth)}", flush=True)
    for seed in range(given.first, given.first + given.seeds):
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            frames = product(collected(given.frames, seed, GAME, restless), Path(folder))
            model = learn_world(frames, given.steps, 1, GAME, seed, **SETTINGS)
        once = checks.one_step(model.world, held)["eval/changed_accuracy"]
        dreamed = torch.cat([checks.roll(model.world, part, STEPS) for part in checks.pieces(held)])
        print(f"seed {seed}: {tracked(ball(dreamed), truth)}; changed pixels {once:.3f}; "
              f"{time.perf_counter() - began:.0f} s", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
