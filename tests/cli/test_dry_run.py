"""The memory that `--dry_run` names is the memory that a buffer holds."""

import os

import numpy as np
import psutil
import pytest
import torch

from rl_lightning.replay.ring import Replay
from rl_lightning.replay.sequence import SequenceReplay, row_bytes
from rl_lightning.runs.engine.dry_run import heading_of, size_of
from rl_lightning.types import EnvSpec

PIXELS = EnvSpec(
    "ALE/Pong-v5", (4, 84, 84), "uint8", "discrete", action_sizes=(6,), num_stack=4, action_repeat=4
)


def test_a_buffer_that_is_only_made_takes_no_memory():
    before = psutil.Process(os.getpid()).memory_info().rss
    buffer = Replay(PIXELS, 1, capacity=200_000)
    assert size_of(buffer) > 1.4e9
    assert psutil.Process(os.getpid()).memory_info().rss - before < 0.3e9


def test_only_what_is_shipped_is_called_so():
    assert (heading_of(["ppo/cartpole"]), heading_of(["./mine.yaml"])) == ("shipped as", "described as")


def test_stacked_frames_are_counted_once():
    rows = 5_000
    size = size_of(Replay(PIXELS, 1, capacity=rows))
    assert rows * 84 * 84 <= size <= rows * 84 * 84 * 1.02


def test_a_sequence_buffer_holds_what_its_rows_need():
    size = size_of(SequenceReplay(PIXELS, 2, 16, 0, capacity=4_000))
    assert size == pytest.approx(4_000 * row_bytes(PIXELS), rel=0.1)


def test_shared_memory_is_one_block_whoever_holds_it():
    class Holder:
        def __init__(self) -> None:
            self.table = torch.zeros(1000)
            self.part = self.table[10:20]
            self.again = {"rows": [self.table, self.table.numpy()]}
            self.array = np.zeros(50)
            self.view = self.array.reshape(5, 10)

    assert size_of(Holder()) == 4000 + 400
