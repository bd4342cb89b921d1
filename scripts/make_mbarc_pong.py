"""Measures what docs/mbarc.md says of Pong: does a small world carry the ball along, ten steps on its own?

    python scripts/make_mbarc_pong.py --seeds 3

Every second pixel of the playing field (80 x 80), 102,400 steps of a player that follows the ball half of the time and
else keeps an action for a while, so that balls fly in all directions; 14,000 gradient steps of 8 single frames each,
then 16,000 more in which balls count more and turns are seen more often; artifacts in bfloat16. Tracked: the dreamed
ball is at most two pixels from the true one, in windows whose true ball is seen at every step, of this player and of
one that never looks at the ball. Beside it, the ball left where it was, and one that flies straight on. The recipe was
chosen by the windows of one held-out collection; those of another one, the fresh ones, judge it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from make_mbarc import artifact, collected, learn_world
from torch import Tensor

from rl_lightning.envs.make import EnvConfig
from rl_lightning.envs.wrappers.transforms import AtariFrames
from rl_lightning.functional.frame_losses import mean_place
from rl_lightning.models.frames import frame_metrics as checks
from rl_lightning.optim import Adam
from rl_lightning.optim.schedules import Cosine, Exponential
from rl_lightning.types import FrameWindow

GAME = EnvConfig("ALE/Pong-v5", transforms=[AtariFrames(pixel_stride=2, row_start=34, row_end=194)])
BALL = 7  # its colour; inside the field nothing else has it
STEPS, NEAR, HOLD, FOLLOWING = 10, 2.0, 8, 0.5
CHOOSING, FRESH = 100, 101  # seeds of the held-out collections
PADDLE, OTHER = 70, 9  # their columns
REACH = 4  # a ball flies up to four pixels in a step
UP, DOWN, FOLLOW = 2, 3, 6  # actions of the game, and one of ours
# One halving: balls fly by even numbers of pixels, so that within a flight the cells see the same picture again. No
# eps beside the small gradients of two pixels of 6,400; true frames as inputs: from its own, without a ball yet, it
# would learn that balls vanish. Pixels that change count more at first, because a ball that may be at three places is
# at none of them by each pixel's vote, and less at the end, so that balls are drawn as small as they are and can be
# read again.
SETTINGS: dict[str, Any] = {
    "batch_size": 8,
    "sizes": {"compress_steps": 1, "hidden_layers": 5},
    "lr": 3e-3,
    "lr_schedule": Cosine(1e-4),
    "optimizer": Adam,
    "scheduled_sampling_decay_steps": 1_000_000_000,
    "motion_weight": 10.0,
    "motion_weight_schedule": Exponential(3.0, fraction=0.5),
    "input_noise": 0.0,
}
# Then once more, from a higher rate again: now that it carries balls, it practises what it has seen once each. From the
# start that many turns would starve the flights.
AGAIN: dict[str, Any] = SETTINGS | {
    "lr": 2e-3,
    "motion_weight": 3.0,
    "motion_weight_schedule": None,
    "rare_pixel_weight": 30.0,
    "turning": 0.25,
}


def player(obs: Tensor, carry: Any, generator: torch.Generator, mask: Any = None) -> Any:
    """Changes its mind every eighth step: to follow the ball, or to an action that it keeps."""
    count = len(obs)
    follows = torch.rand(count, generator=generator) < FOLLOWING
    intent = torch.where(follows, FOLLOW, torch.randint(6, (count,), generator=generator))
    if carry:
        change = torch.rand(count, generator=generator) < 1.0 / HOLD
        intent = torch.where(change, intent, carry[0][:, 0].long())
    return torch.where(intent == FOLLOW, towards_ball(obs[:, -1]), intent), (intent[:, None].float(),)


def restless(obs: Any, carry: Any, generator: torch.Generator, mask: Any = None) -> Any:
    """Keeps an action for eight steps on average."""
    fresh = torch.randint(6, (len(obs),), generator=generator)
    if not carry:
        return fresh, (fresh[:, None].float(),)
    change = torch.rand(len(obs), generator=generator) < 1.0 / HOLD
    action = torch.where(change, fresh, carry[0][:, 0].long())
    return action, (action[:, None].float(),)


def towards_ball(frame: Tensor) -> Tensor:
    """The action that moves the paddle to the ball's row, or 0.  [B, H, W] -> [B]"""
    row = ball(frame[:, None])[:, 0]
    column, background = frame[:, :, PADDLE], frame[:, :1, 40]
    there = (column != background) & (column != BALL)
    paddle = (there * torch.arange(frame.shape[1])).sum(-1) / there.sum(-1).clamp(min=1)
    return torch.where(row < paddle - 1.0, UP, torch.where(row > paddle + 1.0, DOWN, 0))


