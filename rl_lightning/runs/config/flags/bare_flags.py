"""Flags without a value: they switch something on, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from rl_lightning.runs.config import catalog
from rl_lightning.runs.config.aliases import start_of
from rl_lightning.runs.config.keys import TOP


def needs_value(key: str, classes: Mapping[str, str]) -> bool:
    """Whether no class of the config, or none at all where it names none, has a switch of this name."""
    head, *rest = key.replace(".init_args", "").split(".")
    if not rest:
        return key in TOP
    start = start_of(head, classes)
    types = list(_types(start, rest)) if start else []  # of the Trainer the parser knows
    return bool(types) and not any(re.search(r"\bbool\b", kind) for kind in types)


def _types(owners: Iterable[catalog.Entry], words: list[str]) -> Iterable[str]:
    """The annotations of a dotted argument."""
    for owner in owners:
        for option in catalog.all_options(owner):
            if option.name == words[0] and len(words) == 1:
                yield option.type
            elif option.name == words[0]:
                kinds = catalog.kinds_in(option.type)
                yield from _types((child for kind in kinds for child in catalog.kind_of(kind)), words[1:])
