"""The order of the house: every import goes downward, Lightning stays above L3, names are unique.

The layers are those of docs and architecture: a module may import its own layer's package and any lower layer.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent / "rl_lightning"
LAYERS = [
    {
        "types",
        "errors",
        "extras",
        "factories",
        "observations",
        "seeding",
        "stop_request",
        "distributed",
        "ranges",
        "redaction",
        "version",
        "io",
        "artifacts",
    },
    {"functional", "kernels"},
    {"nn", "optim", "models", "replay", "envs", "datasets"},
    {"rollout", "planning", "evolution", "behaviors", "clock"},
    {"trainer"},
    {"datamodules", "algorithms"},
    {"callbacks", "loggers", "checkpoints"},
    {"runs"},
    {"analysis", "sweep"},
    {"api"},
    {"cli"},
]
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}
STRANGERS = [{"datamodules", "algorithms"}]  # of one layer, and still must not know each other
SHARED_BY_ALGORITHMS = {
    "acting", "ema_module", "hooks", "hyperparameters", "model_module", "policy_module", "rl_module",
    "deep_q_learning", "soft_actor_critic", "step",
}  # fmt: skip

MOST_MODULES = 15


class Edge(NamedTuple):
    source: str  # dotted module
    target: str
    line: int

    def __str__(self) -> str:
        return f"{self.source} (line {self.line}) imports {self.target}"


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.AST, source: str, is_package: bool) -> Iterator[tuple[str, int]]:
    """Every dotted name that a module imports, also inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = source.split(".")[: len(source.split(".")) - node.level + is_package]
                base = ".".join([*up, base] if base else up)
            yield from ((f"{base}.{alias.name}", node.lineno) for alias in node.names)


def without_types(tree: ast.AST) -> ast.AST:
    """The module without its `if TYPE_CHECKING:` blocks, which are never run."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [item for item in body if not is_type_checking(item)]  # type: ignore[attr-defined]
    return tree


def is_type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def edges(types: bool = True) -> list[Edge]:
    """Every import; without `types` those alone that are run."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        source = module_name(path)
        tree: ast.AST = ast.parse(path.read_text())
        tree = tree if types else without_types(tree)
        found += [
            Edge(source, name, line) for name, line in imported(tree, source, path.name == "__init__.py")
        ]
    return found


EDGES = edges()
OURS = [edge for edge in EDGES if edge.target.startswith("rl_lightning.") and edge.source != "rl_lightning"]


def part(dotted: str) -> str:
    return dotted.split(".")[1]


def wrong(rule) -> list[str]:
    return [str(edge) for edge in OURS if rule(edge)]


def test_every_part_has_a_layer():
    parts = {p.stem for p in ROOT.iterdir() if p.suffix == ".py" or (p.is_dir() and list(p.glob("*.py")))}
    assert parts - {"__init__", "__main__"} <= LEVEL.keys(), "say in LAYERS where the new part belongs"
    assert {part(edge.target) for edge in OURS} <= LEVEL.keys()


def test_imports_go_downward():
    assert not wrong(lambda e: LEVEL[part(e.target)] > LEVEL[part(e.source)])


def test_the_lowest_files_are_alone_with_each_other():
    """Each of types, errors, seeding, ... can be read without any package of ours."""
    assert not wrong(lambda e: LEVEL[part(e.source)] == 0 and LEVEL[part(e.target)] > 0)


@pytest.mark.parametrize("pair", STRANGERS, ids=lambda pair: "-".join(sorted(pair)))
def test_data_and_algorithms_never_import_each_other(pair):
    assert not wrong(lambda e: {part(e.source), part(e.target)} == pair)


def test_a_folder_has_at_most_fifteen_modules():
    counts = {
        module_name(folder / "__init__.py"): len([p for p in folder.glob("*.py") if p.stem != "__init__"])
        for folder in [ROOT, *(path for path in ROOT.rglob("*") if path.is_dir())]
    }
    assert not {name: count for name, count in counts.items() if count > MOST_MODULES}


def test_nothing_below_imports_the_command_line():
    assert not wrong(lambda e: part(e.target) == "cli" and part(e.source) != "cli")


def test_no_algorithm_imports_another():
    def sibling(edge: Edge) -> bool:
        source, target = edge.source.split("."), edge.target.split(".")
        within = source[1] == target[1] == "algorithms" and len(source) > 2 and len(target) > 2
        return within and source[:4] != target[:4] and target[2] not in SHARED_BY_ALGORITHMS

    assert not wrong(sibling)


def test_lightning_is_above_the_fourth_layer_only():
    low = [
        e for e in EDGES if e.target.split(".")[0] in ("lightning", "pytorch_lightning", "lightning_fabric")
    ]
    found = [str(e) for e in low if e.source == "rl_lightning" or LEVEL[part(e.source)] < LEVEL["trainer"]]
    assert low and not found


def test_only_lightning_pytorch_is_imported():
    """The bare `lightning` pulls in everything, `pytorch_lightning` is another package."""
    names = {e.target for e in EDGES if e.target.split(".")[0] in ("lightning", "pytorch_lightning")}
    assert all(name.startswith("lightning.") for name in names), names


def test_class_names_are_unique():
    """A YAML names a class by its last word alone."""
    places = defaultdict(list)
    for path in ROOT.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module_name(path))
    assert not {name: found for name, found in places.items() if len(found) > 1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torch", ["torch"]),
        ("from rl_lightning.types import A, B", ["rl_lightning.types.A", "rl_lightning.types.B"]),
        ("from . import x", ["rl_lightning.datamodules.x"]),
        ("from ..envs.make import y", ["rl_lightning.envs.make.y"]),
        ("def f():\n    import rl_lightning.cli.main", ["rl_lightning.cli.main"]),
    ],
)
def test_the_walk_sees_every_form_of_import(text, expected):
    assert [
        name for name, _ in imported(ast.parse(text), "rl_lightning.datamodules.online_data", False)
    ] == expected


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import one another, directly or through others (Tarjan)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        stack.append(node)
        for target in graph.get(node, set()):
            if target not in order:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], order[target])
        if low[node] == order[node]:
            group = [stack.pop()]
            while group[-1] != node:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for node in list(graph):
        if node not in order:
            visit(node)
    return found


def test_cycles_are_found():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]


def test_no_module_imports_itself_through_others():
    """Imports inside functions count: they hide a cycle, they do not undo it."""
    modules = {module_name(path) for path in ROOT.rglob("*.py") if path.name != "__init__.py"}
    graph: dict[str, set[str]] = defaultdict(set)
    for edge in edges(types=False):
        target = edge.target if edge.target in modules else edge.target.rpartition(".")[0]
        if target in modules:
            graph[edge.source].add(target)
    assert not cycles(graph)
