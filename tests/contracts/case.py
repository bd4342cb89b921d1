"""What a row of the contracts is made of."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import contracts.toys  # noqa: F401  (registers tests/...)

from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.envs.make import EnvConfig


class Toy(NamedTuple):
    """What learning is measured by: the mean return of an evaluation after a budget in the clock of the data.

    One of each algorithm is quick; those of more than a few seconds are learned by the slow suite.
    """

    budget: int
    score: float
    slow: bool = False


@dataclass(frozen=True)
class Case:
    """One algorithm on one task: fitted in well under a second, and big enough to learn its toy in a few.

    Args:
        name: Shown in test ids.
        data: Makes the DataModule; keyword arguments override its own.
        model: Makes the module from the spec; keyword arguments override its own.
        optimizers: For each optimizer in order, prefixes of the parameters it alone moves.
        toy: What it learns, if that is a task.
        targets: Prefixes of parameters that follow others and belong to no optimizer.
        frozen: Prefixes of parameters that no update moves.
        counters: Other state that an update changes.
        still: Ends of names of parameters that cannot move at this size.
        blocks: Blocks after which every part had its turn.
        length: Of the run that is stopped, resumed and repeated, in the clock of the data. A quarter of it is whole
            blocks of updates: an evaluation cuts a block, and with it what is drawn for it.
        updates: Whether the data make batches at all.
        notes: Prefixes of the state that an evaluation writes.
        onnx: Whether ONNX can express the policy.
        waits: Most times that one update may make the host wait for the device.
        copies: Most tensors that one `act` may copy from the host to the device.
    """

    name: str
    data: Callable[..., Any]
    model: Callable[..., Any]
    optimizers: tuple[tuple[str, ...], ...] = ()
    toy: Toy | None = None
    targets: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()
    still: tuple[str, ...] = ()
    blocks: int = 1
    length: int = 384
    updates: bool = True
    notes: tuple[str, ...] = ()
    onnx: bool = True
    waits: int = 1
    copies: int = 1

    def but(self, data: dict[str, Any] | None = None, model: dict[str, Any] | None = None) -> "Case":
        """The same row with some arguments replaced."""
        return replace(self, data=partial(self.data, **data or {}), model=partial(self.model, **model or {}))

    @property
    def clock(self) -> str:
        return str(made_of(self.data)[0].clock_name)

    def run(self, budget: int, **more: Any) -> RunConfig:
        """A budget in the clock of the data."""
        return RunConfig(**{f"{self.clock}s": budget}, **more)


def made_of(made: Any) -> tuple[type[Any], dict[str, Any]]:
    """The class at the bottom of nested partials, and all that they were given."""
    given: dict[str, Any] = {}
    while isinstance(made, partial):
        assert not made.args, made
        given, made = {**made.keywords, **given}, made.func
    assert isinstance(made, type), made
    return made, given


def env(name: str, *transforms: Any, **kwargs: Any) -> EnvConfig:
    return EnvConfig(id=name, kwargs=kwargs, transforms=list(transforms))


LAKE, TARGET = env("rl/FrozenLake2x2-v0"), env("tests/Target-v0")
CATCH, RECALL = env("rl/Catch-v0", rows=5, columns=5), env("rl/Recall-v0", delay=1)
