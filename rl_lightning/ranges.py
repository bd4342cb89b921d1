"""Numbers that an option may be, as types: `n_epochs: PositiveInt`, refused in a config and in a constructor alike."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

from rl_lightning.errors import ConfigError


class Range(NamedTuple):
    """Numbers from `low` to `high`, without an end that is open."""

    meaning: str  # as an error says it
    low: float
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def holds(self, number: float) -> bool:
        above = number > self.low if self.open_low else number >= self.low
        return above and (number < self.high if self.open_high else number <= self.high)


_NOT_NEGATIVE = Range("it must not be negative", 0)
_POSITIVE = Range("it must be above 0", 0, open_low=True)

PositiveInt = Annotated[int, Range("it must be at least 1", 1)]
NonNegativeInt = Annotated[int, _NOT_NEGATIVE]
PositiveFloat = Annotated[float, _POSITIVE]
NonNegativeFloat = Annotated[float, _NOT_NEGATIVE]
Fraction = Annotated[float, Range("it lies between 0 and 1", 0, 1)]
PositiveFraction = Annotated[float, Range("it is above 0, and at most 1", 0, 1, open_low=True)]
FractionBelowOne = Annotated[float, Range("it is at least 0, and below 1", 0, 1, open_high=True)]
Percentage = Annotated[float, Range("it lies between 0 and 100", 0, 100)]


def check_ranges(cls: type, options: Mapping[str, Any], prefix: str = "") -> None:
    """Raises for an argument that its type does not allow; what is no number is for the constructor to judge.

    Args:
        cls: Whose constructor takes them.
        options: Arguments by name.
        prefix: How a config spells them, e.g. "model.".
    """
    ranges = ranges_of(cls)
    for name, value in options.items():
        if name not in ranges:
            continue
        for each in value if isinstance(value, list | tuple) else [value]:
            number = isinstance(each, int | float) and not isinstance(each, bool)
            if number and not ranges[name].holds(each):
                raise ConfigError(f"{prefix}{name} is {value}; {ranges[name].meaning}")


@functools.cache
def ranges_of(cls: type) -> dict[str, Range]:
    """The ranges of a constructor's arguments, those that it hands on to its base among them."""
    ranges: dict[str, Range] = {}
    for base in reversed(cls.__mro__):
        constructor = vars(base).get("__init__")
        try:
            hints = get_type_hints(constructor, include_extras=True) if constructor else {}
        except (NameError, TypeError, AttributeError):
            continue  # its types cannot be told here
        ranges |= {name: own for name, hint in hints.items() if (own := _range_in(hint)) is not None}
    return ranges


def _range_in(hint: Any) -> Range | None:
    """Of a number, of one that may be null, or of each of a list."""
    if get_origin(hint) is Annotated:
        return next((extra for extra in get_args(hint)[1:] if isinstance(extra, Range)), None)
    return next((inner for part in get_args(hint) if (inner := _range_in(part)) is not None), None)


def check_ranges_within(value: Any, key: str) -> None:
    """The same for every class that a part of a config names, which the parser has imported.

    Args:
        value: `class_path` and `init_args`, or a list or mapping of such; anything else passes.
        key: Where it stands in the config.
    """
    if isinstance(value, list | tuple):
        for index, each in enumerate(value):
            check_ranges_within(each, f"{key}[{index}]")
    if not isinstance(value, Mapping):
        return
    options = value.get("init_args") if "class_path" in value else value
    if not isinstance(options, Mapping):
        return
    if "class_path" in value:
        module, _, name = str(value["class_path"]).rpartition(".")
        cls = getattr(sys.modules.get(module), name, None)
        if isinstance(cls, type):
            check_ranges(cls, options, f"{key}.")
    for name, each in options.items():
        check_ranges_within(each, f"{key}.{name}")
