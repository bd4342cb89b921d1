"""What other libraries call our options, by `aliases.csv` beside this file; an error for an unknown option asks here.

One word means several things: SB3's n_steps is `data.rollout_steps` of PPO and `model.n_step` of SAC. The meaning that
fits the classes of the config comes first.
"""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rl_lightning.runs.config import catalog
from rl_lightning.runs.config.keys import TOP

# In the order in which errors and the documents name them.
LIBRARIES = (
    "SB3", "CleanRL", "d3rlpy", "OfflineRL-Kit", "dreamerv3", "tdmpc2", "dreamerv3-torch", "CORL", "sheeprl",
    "Spinning Up", "REDQ", "mbrl-lib", "RL Zoo", "sb3-contrib", "diffusers", "Diffusion-DICE", "MBARC",
    "Hydra", "Lightning Trainer",
)  # fmt: skip
NONE = "-"  # stands where a word has no counterpart
_HEADS = ("model", "data", "run", "log", "trainer")


class Alias(NamedTuple):
    """A row of the table.

    Args:
        library: Whose word it is, often with an algorithm: SB3 PPO.
        theirs: The word.
        ours: A dotted path, a flag or a command of ours; `-` where there is none.
        note: How the value differs, or why there is none.
    """

    library: str
    theirs: str
    ours: str
    note: str

    @property
    def family(self) -> str:
        """The library alone."""
        return max((name for name in LIBRARIES if self.library.startswith(name)), key=len)


class Place(NamedTuple):
    """Where an unknown option stands.

    Args:
        classes: class_path of `model` and `data` of the config, as far as they are known.
        path: Dotted path of the settings that were read: model, model.network, run; empty for the top.
        arguments: What may stand there.
    """

    classes: Mapping[str, str] = {}
    path: str = ""
    arguments: Iterable[str] = ()

    def holds(self, ours: str) -> bool:
        """Whether this config has our option."""
        parent, _, name = ours.rpartition(".")
        if parent and parent == self.path:
            return name in self.arguments
        return bool(takers(ours, self.classes))

    def own(self, ours: str) -> bool:
        return bool(self.path) and ours.startswith(f"{self.path}.")

    def concerns(self, row: Alias) -> bool:
        """Whether the row speaks of the config's algorithm."""
        algorithm = self.classes.get("model", "").rpartition(".")[2].lower()
        return bool(algorithm) and algorithm in re.split(r"[\s/,]+", row.library.lower())


def named_classes(config: Mapping[str, Any]) -> dict[str, str]:
    """The class_path of model and data, as far as a config names them."""
    parts = {group: config.get(group) for group in ("model", "data")}
    paths = {g: part.get("class_path") if isinstance(part, Mapping) else part for g, part in parts.items()}
    return {group: path for group, path in paths.items() if isinstance(path, str)}


@functools.cache
def table() -> tuple[Alias, ...]:
    with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as file:
        return tuple(Alias(*row) for row in list(csv.reader(file))[1:])


def meanings(word: str) -> list[Alias]:
    """The rows of a word, written as an option or as a flag; else those of the last part of a dotted one."""
    spelled = _spelled(word)
    return _by_word().get(spelled) or _by_word().get(spelled.rpartition(".")[2], [])


@functools.cache
def _by_word() -> dict[str, list[Alias]]:
    rows: dict[str, list[Alias]] = {}
    for row in table():
        if _spelled(row.theirs) != _spelled(row.ours):  # the same word tells nothing
            rows.setdefault(_spelled(row.theirs), []).append(row)
    return rows


def advice(word: str, place: Place) -> str:
    """ "; SB3 and CleanRL's word for data.rollout_steps: --data.rollout_steps", or nothing."""
    ranked = sorted((_rank(row, place), index, row) for index, row in enumerate(meanings(word)))
    if not ranked:
        return ""
    (tier, *_), _, best = ranked[0]
    # Reasons differ from library to library, counterparts do not.
    same = (row for (level, *_), _, row in ranked if level == tier and row.ours == best.ours)
    names = [row.family for row in same if best.ours != NONE or row.note == best.note]
    owners = "" if tier == 0 else _owners(best.ours)
    return _sentence(" and ".join(list(dict.fromkeys(names))[:2]), best, owners)


def verb_advice(word: str, command: str, flags: Iterable[str]) -> str:
    """The same for a command that takes no options of a config: only flags of its own are named."""
    ours = {f"--{flag}" for flag in flags} | {f"rl {command} --{flag}" for flag in flags}
    row = next((row for row in meanings(word) if row.ours in ours), None)
    return "" if row is None else _sentence(row.family, row, "")


def takers(ours: str, classes: Mapping[str, str]) -> list[str]:
    """The classes that have our option: of the config where it names them, else all; a flag is everyone's."""
    head, *rest = ours.split(".")
    start = start_of(head, classes)
    if start is None or not rest:
        return [] if ours == NONE else [head]
    return [entry.name for entry in catalog.takers(rest, start)]


def short_flag(name: str) -> str | None:
    """Our option for a word that is taken as a flag as it is: the note of its row begins with `short:`."""
    flags = re.compile(rf"short: .*--{re.escape(name)}\b")
    return next((row.ours for row in table() if flags.match(row.note)), None)


def start_of(head: str, classes: Mapping[str, str]) -> list[catalog.Entry] | None:
    """The classes whose arguments a group holds; None for one that is not ours."""
    groups = {"run": "RunConfig", "log": "LogConfig", "phase": "Phase"}
    if head in groups:
        return [entry for entry in [catalog.find(groups[head])] if entry]
    if head not in ("model", "data"):
        return None
    named = catalog.find(classes.get(head, ""))
    return [named] if named else catalog.algorithms() if head == "model" else catalog.data_modules()


def _rank(row: Alias, place: Place) -> tuple[int, bool, bool, int, int]:
    """What stands first is what the config has, then what stands where the option was read, then the library."""
    head = row.ours.split(".")[0]
    group = _HEADS.index(head) if head in _HEADS else len(_HEADS)
    concerns = place.concerns(row)
    return _tier(row, place), not place.own(row.ours), not concerns, group, LIBRARIES.index(row.family)


def _tier(row: Alias, place: Place) -> int:
    """What the config has comes first, then why its algorithm has none, what others have, why nobody has any."""
    if row.ours == NONE:
        return 1 if place.concerns(row) else 3
    return 0 if place.holds(row.ours) else 2


def _owners(ours: str) -> str:
    """ " of DQN": who has an option that the config lacks."""
    names = [name for name in takers(ours, {}) if ours.split(".")[0] in ("model", "data")]
    return f" of {', '.join(names[:3])}{', ...' if len(names) > 3 else ''}" if names else ""


def _sentence(libraries: str, row: Alias, owners: str) -> str:
    note = f" ({row.note})" if row.note and not row.note.startswith("short: ") else ""
    if row.ours == NONE:
        reason = "" if row.note == "no counterpart" else f": {row.note}"
        return f"; {libraries}'s word has no counterpart{reason}"
    if _spelled(row.theirs) == row.ours.rpartition(".")[2] and owners:
        return f"; {row.ours} is an option{owners}"
    flag = "" if owners or row.ours.split(".")[0] not in TOP else f": --{row.ours}"
    return f"; {libraries}'s word for {row.ours}{owners}{flag}{note}"


def _spelled(word: str) -> str:
    return word.lstrip("-").replace("-", "_")
