"""Several seeds of one config, trained one after the other in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    from rl_lightning.api.run import TrainedRun


class TrainedRuns(Sequence["TrainedRun"]):
    """The runs of a group of seeds, in their order. `rl_lightning.compare` and `rl plot` take the group by its name.

    Args:
        group: The group's name.
        runs: Its runs.
    """

    def __init__(self, group: str, runs: Sequence[TrainedRun]) -> None:
        self.group, self._runs = group, list(runs)

    @overload
    def __getitem__(self, index: int) -> TrainedRun: ...

    @overload
    def __getitem__(self, index: slice) -> list[TrainedRun]: ...

    def __getitem__(self, index: int | slice) -> TrainedRun | list[TrainedRun]:
        return self._runs[index]

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[TrainedRun]:
        return iter(self._runs)

    @property
    def best(self) -> list[float | None]:
        """Score of each run's best evaluation."""
        return [run.best for run in self]

    def summary(self) -> str:
        """Mean and interval over seeds, as `rl fit --seeds` ends with."""
        from rl_lightning.runs.engine.group import summary

        return summary(self.group, {int(run.record["seed"]): run.name for run in self})

    def __repr__(self) -> str:
        finished = sum(run.status == "finished" for run in self)
        return f"<group {self.group}: {finished} of {len(self)} seeds finished>"
