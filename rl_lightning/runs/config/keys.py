"""The top level of a config, and where a dotted key leads in it."""

from __future__ import annotations

from typing import Any

GROUPS = ("model", "data", "run", "trainer", "log")
TOP = (*GROUPS, "seed_everything", "threads", "matmul", "ckpt_path", "resume_mode")
_SPEC = ("class_path", "init_args", "dict_kwargs")


def full_key(config: dict[str, Any], key: str) -> list[str]:
    """The words of a dotted key with `init_args` where a class stands: model.lr -> model, init_args, lr."""
    words = key.split(".")
    path: list[str] = []
    inside: Any = config
    for word in words:
        if isinstance(inside, dict) and "class_path" in inside and word not in _SPEC:
            path.append("init_args")
            inside = inside.get("init_args")
        path.append(word)
        inside = inside.get(word) if isinstance(inside, dict) else None
    if len(path) > 1 and path[0] in ("model", "data") and path[1] not in _SPEC:
        # The class itself may come from elsewhere; its arguments never stand beside it.
        path.insert(1, "init_args")
    return path
