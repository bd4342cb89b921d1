"""Ways to draw windows from a sequence buffer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from rl_lightning.errors import ConfigError, DataError
from rl_lightning.replay.prioritized import SumTree

if TYPE_CHECKING:
    from rl_lightning.replay.sequence import SequenceReplay

TRIES = 8  # rounds of drawing again what falls across an episode's end, before all windows are listed


class Windows:
    """Draws the last rows of windows; where a subclass does not say otherwise, all with the same probability."""

    def __init__(self, buffer: SequenceReplay, /) -> None:
        self.buffer = buffer

    def sample(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Windows by their last rows, and the weight of each."""
        index = self._candidates(count, generator)
        for _ in range(TRIES if self.buffer.within_episode else 0):
            valid = index[self.buffer.valid(index)]
            if len(valid) >= count:
                return valid[:count], torch.ones(count)
            index = torch.cat((valid, self._candidates(count, generator)))
        if self.buffer.within_episode:
            index = self._of_all(count, generator)
        return index, torch.ones(count)

    def _of_all(self, count: int, generator: torch.Generator) -> Tensor:
        """Drawn from the list of all windows: the sure way where few are left."""
        windows = self.buffer.all_windows()
        if not len(windows):
            raise DataError(
                f"no episode in the buffer has {self.buffer.sequence_length} rows. Use a smaller data.sequence_length"
            )
        return windows[torch.randint(len(windows), (count,), generator=generator)]

    def _counts(self) -> Tensor:
        """Windows of each env, those across episodes counted too."""
        buffer = self.buffer
        return (torch.tensor(buffer.total).clamp(max=buffer.ring) - buffer.sequence_length + 1).clamp(min=0)

    def _candidates(self, count: int, generator: torch.Generator) -> Tensor:
        counts = self._counts()
        ends = counts.cumsum(0)
        number = torch.randint(int(ends[-1]), (count,), generator=generator)
        env = torch.searchsorted(ends, number, right=True)
        return self._back(env, ends[env] - 1 - number)

    def _back(self, env: Tensor, back: Tensor) -> Tensor:
        """The row `back` rows before each env's newest."""
        buffer = self.buffer
        return env * buffer.ring + (torch.tensor(buffer.total)[env] - 1 - back) % buffer.ring

    def on_rows_written(self, before: list[int]) -> None:
        """Told when rows were added; `before` counts what each env had."""

    def set_priorities(self, index: Tensor, priority: Tensor) -> None:
        """Uniform drawing has no priorities."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing is remembered."""


class UniformWindows(Windows):
    """Every window has the same probability."""


class RecentWindows(Windows):
    """New windows are drawn more often: the probability halves every `half_life` rows of an env.

    Args:
        half_life: Rows after which a window is drawn half as often.
        recent_fraction: Fraction of the windows that is drawn so; the others are uniform.
    """

    def __init__(
        self, buffer: SequenceReplay, /, half_life: int = 10_000, recent_fraction: float = 0.5
    ) -> None:
        if half_life < 1 or not 0.0 <= recent_fraction <= 1.0:
            raise ConfigError(
                f"RecentWindows: half_life is {half_life} (at least 1), recent_fraction {recent_fraction} (between 0 "
                "and 1)"
            )
        super().__init__(buffer)
        self.rate, self.recent_fraction = math.log(2.0) / half_life, recent_fraction

    def _candidates(self, count: int, generator: torch.Generator) -> Tensor:
        uniform = super()._candidates(count, generator)
        counts = self._counts()
        env = torch.multinomial(counts.double(), count, replacement=True, generator=generator)
        mass = torch.rand(count, generator=generator, dtype=torch.float64)
        whole = -torch.expm1(-self.rate * counts[env].double())
        back = (-torch.log1p(-mass * whole) / self.rate).long()
        recent = self._back(env, torch.minimum(back, counts[env] - 1))
        return torch.where(torch.rand(count, generator=generator) < self.recent_fraction, recent, uniform)


