"""A word in YAML has one type, whoever's option it is."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

from rl_lightning.runs.config import catalog

ROOTS = ("algorithms", "datamodules", "callbacks")
# The same thing said more narrowly, or the signature of torch's own class.
NARROWER = {
    "buffer": {"ReplayBuffer", "SequenceReplay"},  # sequences are kept in order
    "planner": {"Planner", "MPPI"},  # TD-MPC plans by MPPI alone
    "split": {
        "Literal['episode', 'transition']",
        "Literal['episode']",
    },  # windows cannot be split by transitions
    "eps": {"float", "tuple[float, float]"},  # Adafactor has a pair, as in torch
}


def plain(kind: str) -> str:
    """A type without the null that stands for a default."""
    return " | ".join(sorted(part for part in (p.strip() for p in kind.split("|")) if part != "None"))


def named_in_configs() -> dict[str, catalog.Entry]:
    """Classes that a config may name: those of the roots, and what their options may be, all the way down."""
    everything = {
        name: entry for folder in catalog.FOLDERS for name, entry in catalog.classes(folder).items()
    }
    below = defaultdict(set)
    for name, entry in everything.items():
        for base in entry.bases:
            below[base].add(name)
    waiting = [name for folder in ROOTS for name in catalog.classes(folder)]
    reached: dict[str, catalog.Entry] = {}
    while waiting:
        name = waiting.pop()
        if name in reached or name not in everything:
            continue
        reached[name] = everything[name]
        waiting += below[name]
        for option in everything[name].options:
            waiting += re.findall(r"\b[A-Z]\w+", option.type)
            waiting += [
                entry.name for kind in catalog.kinds_in(option.type) for entry in catalog.kind_of(kind)
            ]
    return reached


CLASSES = named_in_configs()
TYPES: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
for _name, _entry in CLASSES.items():
    for _option in _entry.options:
        TYPES[_option.name][plain(_option.type)].append(_name)


def test_all_that_a_config_names_is_looked_at():
    assert {"SAC", "MLP", "DPMSolver", "FrameStack", "TwoHotHead", "RealNVP", "Adafactor"} <= CLASSES.keys()


@pytest.mark.parametrize("word", sorted(TYPES))
def test_a_word_has_one_type(word: str):
    kinds = TYPES[word]
    assert len(kinds) == 1 or kinds.keys() == NARROWER.get(word), dict(kinds)
