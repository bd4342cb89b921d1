"""Lightning's share: blocks through the Trainer and our callbacks, against the same blocks in a bare loop.

    python share.py ppo|dqn|sac full|quick

Both halves alternate within one run, on the same module, optimizers, envs and buffer: a callback times a stretch of
the Trainer's blocks, then plays a stretch of bare ones (`next_block`, `training_step`, nothing else) itself.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from typing import Any

import ours
from lightning.pytorch import Callback

BLOCKS = {"ppo": 4, "dqn": 3, "sac": 60}  # of one stretch: about half a second
WARM = {"ppo": 4, "dqn": 8, "sac": 60}


class Alternate(Callback):
    """Times stretches of the Trainer's blocks and of bare ones in turn."""

    def __init__(self, rule: str, rounds: int) -> None:
        self.blocks, self.warm, self.rounds = BLOCKS[rule], WARM[rule], rounds
        self.seen, self.begin = 0, 0.0
        self.trainer_times: list[float] = []
        self.bare_times: list[float] = []

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *args: Any) -> None:
        data = trainer.datamodule
        if not data.clock.update:
            return  # prefill
        self.seen += 1
        if self.seen < self.warm:
            return
        if self.seen > self.warm and (self.seen - self.warm) % self.blocks == 0:
            self.trainer_times.append(time.perf_counter() - self.begin)
            self.bare_times.append(self._bare(data, pl_module))
            trainer.should_stop |= len(self.bare_times) == self.rounds
        if (self.seen - self.warm) % self.blocks == 0:
            self.begin = time.perf_counter()

    def _bare(self, data: Any, module: Any) -> float:
        begin = time.perf_counter()
        for k in range(self.blocks):
            module.training_step(data.next_block(), k)
        return time.perf_counter() - begin


def main() -> None:
    ours.quiet()
    rule, size = sys.argv[1:]
    watch = Alternate(rule, 3 if size == "quick" else 15)
    ours.fit(rule, 10_000_000, watch)
    # neighbouring stretches are compared with each other, so that a change in the machine's pace cancels
    over = statistics.median(t / b for t, b in zip(watch.trainer_times, watch.bare_times, strict=True))
    print(json.dumps({"over": over - 1.0}))


if __name__ == "__main__":
    main()
