"""A small language for conditions on metrics: `train/approx_kl > 0.1 and mean(eval/return, 5) < 200`.

Numbers, metric names, + - * /, comparisons, and, or, not, and a fixed list of functions. Python parses it, and only the
operations listed here are computed: a condition can compute a number, and nothing else. A name runs over slashes, so a
division is written with spaces; any other name is put in quotes.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence

from rl_lightning.errors import ConfigError

MAX_LENGTH = 1000
MAX_DEPTH = 40
WINDOW = 1000  # how much of a metric's past any function can ask for

History = Mapping[str, Sequence[float]]  # metric -> its values, newest last

# Numbers are passed over, so that the e of 1e3 is not a name.
_WORD = re.compile(
    r"(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
    r"|(?P<name>[A-Za-z_][\w.]*(?:/[\w.]+)*)"
    r"|'(?P<single>[^'\n]*)'|\"(?P<double>[^\"\n]*)\"",
    re.ASCII,
)
_OTHER = re.compile(r"[^\w\s.,+*/<>=!()-]", re.ASCII)
_ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_COMPARE: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


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
        self._known: dict[str, str] = {}  # the name that stands in the tree -> the user's
        self.root = self._parsed()
        self.names = sorted(set(self._checked(self.root)))

    def value(self, history: History) -> float | None:
        """What the condition computes; None if a metric that decides it has no value yet."""
        return self._value(self.root, history)

    def holds(self, history: History) -> bool:
        """Whether it is true; what is not known does not hold, and neither does what is not a number."""
        result = self.value(history)
        return result is not None and not math.isnan(result) and result != 0

    def violation(self, history: History) -> float:
        """How far it is from holding: 0 or less where it does, and 1 where that is not known."""
        violation = self._violation(self.root, history)
        return 1.0 if violation is None or math.isnan(violation) else violation

    def __repr__(self) -> str:
        return f"Expression({self.source!r})"

    def _wrong(self, what: str) -> ConfigError:
        return ConfigError(f"condition {self.source!r:.80}: {what}")

    def _parsed(self) -> ast.expr:
        """Python's tree of the text, in which every name is one that Python has no meaning for."""
        text = " ".join(_WORD.sub(self._python_word, self.source).split())
        if other := _OTHER.search(text):
            raise self._wrong(f"{other.group()!r} is not understood")
        depth = most = 0
        for character in text:
            depth += (character == "(") - (character == ")")
            most = max(most, depth)
        if most > MAX_DEPTH:
            raise self._wrong(f"nested deeper than {MAX_DEPTH} levels")
        try:
            with warnings.catch_warnings(action="ignore"):  # Python's, of a number that is called
                return ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise self._wrong(
                "it is not written like 'mean(eval/return, 5) < 200 and train/loss > 1'"
            ) from None

    def _python_word(self, match: re.Match[str]) -> str:
        name = match["name"] or match["single"] or match["double"] or ""
        if match["number"] or match["name"] in ("and", "or", "not"):
            return match.group()
        word = f"_{len(self._known)}"
        self._known[word] = name
        return f" {word} "

    def _checked(self, node: ast.expr, depth: int = 0) -> Iterator[str]:
        """The metrics that are asked for; raises at whatever is no part of the language."""
        if depth > MAX_DEPTH:
            raise self._wrong(f"nested deeper than {MAX_DEPTH} levels")
        match node:
            case ast.Constant(value=int() | float()):
                parts: list[ast.expr] = []
            case ast.Name(id=word) if word in self._known:
                parts = []
                yield self._known[word]
            case ast.BoolOp(values=parts):
                pass
            case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=part):
                parts = [part]
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _ARITHMETIC:
                parts = [left, right]
            case ast.Compare(left=left, ops=[compared], comparators=[right]) if type(compared) in _COMPARE:
                parts = [left, right]
            case ast.Call(func=ast.Name(), keywords=[]):
                parts = self._arguments(node)
            case _:
                raise self._wrong("a number, a metric or a function should stand where something else is")
        for part in parts:
            yield from self._checked(part, depth + 1)

    def _arguments(self, node: ast.Call) -> list[ast.expr]:
        """What a function is given that may hold metrics, if it is one of ours and given what it takes."""
        name, parts = self._function(node), node.args
        if name in _PAST:
            if len(parts) not in (1, 2) or not isinstance(parts[0], ast.Name):
                raise self._wrong(
                    f"{name} takes a metric and how many of its last values, as {name}(a/b, 10)"
                )
            if not 1 <= _last(parts) <= WINDOW:
                raise self._wrong(f"{name} looks back over 1 to {WINDOW} values")
            return parts[:1]
        if name not in _PLAIN:
            raise self._wrong(f"there is no function '{name}'; there are {', '.join([*_PLAIN, *_PAST])}")
        if len(parts) != _PLAIN[name][0]:
            raise self._wrong(f"{name} takes {_PLAIN[name][0]} numbers")
        return parts

    def _function(self, node: ast.Call) -> str:
        assert isinstance(node.func, ast.Name), node
        return self._known.get(node.func.id, node.func.id)

    def _past(self, node: ast.expr, history: History) -> Sequence[float]:
        assert isinstance(node, ast.Name), node
        return history.get(self._known[node.id]) or ()

    def _value(self, node: ast.expr, history: History) -> float | None:
        match node:
            case ast.Constant(value=int() | float() as number):
                return _guarded(float, number)
            case ast.Name():
                past = self._past(node, history)
                return float(past[-1]) if past else None
            case ast.BoolOp():
                return self._logic(node, history)
            case ast.Call() if self._function(node) in _PAST:
                past = list(self._past(node.args[0], history))[-int(_last(node.args)) :]
                return float(_PAST[self._function(node)](past)) if past else None
        parts, compute = self._operation(node)
        values = [self._value(part, history) for part in parts]
        known = [value for value in values if value is not None]
        return _guarded(compute, *known) if len(known) == len(values) else None

    def _operation(self, node: ast.expr) -> tuple[list[ast.expr], Callable[..., float]]:
        match node:
            case ast.UnaryOp(op=ast.USub(), operand=part):
                return [part], operator.neg
            case ast.UnaryOp(operand=part):
                return [part], lambda a: not a or math.isnan(a)
            case ast.BinOp(left=left, op=sign, right=right):
                return [left, right], _ARITHMETIC[type(sign)]
            case ast.Compare(left=left, ops=[compared], comparators=[right]):
                return [left, right], _COMPARE[type(compared)]
            case ast.Call(args=parts):
                return parts, _PLAIN[self._function(node)][1]
        raise AssertionError(ast.dump(node))

    def _logic(self, node: ast.BoolOp, history: History) -> float | None:
        """Decided as soon as one side decides it, even where the others are not known."""
        values = [self._value(part, history) for part in node.values]
        known = [bool(value) and not math.isnan(value) for value in values if value is not None]
        decides = isinstance(node.op, ast.Or)
        if decides in known:
            return float(decides)
        return float(not decides) if len(known) == len(values) else None

    def _violation(self, node: ast.expr, history: History) -> float | None:
        if isinstance(node, ast.BoolOp):
            parts = [self._violation(part, history) for part in node.values]
            amounts = [1.0 if part is None or math.isnan(part) else part for part in parts]
            return max(amounts) if isinstance(node.op, ast.And) else min(amounts)
        if not isinstance(node, ast.Compare):
            value = self._value(node, history)
            return None if value is None else 0.0 if value and not math.isnan(value) else 1.0
        a, b = (self._value(part, history) for part in (node.left, node.comparators[0]))
        if a is None or b is None:
            return None
        if _COMPARE[type(node.ops[0])](a, b):
            return min(0.0, -abs(a - b)) if math.isfinite(a - b) else 0.0
        return abs(a - b) or 1.0  # `a < a` misses by nothing, and misses


def _last(parts: list[ast.expr]) -> float:
    """How many of a metric's last values a function looks at; 0 if that is not a number."""
    match parts[1:]:
        case []:
            return WINDOW
        case [ast.Constant(value=int() | float() as number)]:
            return number
    return 0


def _guarded(compute: Callable[..., float], *values: float) -> float:
    """Arithmetic that never raises."""
    try:
        return float(compute(*values))
    except (ZeroDivisionError, ValueError):
        return math.nan
    except OverflowError:
        return math.inf
