"""Values of an env as plain values, and back: what a checkpoint may hold without pickling anything.

A node is a plain scalar, a list, a tuple, or a dict of one key that names its kind. Objects that were one
object when saved are one object again: each mutable value has a number, and its second mention is a `ref`.
"""

from __future__ import annotations

import enum
import random
import sys
from collections import OrderedDict, deque
from typing import Any, Literal

import numpy as np
import torch

PLAIN = (int, float, complex, str, bytes, bool, type(None))
BIT_GENERATORS = {
    name: getattr(np.random, name) for name in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
}
Node = Any


class UnsaveableError(Exception):
    """A value that cannot be written as plain values; the text says which."""


class MismatchError(Exception):
    """A node that does not belong where it is put; the text says why."""


def array_node(array: np.ndarray) -> list[Any]:
    if array.dtype.kind not in "biufcSU":
        raise UnsaveableError(f"an array of {array.dtype}")
    order: Literal["F", "C"] = "F" if array.flags.fnc else "C"  # sums of floats depend on it
    return [array.dtype.str, array.shape, order, bool(array.flags.writeable), array.tobytes(order)]


def node_array(node: list[Any]) -> np.ndarray:
    name, shape, order, writeable, data = node
    dtype = np.dtype(str(name))
    if dtype.kind not in "biufcSU" or order not in ("C", "F"):
        raise MismatchError(f"an array of {dtype} in order {order}")
    array = np.ndarray(tuple(shape), dtype, bytearray(data), order=order)
    if array.nbytes != len(data):
        raise MismatchError(f"{len(data)} bytes for an array of {array.nbytes}")
    array = array.copy(order="K")
    array.flags.writeable = writeable
    return array


def plain_state(state: Any) -> Any:
    """A generator's state with Python numbers for NumPy's."""
    if isinstance(state, dict):
        return {key: plain_state(value) for key, value in state.items()}
    if isinstance(state, np.ndarray):
        return array_node(state)
    return int(state) if isinstance(state, np.integer) else state


def numpy_state(state: Any) -> Any:
    if isinstance(state, dict):
        return {key: numpy_state(value) for key, value in state.items()}
    return node_array(state) if isinstance(state, list) else state


def generator_node(bits: Any) -> list[Any]:
    name = type(bits).__name__
    if BIT_GENERATORS.get(name) is not type(bits):
        raise UnsaveableError(f"a generator of {name}")
    seeds, tree = bits.seed_seq, None
    if type(seeds) is np.random.SeedSequence:  # children spawned later depend on it
        entropy: Any = seeds.entropy
        several = isinstance(entropy, list | tuple)
        entropy = tuple(int(part) for part in entropy) if several else plain_state(entropy)
        tree = [entropy, tuple(seeds.spawn_key), seeds.pool_size, seeds.n_children_spawned]
    return [name, plain_state(bits.state), tree]


def node_generator(node: list[Any]) -> np.random.Generator:
    name, state, tree = node
    seeds = np.random.SeedSequence(0)
    if tree is not None:
        entropy, key, pool, spawned = tree
        entropy = node_array(entropy) if isinstance(entropy, list) else entropy
        seeds = np.random.SeedSequence(entropy, spawn_key=key, pool_size=pool, n_children_spawned=spawned)
    bits = BIT_GENERATORS[name](seeds)
    bits.state = numpy_state(state)
    return np.random.Generator(bits)


def find_class(module: str, name: str, base: type) -> type:
    """A class of a module that is imported already: nothing is imported because a file says so."""
    member: Any = sys.modules.get(module)
    for part in name.split("."):
        member = getattr(member, "__dict__", {}).get(part)  # getattr of any name could run something
    if not isinstance(member, type) or not issubclass(member, base) or member.__module__ != module:
        raise MismatchError(f"no class {module}.{name}")
    return member


class Encoder:
    """Writes values as nodes.

    Args:
        known: objects that exist on both sides already, numbered first.
        secrets: texts that are written by their name, and known by it on the other side.
    """

    def __init__(self, known: list[Any], secrets: dict[str, str] | None = None) -> None:
        self.secrets = secrets or {}
        self.numbers = {id(item): n for n, item in enumerate(known)}
        self.alive = list(known)  # an id is a name only as long as its object lives
        self.memory: dict[int, tuple[Any, Any]] = {}

    def number(self, item: Any) -> None:
        self.numbers[id(item)] = len(self.alive)
        self.alive.append(item)

    def encode(self, value: Any) -> Node:
        kind = type(value)
        if kind in PLAIN:
            return self.text(value) if kind is str and self.secrets else value
        if id(value) in self.numbers:
            return {"ref": self.numbers[id(value)]}
        if kind is tuple:
            return tuple(self.encode(item) for item in value)
        if kind in ENCODERS:
            self.number(value)
            return ENCODERS[kind](self, value)
        if isinstance(value, np.generic):
            return {"scalar": array_node(np.asarray(value))}
        if isinstance(value, enum.Enum):
            return {"enum": [kind.__module__, kind.__qualname__, value.name]}
        if kind in CONSTANT:
            return CONSTANT[kind](self, value)
        return self.special(value)

    def text(self, value: str) -> Node:
        for name, secret in self.secrets.items():
            if secret in value:
                return {"secret": [name, value.split(secret)]}
        return value

    def special(self, value: Any) -> Node:
        """For values of no plain kind."""
        raise UnsaveableError(f"a {type(value).__module__}.{type(value).__qualname__}")

    def own_memory(self, item: Any, root: Any) -> None:
        """Refuse what shares its memory with another value: restored, they would drift apart."""
        if self.memory.setdefault(id(root), (item, root))[0] is not item:
            raise UnsaveableError(f"a {type(item).__name__} that shares its memory with another")

    def array(self, value: np.ndarray) -> Node:
        root: Any = value
        while isinstance(root.base, np.ndarray):
            root = root.base
        if root.base is not None and value.flags.writeable and not isinstance(root.base, bytes | bytearray):
            raise UnsaveableError("an array that looks into foreign memory")
        self.own_memory(value, root)
        return {"array": array_node(value)}

    def generator(self, value: np.random.Generator) -> Node:
        self.own_memory(value, value.bit_generator)
        return {"generator": generator_node(value.bit_generator)}

    def tensor(self, value: torch.Tensor) -> Node:
        if value.requires_grad or value.device.type != "cpu" or value.dtype == torch.bfloat16:
            raise UnsaveableError(f"a tensor of {value.dtype} on {value.device}")
        return {"tensor": array_node(value.numpy())}

    def items(self, value: Any) -> list[Node]:
        return [self.encode(item) for item in value]


