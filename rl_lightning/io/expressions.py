"""A small language for conditions on metrics: `train/approx_kl > 0.1 and mean(eval/return, 5) < 200`.

Numbers, metric names, + - * /, comparisons, and, or, not, and a fixed list of functions. It has a tokenizer and a
parser of its own and never reaches Python: a condition can compute a number, and nothing else. A name runs over
slashes, so a division is written with spaces; any other name is put in quotes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rl_lightning.errors import ConfigError

MAX_LENGTH = 1000
MAX_DEPTH = 40
WINDOW = 1000  # how much of a metric's past any function can ask for

History = Mapping[str, Sequence[float]]  # metric -> its values, newest last

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
    r"|(?P<name>[A-Za-z_][\w.]*(?:/[\w.]+)*)"
    r"|(?P<quoted>'[^'\n]*'|\"[^\"\n]*\")"
    r"|(?P<sign><=|>=|==|!=|[-+*/()<>,]))",
    re.ASCII,
)
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
_WORDS = ("and", "or", "not")


def _slope(values: Sequence[float]) -> float:
    """Change per value, by least squares."""
    count = len(values)
    if count < 2:
        return 0.0
    middle, mean = (count - 1) / 2, sum(values) / count
    return sum((i - middle) * (v - mean) for i, v in enumerate(values)) / sum(
        (i - middle) ** 2 for i in range(count)
    )


def _std(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return math.sqrt(sum((v - mean) ** 2 for v in values) / len(values))


# of numbers
_PLAIN: dict[str, tuple[int, Callable[..., float]]] = {
    "abs": (1, abs),
    "sqrt": (1, math.sqrt),
    "log": (1, math.log),
    "exp": (1, math.exp),
    "min": (2, min),
    "max": (2, max),
    "isnan": (1, lambda a: float(math.isnan(a))),
    "isfinite": (1, lambda a: float(math.isfinite(a))),
}
# of a metric's last values: name, and how many of them (default all that are kept)
_PAST: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": lambda v: sum(v) / len(v),
    "std": _std,
    "lowest": min,
    "highest": max,
    "slope": _slope,
    "count": len,
}


class Token(NamedTuple):
    """One word of a condition."""

    kind: str  # number, name, sign, end
    text: str
    at: int


class Node(NamedTuple):
    """One operation of a parsed condition."""

    kind: str
    value: Any = None
    parts: tuple[Node, ...] = ()


class Expression:
    """A parsed condition.

    Args:
        source: The condition's text.
    """

    def __init__(self, source: str) -> None:
        if not isinstance(source, str) or not source.strip():
            raise ConfigError(f"a condition is text like 'train/loss > 10', not {source!r:.40}")
        if len(source) > MAX_LENGTH:
            raise ConfigError(f"a condition of {len(source)} characters; {MAX_LENGTH} are allowed")
        self.source = source
        self.root = _Parser(source).whole()
        self.names = sorted(_names(self.root))

    def value(self, history: History) -> float | None:
        """What the condition computes; None if a metric that decides it has no value yet."""
        return _value(self.root, history)

    def holds(self, history: History) -> bool:
        """Whether it is true; what is not known does not hold, and neither does what is not a number."""
        found = self.value(history)
        return found is not None and not math.isnan(found) and found != 0

    def violation(self, history: History) -> float:
        """How far it is from holding: 0 or less where it does, and 1 where that is not known."""
        found = _violation(self.root, history)
        return 1.0 if found is None or math.isnan(found) else found

    def __repr__(self) -> str:
        return f"Expression({self.source!r})"


def _names(node: Node) -> set[str]:
    own = (
        {str(node.value)} if node.kind == "metric" else {str(node.value[1])} if node.kind == "past" else set()
    )
    return own.union(*(_names(part) for part in node.parts))


def tokens(source: str) -> list[Token]:
    found: list[Token] = []
    at = 0
    text = source.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            place = len(text[:at]) + len(text[at:]) - len(text[at:].lstrip())
            raise ConfigError(f"condition {source!r:.80}: {text[place]!r} at {place + 1} is not understood")
        kind = match.lastgroup or ""
        word = match.group(kind)
        if kind == "quoted":
            kind, word = "quoted", word[1:-1]
        found.append(Token(kind, word, match.start(match.lastgroup or 0) + 1))
        at = match.end()
    return [*found, Token("end", "the end", len(text) + 1)]


class _Parser:
    """Recursive descent, one method per strength of binding."""

    def __init__(self, source: str) -> None:
        self.source, self.tokens, self.at, self.depth = source, tokens(source), 0, 0

    def whole(self) -> Node:
        node = self._or()
        if self._now.kind != "end":
            raise self._wrong(f"'{self._now.text}' is too much")
        return node

    @property
    def _now(self) -> Token:
        return self.tokens[self.at]

    def _take(self, *texts: str) -> str | None:
        """The next word if it is one of these, which is then behind us."""
        if self._now.kind in ("sign", "name") and self._now.text in texts:
            self.at += 1
            return self.tokens[self.at - 1].text
        return None

    def _wrong(self, what: str) -> ConfigError:
        return ConfigError(f"condition {self.source!r:.80}: {what} (at {self._now.at})")

    def _or(self) -> Node:
        node = self._and()
        while self._take("or"):
            node = Node("or", None, (node, self._and()))
        return node

    def _and(self) -> Node:
        node = self._not()
        while self._take("and"):
            node = Node("and", None, (node, self._not()))
        return node

    def _not(self) -> Node:
        if self._take("not"):
            return Node("not", None, (self._deeper(self._not),))
        node = self._sum()
        sign = self._take(*_COMPARE)
        return Node("compare", sign, (node, self._sum())) if sign else node

    def _sum(self) -> Node:
        node = self._product()
        while sign := self._take("+", "-"):
            node = Node("arithmetic", sign, (node, self._product()))
        return node

    def _product(self) -> Node:
        node = self._atom()
        while sign := self._take("*", "/"):
            node = Node("arithmetic", sign, (node, self._atom()))
        return node

    def _deeper(self, rule: Callable[[], Node]) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self._wrong(f"nested deeper than {MAX_DEPTH} levels")
        node = rule()
        self.depth -= 1
        return node

    def _atom(self) -> Node:
        if self._take("-"):
            return Node("negative", None, (self._deeper(self._atom),))
        if self._take("("):
            node = self._deeper(self._or)
            self._close()
            return node
        token = self._now
        if token.kind not in ("number", "name", "quoted") or (token.text in _WORDS and token.kind == "name"):
            raise self._wrong(f"a number, a metric or a function should stand where '{token.text}' is")
        self.at += 1
        if token.kind == "number":
            return Node("number", float(token.text))
        if token.kind == "name" and self._take("("):
            return self._call(token.text)
        return Node("metric", token.text)

    def _close(self) -> None:
        if not self._take(")"):
            raise self._wrong("a ) is missing")

    def _call(self, name: str) -> Node:
        parts = [self._deeper(self._or)]
        while self._take(","):
            parts.append(self._deeper(self._or))
        self._close()
        if name in _PAST:
            last = parts[1].value if len(parts) == 2 and parts[1].kind == "number" else WINDOW
            if parts[0].kind != "metric" or len(parts) > 2 or (len(parts) == 2 and parts[1].kind != "number"):
                raise self._wrong(
                    f"{name} takes a metric and how many of its last values, as {name}(a/b, 10)"
                )
            if not 1 <= last <= WINDOW:
                raise self._wrong(f"{name} looks back over 1 to {WINDOW} values")
            return Node("past", (name, parts[0].value, int(last)))
        if name not in _PLAIN:
            raise self._wrong(f"there is no function '{name}'; there are {', '.join([*_PLAIN, *_PAST])}")
        if len(parts) != _PLAIN[name][0]:
            raise self._wrong(f"{name} takes {_PLAIN[name][0]} numbers")
        return Node("plain", name, tuple(parts))


def _value(node: Node, history: History) -> float | None:
    if node.kind == "number":
        return float(node.value)
    if node.kind in ("metric", "past"):
        return _measured(node, history)
    if node.kind in ("and", "or"):
        return _logic(node, history)
    values = [_value(part, history) for part in node.parts]
    if any(value is None for value in values):
        return None
    return _computed(node, [value for value in values if value is not None])


def _measured(node: Node, history: History) -> float | None:
    if node.kind == "metric":
        past = history.get(str(node.value)) or ()
        return float(past[-1]) if past else None
    name, metric, last = node.value
    past = list(history.get(metric) or ())[-last:]
    return float(_PAST[name](past)) if past else None


def _logic(node: Node, history: History) -> float | None:
    """Decided as soon as one side decides it, even where the other is not known."""
    values = [_value(part, history) for part in node.parts]
    known = [bool(value) and not math.isnan(value) for value in values if value is not None]
    decides = node.kind == "or"
    if decides in known:
        return float(decides)
    return float(not decides) if len(known) == len(values) else None


def _computed(node: Node, values: list[float]) -> float:
    if node.kind == "negative":
        return -values[0]
    if node.kind == "not":
        return float(not values[0] or math.isnan(values[0]))
    a, b = values[0], values[-1]
    if node.kind == "compare":
        return float(_COMPARE[node.value](a, b))
    try:
        if node.kind == "plain":
            return float(_PLAIN[node.value][1](*values))
        return {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a / b}[node.value]()
    except (ZeroDivisionError, ValueError):
        return math.nan
    except OverflowError:
        return math.inf


def _violation(node: Node, history: History) -> float | None:
    if node.kind in ("and", "or"):
        parts = [_violation(part, history) for part in node.parts]
        amounts = [1.0 if part is None or math.isnan(part) else part for part in parts]
        return max(amounts) if node.kind == "and" else min(amounts)
    if node.kind != "compare":
        value = _value(node, history)
        return None if value is None else 0.0 if value and not math.isnan(value) else 1.0
    a, b = (_value(part, history) for part in node.parts)
    if a is None or b is None:
        return None
    if _COMPARE[node.value](a, b):
        return min(0.0, -abs(a - b)) if math.isfinite(a - b) else 0.0
    return abs(a - b) or 1.0  # `a < a` misses by nothing, and misses
