"""What differs between two configs."""

from __future__ import annotations

from typing import Any


def differences(old: dict[str, Any], new: dict[str, Any], key: str = "") -> list[str]:
    """Settings that differ, as `model.lr: 0.001 -> 0.0003`."""
    lines: list[str] = []
    for name in sorted({*old, *new}, key=str):
        if key == "" and name in ("ckpt_path", "resume_mode"):
            continue
        a, b = old.get(name), new.get(name)
        inner = f"{key}.{name}".lstrip(".").replace(".init_args", "")
        if isinstance(a, dict) and isinstance(b, dict):
            lines += differences(a, b, inner)
        elif a != b:
            lines.append(f"{inner}: {a} -> {b}")
    return lines
