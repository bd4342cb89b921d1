"""Env ids of every installed suite, read from their sources without importing them."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

from rl_lightning.extras import needs_mujoco_py
from rl_lightning.runs.config.catalog import PACKAGE

_EXTRAS = {"box2d": "box2d", "mujoco": "mujoco"}
_TWO_PLAYERS = ("combat", "joust", "maze_craze", "warlords")  # ALE registers no env for these


def environments() -> list[tuple[str, str, str]]:
    """(id, suite, extra it needs), suite by suite."""
    envs = [(name, "ours", "-") for name in sorted(_toys())]
    envs += [(name, suite, _EXTRAS.get(suite, "-")) for name, suite in _gymnasium()]
    envs += [(name, "atari", "atari") for name in _atari()]
    envs += [(name, "minigrid", "minigrid") for name in _registered("minigrid")]
    envs += [(name, "crafter", "crafter") for name in _ids_in("crafter.py")]
    envs += [(f"MinAtar/{name}-v1", "minatar", "MinAtar") for name in _ids_in("minatar.py")]
    envs += [(name, "robotics", "robotics") for name in _registered("gymnasium_robotics")]
    envs += [(name, "dm_control", "dmc") for name in _dm_control()]
    envs += [(name, "ogbench", "ogbench") for name in _ogbench()]
    return envs


def folder(package: str) -> Path | None:
    """Where a top-level package lies, if it is installed."""
    spec = importlib.util.find_spec(package)
    return (
        Path(next(iter(spec.submodule_search_locations)))
        if spec and spec.submodule_search_locations
        else None
    )


def _toys() -> set[str]:
    """Every `rl/...` literal below envs/toys and envs/model_env."""
    ids: set[str] = set()
    folders = [PACKAGE / "envs" / name for name in ("model_env", "toys")]
    for file in sorted(path for folder in folders for path in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                ids.update(re.findall(r"^rl/[\w-]+-v\d+$", node.value))
    return ids


def _ids_in(module: str) -> list[str]:
    """The keys of the table that a suite of ours begins with."""
    tree = ast.parse((PACKAGE / "envs" / "suites" / module).read_text(encoding="utf-8"))
    table = next(
        node.value for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)
    )
    return [str(ast.literal_eval(key)) for key in table.keys if key is not None]


def _gymnasium() -> Iterator[tuple[str, str]]:
    """The newest version of each of Gymnasium's own ids, and the folder its class lies in."""
    root = folder("gymnasium")
    if root is None:
        return
    newest: dict[str, tuple[int, str]] = {}
    for call in _calls(root / "envs" / "__init__.py"):
        words = {keyword.arg: keyword.value for keyword in call.keywords}
        name, entry = _text(words.get("id")), _text(words.get("entry_point"))
        if not name or "envs." not in entry or entry.startswith("gymnasium.envs.tabular"):
            continue
        stem, _, number = name.rpartition("-v")
        if int(number) >= newest.get(stem, (-1, ""))[0]:
            newest[stem] = (int(number), entry.split("envs.")[1].split(".")[0].split(":")[0])
    for stem, (latest, suite) in newest.items():
        if suite not in ("phys2d", "tabular"):
            yield f"{stem}-v{latest}", suite


def _atari() -> list[str]:
    root = folder("ale_py")
    roms = [rom.stem for rom in sorted((root / "roms").glob("*.bin"))] if root else []
    words = {rom: "".join(word.capitalize() for word in rom.split("_")).replace("3d", "3D") for rom in roms}
    return [f"ALE/{words[rom]}-v5" for rom in roms if rom not in _TWO_PLAYERS]


def _registered(package: str) -> list[str]:
    """Ids in a package's `register(id=...)` calls; of an f-string only the variable `version` counts."""
    root = folder(package)
    if root is None:
        return []
    file = root / "__init__.py"
    versions = sorted(_versions(file))
    ids: set[str] = set()
    for call in _calls(file):
        words = {keyword.arg: keyword.value for keyword in call.keywords}
        if needs_mujoco_py(_text(words.get("entry_point"))):
            continue  # it cannot be made any more
        version = next((value for line, value in reversed(versions) if line < call.lineno), "")
        ids.add(_text(words.get("id"), version))
    return sorted(name for name in ids if re.search(r"-v\d+$", name))


def _versions(file: Path) -> Iterator[tuple[int, str]]:
    """Where a variable `version` gets its value; of a loop the last one counts."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if (
            isinstance(node, ast.For)
            and isinstance(node.iter, ast.List)
            and ast.unparse(node.target) == "version"
        ):
            yield node.lineno, _text(node.iter.elts[-1])
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "version":
            yield node.lineno, _text(node.value)


def _dm_control() -> list[str]:
    root = folder("dm_control")
    ids = []
    for file in sorted((root / "suite").glob("*.py")) if root else ():
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and any(
                "SUITE.add" in ast.unparse(d) for d in node.decorator_list
            ):
                ids.append(f"dmc/{file.stem}-{node.name}")
    return ids


def _ogbench() -> list[str]:
    """Its envs, and of those of single tasks each task; `task_suffix` is the only variable in its ids."""
    root = folder("ogbench")
    tasks = ("", *(f"-task{number}" for number in range(1, 6)))
    ids: set[str] = set()
    for family in ("locomaze", "manipspace", "powderworld") if root else ():
        for call in _calls(root / family / "__init__.py"):  # type: ignore[operator]
            name = next((each.value for each in call.keywords if each.arg == "id"), None)
            parts = name.values if isinstance(name, ast.JoinedStr) else [name]
            for task in tasks:
                ids.add("".join(_text(part) if isinstance(part, ast.Constant) else task for part in parts))
    return sorted(ids)


def _calls(file: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "register":
            yield node


def _text(node: ast.expr | None, version: str = "") -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part, version) for part in node.values)
    return version if isinstance(node, ast.FormattedValue) and ast.unparse(node.value) == "version" else ""
