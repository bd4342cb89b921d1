"""Collected frames, each kept once, in the order they came: what a world of frames is learned from and begins at.

Nothing is ever overwritten. A row is a frame with the action taken there and what it paid; rows of one episode are
linked, so that stacks go back to its first frame and windows forward to its last, and neither leaves it. The last frame
of an episode, and that of an episode broken off by the end of a collection, is a row without a step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rl_lightning.errors import DataError, ResumeError
from rl_lightning.functional.frame_losses import mean_place
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.types import EnvSpec, FrameWindow, Steps

COLUMNS = {
    "frame": np.uint8,
    "action": np.int16,
    "reward": np.float32,
    "terminated": np.bool_,
    "before": np.int32,  # row of the frame before; the row itself where an episode begins
    "acted": np.bool_,  # an action was taken here
}
TAIL = 0.05  # a sum of rewards counts as known once what lies past a cut weighs less than this
GROWTH = 1.25
CHUNK = 256  # frames looked at together: an index is eight times as large as the pixel it is made of

Array = NDArray[Any]


class EpisodeLinks(NamedTuple):
    """What follows from the links: computed once a log is complete."""

    after: Tensor  # [R] row of the next frame; -1 if it was never seen
    run: Tensor  # [R] steps from here to the episode's end or cut
    value: Tensor  # [R] discounted rewards from here on
    known: Tensor  # [R] bool


class FrameLog:
    """Frames of one collection, or of several put together.

    Args:
        spec: Of the env: stacked pixels and discrete actions.
        rows: Rows to make room for; more is found when it is needed.
    """

    def __init__(self, spec: EnvSpec, rows: int = 0) -> None:
        self.spec = spec
        self.frame_shape = (spec.obs_shape[0] // spec.num_stack, *spec.obs_shape[1:])
        self.count = 0
        self.parts: list[int] = []  # first row of each collection
        self.tails: dict[int, int] = {}  # env -> its newest row, while its episode goes on
        self._arrays: dict[str, Array] = {}
        self._walks: dict[float, EpisodeLinks] = {}
        self._reserve(max(rows, 1))

    def __len__(self) -> int:
        return self.count

    def _reserve(self, rows: int) -> None:
        held = len(self._arrays["acted"]) if self._arrays else 0
        if rows <= held:
            return
        room = max(rows, int(held * GROWTH))
        for name, dtype in COLUMNS.items():
            shape = (room, *self.frame_shape) if name == "frame" else (room,)
            grown: Array = np.zeros(shape, dtype)
            if held:
                grown[: self.count] = self._arrays[name][: self.count]
            self._arrays[name] = grown

    def column(self, name: str) -> Array:
        return self._arrays[name][: self.count]

    def tensor(self, name: str) -> Tensor:
        return torch.from_numpy(self.column(name))

    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._arrays.values())

    def add(self, steps: Steps) -> None:
        """Appends what a collector brought, env by env."""
        self._walks.clear()
        if not self.parts:
            self.parts.append(0)
        for n in range(steps.obs.shape[1]):
            self._add_env(n, steps, {t: last for t, env, last in steps.ends if env == n})

    def _add_env(self, n: int, steps: Steps, ends: dict[int, Array]) -> None:
        newest, length = self.frame_shape[0], len(steps.obs)
        after = np.array(sorted(ends), np.int64)  # steps that a last frame follows
        place = np.arange(length) + np.searchsorted(after, np.arange(length))
        lasts = after + np.arange(len(after)) + 1
        total, base = length + len(after), self.count
        self._reserve(base + total)
        block = {name: array[base : base + total] for name, array in self._arrays.items()}
        block["frame"][place] = steps.obs[:, n, -newest:]
        block["action"][place] = steps.action[:, n]
        block["reward"][place] = steps.reward[:, n]
        block["terminated"][place] = steps.terminated[:, n]
        block["acted"][place] = True
        for t, row in zip(after, lasts, strict=True):
            block["frame"][row] = ends[int(t)][-newest:]
        block["before"][:] = base + np.arange(total) - 1
        firsts = place[steps.is_first[:, n]]
        block["before"][firsts] = base + firsts
        if not steps.is_first[0, n]:
            block["before"][0] = self.tails.get(n, base)
        self.count += total
        if len(lasts) and lasts[-1] == total - 1:
            self.tails.pop(n, None)
        else:
            self.tails[n] = base + total - 1

    def end_episode(self, env: int) -> None:
        """The env's episode was broken off: what comes next belongs to another."""
        self.tails.pop(env, None)

    def extend(self, other: FrameLog) -> None:
        """Puts another log behind this one."""
        self._walks.clear()
        base = self.count
        self._reserve(base + other.count)
        for name, array in self._arrays.items():
            array[base : base + other.count] = other.column(name)
        self._arrays["before"][base : base + other.count] += base
        self.parts += [base + row for row in other.parts]
        self.count += other.count

    def walk(self, gamma: float) -> EpisodeLinks:
        """Links forward, lengths of runs and sums of rewards. The reward of the last step counts."""
        if gamma not in self._walks:
            self._walks[gamma] = self._walked(gamma)
        return self._walks[gamma]

    def _walked(self, gamma: float) -> EpisodeLinks:
        before, acted = self.column("before"), self.column("acted")
        after = np.full(self.count, -1, np.int64)
        rows = np.arange(self.count)
        linked = before != rows
        after[before[linked]] = rows[linked]
        run = np.zeros(self.count, np.int64)
        value = np.zeros(self.count, np.float64)
        weight = np.ones(self.count, np.float64)  # of what lies past a cut; 0 where an episode truly ended
        ahead, reward, over = (
            after.tolist(),
            self.column("reward").tolist(),
            self.column("terminated").tolist(),
        )
        runs, values, weights, took = run.tolist(), value.tolist(), weight.tolist(), acted.tolist()
        for i in range(self.count - 1, -1, -1):  # a row's next frame always lies behind it
            j = ahead[i]
            if not took[i] or j < 0:
                continue
            runs[i] = runs[j] + 1
            values[i] = reward[i] + (0.0 if over[i] else gamma * values[j])
            weights[i] = 0.0 if over[i] else gamma * weights[j]
        known = (torch.tensor(weights) <= TAIL) & torch.tensor(took, dtype=torch.bool)
        return EpisodeLinks(
            torch.from_numpy(after), torch.tensor(runs), torch.tensor(values, dtype=torch.float32), known
        )

    def starts(self, length: int) -> Tensor:
        """Rows that `length` steps follow within the episode; says so where there are none."""
        run = self.walk(0.99).run
        rows = (run >= length).nonzero()[:, 0]
        if not len(rows):
            longest = int(run.max()) if len(run) else 0
            raise DataError(
                f"no episode of {self.spec.env_id} has {length} steps in a row; the longest has {longest}. "
                f"Use --data.sequence_length {max(longest, 1)}, or collect more"
            )
        return rows

    def stack(self, rows: Tensor) -> Tensor:
        """Stacks as the env shows them, held back at the episode's first frame.  [B] -> [B, F*C, H, W]"""
        before, chain = self.tensor("before").long(), [rows]
        for _ in range(self.spec.num_stack - 1):
            chain.append(before[chain[-1]])
        return self.tensor("frame")[torch.stack(chain[::-1], 1)].flatten(1, 2)

    def windows(self, rows: Tensor, length: int, gamma: float, past: int = 0) -> FrameWindow:
        """Windows of `length` steps from each row on, with `past` steps before them."""
        walk, before = self.walk(gamma), self.tensor("before").long()
        chain = [rows]
        for _ in range(length):
            chain.append(walk.after[chain[-1]])
        path = torch.stack(chain, 1)
        steps = path[:, :-1]
        earlier, valid, row = [], [], rows
        for _ in range(past):
            valid.append(before[row] != row)
            row = before[row]
            earlier.append(row)
        empty = torch.empty(len(rows), 0, dtype=torch.int64)
        back = torch.stack(earlier[::-1], 1) if past else empty
        return FrameWindow(
            stack=self.stack(rows),
            frame=self.tensor("frame")[path[:, 1:]],
            action=self.tensor("action")[steps].long(),
            reward=self.tensor("reward")[steps],
            terminated=self.tensor("terminated")[steps],
            value=walk.value[steps],
            known=walk.known[steps],
            past_stack=self.stack(back.flatten()).unflatten(0, (len(rows), past)),
            past_action=self.tensor("action")[back].long(),
            past_valid=torch.stack(valid[::-1], 1) if past else empty.bool(),
        )

    def neighbors(self) -> tuple[Tensor, Tensor]:
        """Whether the step before, and the one after, in the same episode paid anything.  [R] bool each"""
        rewarded = (self.tensor("reward") != 0) & self.tensor("acted")
        before, after = self.tensor("before").long(), self.walk(0.99).after
        rows = torch.arange(self.count)
        earlier = rewarded[before] & (before != rows)
        later = rewarded[after.clamp(min=0)] & (after >= 0)
        return earlier, later

    def color_counts(self, colors: int) -> Tensor:
        """Pixels of each of a palette's colours, in all frames.  [K]"""
        counts = np.zeros(256, np.int64)
        for start in range(0, self.count, CHUNK):
            counts += np.bincount(self.column("frame")[start : start + CHUNK].ravel(), minlength=256)
        if counts[colors:].any():
            raise DataError(
                f"frames of {self.spec.env_id} hold colour {int(counts.nonzero()[0][-1])}; network.colors is {colors}"
            )
        return torch.from_numpy(counts[:colors])

    def direction_changes(self, rare: Tensor) -> Tensor:
        """Steps on which a thing of a rare colour moves otherwise than on the one before, by more than a pixel along
        either axis of its mean place.  [K] bool -> [R] bool"""
        before, after = self.tensor("before").long(), self.walk(0.99).after
        frames, turned = self.tensor("frame")[:, 0], torch.zeros(self.count, dtype=torch.bool)
        for color in rare.nonzero()[:, 0].tolist():
            place = torch.cat([mean_place(part == color) for part in frames.split(CHUNK)])
            bend = place[after] - 2.0 * place + place[before]
            turned |= bend.abs().amax(-1) > 1.0  # False where it is not seen: NaN
        return turned & (after >= 0) & (before != torch.arange(self.count))

    def save(self, store: SegmentStore) -> dict[str, Any]:
        """Puts new rows into the store; what is returned names all segments."""
        start = store.records[-1]["end"] if store.records else 0
        if start < self.count:
            rows = {name: torch.from_numpy(self._arrays[name][start : self.count]) for name in COLUMNS}
            store.append(rows, start, self.count)
        return {
            "count": self.count, "parts": list(self.parts), "tails": dict(self.tails),
            "segments": list(store.records),
        }  # fmt: skip

    def load(self, state: dict[str, Any], store: SegmentStore) -> None:
        store.records = list(state["segments"])
        self._reserve(int(state["count"]))
        self._walks.clear()
        for record in store.records:
            tensors, start, end = store.read(record), record["start"], record["end"]
            for name, dtype in COLUMNS.items():
                saved, shape = tensors.get(name), (end - start, *self._arrays[name].shape[1:])
                if saved is None or tuple(saved.shape) != shape or saved.numpy().dtype != dtype:
                    there = "none" if saved is None else list(saved.shape[1:])
                    raise ResumeError(
                        f"{store.folder / record['file']}: each {name} is {there}, this run has {list(shape[1:])}: "
                        "frames of another size, or of another version"
                    )
                self._arrays[name][start:end] = saved.numpy()
        self.count = int(state["count"])
        self.parts = [int(row) for row in state["parts"]]
        self.tails = {int(env): int(row) for env, row in state["tails"].items()}