def ball(frames: Tensor) -> Tensor:
    """Row and column of the ball, NaN where it is not seen.  [..., 1, H, W] -> [..., 2]"""
    return mean_place(frames[..., 0, :, :] == BALL)


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


class Windows:
    """Held-out windows of one player."""

    def __init__(self, name: str, actor: Any, seed: int, frames: int, count: int) -> None:
        self.name, self.held = name, chosen(collected(frames, seed, GAME, actor), count)
        self.truth, before = ball(self.held.frame), ball(self.held.stack[:, -2:, None])
        speed = before[:, 1:] - before[:, :1]
        path = torch.cat([before, self.truth], 1)
        moves = path.diff(dim=1)
        turns = moves.diff(dim=1).abs() > 1.0  # a ball half out of the field seems to turn by less
        turning, back = turns.any(-1).any(-1), (moves[:, 1:, 1].sign() != moves[:, :-1, 1].sign()).any(-1)
        self.kinds = {
            "in flight": ~turning,
            "turning": turning,
            "at walls alone": turning & ~back,
            "at a paddle": turning & back,
            "far from paddles": ((path[..., 1] - OTHER > REACH) & (PADDLE - path[..., 1] > REACH)).all(-1),
        }
        ahead = torch.arange(1, STEPS + 1)[None, :, None]
        guesses = {
            "ball left": before[:, 1:].expand_as(self.truth),
            "straight on": before[:, 1:] + ahead * speed,
        }
        for guess, found in guesses.items():
            print(f"{name}, {len(self.truth)} windows, {guess}: {tracked(found, self.truth)}", flush=True)

    def judge(self, world: Any) -> str:
        dreamed = torch.cat(
            [checks.open_loop_rollout(world, part, STEPS) for part in checks.chunks(self.held)]
        )
        once = checks.one_step(world, self.held)["eval/changed_pixel_accuracy"]
        found = ball(dreamed)
        last = [
            f"{tracked(found[some], self.truth[some])[-1]} of {int(some.sum())} {name}"
            for name, some in self.kinds.items()
        ]
        return f"{self.name} {tracked(found, self.truth)}; last {', '.join(last)}; changed pixels {once:.3f}"


def report(name: str, world: Any, sets: list[Windows]) -> None:
    for each in sets:
        print(f"{name}: {each.judge(world)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, value in (
        ("steps", 14_000),
        ("again", 16_000),
        ("first", 0),
        ("seeds", 3),
        ("windows", 256),
        ("frames", 102_400),
        ("held", 25_600),
    ):
        parser.add_argument(f"--{name}", type=int, default=value)
    given = parser.parse_args()
    torch.set_num_threads(1)
    # A restless player loses its balls sooner: as many windows take twice the frames.
    sets = [
        Windows(f"{name}{actor.__name__}", actor, seed, size * times * given.held, size * given.windows)
        for name, seed, size in (("", CHOOSING, 1), ("fresh ", FRESH, 4))
        for actor, times in ((player, 1), (restless, 2))
    ]
    for seed in range(given.first, given.first + given.seeds):
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            frames = artifact(collected(given.frames, seed, GAME, player), Path(folder))
            model = learn_world(frames, given.steps, 1, GAME, seed, half=True, **SETTINGS)
            report(f"seed {seed}, first", model.world, sets)
            model = learn_world(frames, given.again, 1, GAME, seed, half=True, first=model, **AGAIN)
        report(f"seed {seed}", model.world, sets)
        print(f"seed {seed}: {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
