"""`--model Dreamer` and nothing else: the shipped config that such a model is published with, its data among them."""

from __future__ import annotations

from collections.abc import Iterable

# Models that no defaults alone make what their papers call so: sizes, windows and replay go together.
USUAL = {
    "Dreamer": "dreamer_v3/states",
    "PlaNet": "planet",
    "TDMPC": "tdmpc",
    "TDMPC2": "tdmpc2/states",
}


def usual_config(names: list[str], flags: Iterable[str]) -> list[str]:
    """The names; where there are none, the usual config of the model that a flag names."""
    models = [
        flag.partition("=")[2] for flag in flags if flag.startswith(("--model=", "--model.class_path="))
    ]
    usual = USUAL.get(models[-1].rpartition(".")[2]) if models and not names else None
    return names if usual is None else [usual]