ENCODERS: dict[type, Any] = {
    list: Encoder.items,
    dict: lambda e, v: {"dict": [[e.encode(key), e.encode(item)] for key, item in v.items()]},
    OrderedDict: lambda e, v: {"ordered": [[e.encode(key), e.encode(item)] for key, item in v.items()]},
    set: lambda e, v: {"set": e.items(v)},
    deque: lambda e, v: {"deque": [v.maxlen, e.items(v)]},
    np.ndarray: Encoder.array,
    np.random.Generator: Encoder.generator,
    np.random.RandomState: lambda e, v: {"random_state": plain_state(v.get_state(legacy=False))},
    random.Random: lambda e, v: {"random": v.getstate()},
    torch.Tensor: Encoder.tensor,
    torch.Generator: lambda e, v: {"torch": array_node(v.get_state().numpy())},
}
CONSTANT: dict[type, Any] = {
    slice: lambda e, v: {"slice": [e.encode(part) for part in (v.start, v.stop, v.step)]},
    range: lambda e, v: {"range": [v.start, v.stop, v.step]},
    frozenset: lambda e, v: {"frozenset": e.items(v)},
}


class Decoder:
    """Makes values of nodes. `current` is what stands where the value will go, for what is changed in place.

    Args:
        known: as the Encoder's.
        secrets: as the Encoder's.
    """

    def __init__(self, known: list[Any], secrets: dict[str, str] | None = None) -> None:
        self.secrets = secrets or {}
        self.objects = list(known)

    def add(self, item: Any) -> Any:
        self.objects.append(item)
        return item

    def decode(self, node: Node, current: Any = None) -> Any:
        if type(node) in PLAIN:
            return node
        if type(node) is tuple:
            return tuple(self.decode(item) for item in node)
        if type(node) is list:
            return self.fill(self.add([]), node)
        if type(node) is not dict or len(node) != 1:
            raise MismatchError(f"a {type(node).__name__} where a value was expected")
        ((kind, body),) = node.items()
        if kind in DECODERS:
            return DECODERS[kind](self, body)
        return self.special(kind, body, current)

    def special(self, kind: Any, body: Any, current: Any) -> Any:
        raise MismatchError(f"a value of the unknown kind {kind!r}")

    def fill(self, target: Any, nodes: list[Node]) -> Any:
        for node in nodes:
            target.append(self.decode(node))
        return target

    def pairs(self, target: Any, nodes: list[list[Node]]) -> Any:
        for key, node in nodes:
            name = self.decode(key)
            target[name] = self.decode(node)
        return target

    def grow(self, target: set[Any], nodes: list[Node]) -> set[Any]:
        target.update(self.decode(node) for node in nodes)
        return target

    def random_state(self, body: dict[str, Any]) -> np.random.RandomState:
        generator = np.random.RandomState(0)
        generator.set_state(numpy_state(body))
        return self.add(generator)

    def random(self, body: tuple[Any, ...]) -> random.Random:
        generator = random.Random(0)
        generator.setstate(body)
        return self.add(generator)

    def torch(self, body: list[Any]) -> torch.Generator:
        generator = torch.Generator()
        generator.set_state(torch.from_numpy(node_array(body)))
        return self.add(generator)

    def enum(self, body: list[str]) -> Any:
        module, name, member = body
        return find_class(module, name, enum.Enum).__members__[member]  # type: ignore[attr-defined]


DECODERS: dict[str, Any] = {
    "ref": lambda d, b: d.objects[b],
    "secret": lambda d, b: d.secrets[b[0]].join(b[1]),
    "dict": lambda d, b: d.pairs(d.add({}), b),
    "ordered": lambda d, b: d.pairs(d.add(OrderedDict()), b),
    "set": lambda d, b: d.grow(d.add(set()), b),
    "deque": lambda d, b: d.fill(d.add(deque(maxlen=b[0])), b[1]),
    "array": lambda d, b: d.add(node_array(b)),
    "generator": lambda d, b: d.add(node_generator(b)),
    "random_state": Decoder.random_state,
    "random": Decoder.random,
    "tensor": lambda d, b: d.add(torch.from_numpy(node_array(b))),
    "torch": Decoder.torch,
    "scalar": lambda d, b: node_array(b)[()],
    "enum": Decoder.enum,
    "slice": lambda d, b: slice(*(d.decode(part) for part in b)),
    "range": lambda d, b: range(*b),
    "frozenset": lambda d, b: frozenset(d.decode(item) for item in b),
}
