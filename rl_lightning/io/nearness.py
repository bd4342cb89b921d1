"""Which right name is near to a wrong one. A guess that is far off does harm, so that often there is none."""

import difflib
import re
from collections.abc import Iterable

NEAR = 0.75  # difflib's ratio of two whole names
PART = 0.88  # of a name and the leading words of another: hiden, hidden_dims


def nearest(word: str, choices: Iterable[str], count: int = 3) -> list[str]:
    """The choices that are near to `word`, best first; case does not matter."""
    by_lower: dict[str, str] = {}
    for choice in choices:
        by_lower.setdefault(choice.lower(), choice)
    word = word.lower()
    if word in by_lower:
        return [by_lower[word]]
    scores = {name: max(likeness(word, name), _contains(name, word)) for name in by_lower}
    near = sorted((name for name in scores if scores[name]), key=lambda name: (-scores[name], len(name)))
    return [by_lower[name] for name in near[:count]]


def likeness(word: str, name: str) -> float:
    """How near two names are, from NEAR to 1; 0 where they are not."""
    ratio = difflib.SequenceMatcher(None, name, word).ratio()
    leading = (name[: match.start()] for match in re.finditer(r"(?<=\w)[_./-]", name))
    part = max((difflib.SequenceMatcher(None, head, word).ratio() for head in leading), default=0.0)
    return ratio if ratio >= NEAR else NEAR if part >= PART else 0.0


def share_an_end(word: str, name: str) -> bool:
    """Whether two names begin with the same letter, or have half of the shorter one in common at an end."""
    half = (min(len(word), len(name)) + 1) // 2
    return word[:1] == name[:1] or word[-half:] == name[-half:]


def _contains(name: str, word: str) -> float:
    """NEAR where the word is a part of the name: cartpole in ppo/cartpole."""
    at_a_boundary = len(word) == 3 and re.search(rf"(?<![a-z0-9]){re.escape(word)}(?![a-z0-9])", name)
    return NEAR if at_a_boundary or (len(word) > 3 and word in name) else 0.0