class EpisodeWindows(Windows):
    """First an episode, each as likely as another, then a window in it, as PlaNet and Dreamer v1 draw them."""

    def __init__(self, buffer: SequenceReplay, /) -> None:
        if not buffer.within_episode:
            raise ConfigError("EpisodeWindows draws within episodes; set data.buffer.within_episode to true")
        super().__init__(buffer)

    def sample(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        windows = self.buffer.all_windows()
        if not len(windows):
            return super().sample(count, generator)  # which says so
        env, slot = windows // self.buffer.ring, windows % self.buffer.ring
        row = (slot - torch.tensor(self.buffer.total)[env]) % self.buffer.ring  # in order of time
        first = (
            row - self.buffer.age[env, slot]
        )  # may lie before the oldest row; it names the episode all the same
        _, episode, sizes = torch.unique(
            torch.stack((env, first)), dim=1, return_inverse=True, return_counts=True
        )
        weight = 1.0 / sizes[episode].double()
        return windows[torch.multinomial(weight, count, replacement=True, generator=generator)], torch.ones(
            count
        )


class PrioritizedWindows(Windows):
    """Windows are drawn in proportion to how wrong the last prediction for them was.

    Args:
        alpha: How strongly priorities count; 0 is uniform.
        beta: How fully the weights correct for it at the start of the run; it rises to 1 at the end.
        eps: Added to every priority, so that none is zero.
    """

    def __init__(
        self, buffer: SequenceReplay, /, alpha: float = 0.6, beta: float = 0.4, eps: float = 1e-6
    ) -> None:
        super().__init__(buffer)
        self.alpha, self.beta, self.eps = alpha, beta, eps
        self.tree = SumTree(buffer.num_envs * buffer.ring)
        self.largest = 1.0

    def sample(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        strata = (torch.rand(count, generator=generator, dtype=torch.float64) + torch.arange(count)) / count
        index = torch.from_numpy(self.tree.find(strata.numpy() * self.tree.total))
        share = torch.from_numpy(self.tree.sums[index.numpy() + self.tree.leaves] / self.tree.total)
        beta = self.beta + (1.0 - self.beta) * self.buffer.progress
        weight = (share * len(self.buffer)).pow(-beta)
        return index, (weight / weight.max()).float()

    def on_rows_written(self, before: list[int]) -> None:
        """New rows end windows; what was overwritten began some that are gone."""
        buffer = self.buffer
        for env, (old, new) in enumerate(zip(before, buffer.total, strict=True)):
            rows = np.arange(max(old, new - buffer.ring), new)
            broken = np.arange(
                new, new + buffer.sequence_length - 1
            )  # ends of windows that begin before the oldest row
            for changed, priority in ((rows, self.largest**self.alpha), (broken, 0.0)):
                index = torch.from_numpy(np.unique(changed % buffer.ring) + env * buffer.ring)
                if len(index):
                    self.tree.set(index.numpy(), priority * buffer.valid(index).numpy())

    def set_priorities(self, index: Tensor, priority: Tensor) -> None:
        value = priority.abs().double().numpy().ravel() + self.eps
        flat, first = np.unique(index.numpy().ravel(), return_index=True)
        alive = self.tree.sums[flat + self.tree.leaves] > 0  # it may have been overwritten meanwhile
        self.largest = max(self.largest, float(value.max()))
        if alive.any():
            self.tree.set(flat[alive], value[first][alive] ** self.alpha)

    def state_dict(self) -> dict[str, Any]:
        leaves = self.tree.sums[self.tree.leaves :][: self.buffer.num_envs * self.buffer.ring]
        return {"priorities": torch.from_numpy(leaves.copy()), "largest": self.largest}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.tree.set(np.arange(len(state["priorities"])), state["priorities"].numpy())
        self.largest = state["largest"]


# Makes what draws windows of a buffer.
WindowsFactory = Callable[["SequenceReplay"], Windows]
