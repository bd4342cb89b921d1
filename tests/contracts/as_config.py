"""Rows of the contracts as classes that a config can name, so that whole commands run over them."""

import sys
from typing import Any

from contracts.case import Case, made_of

from rl_lightning.types import EnvSpec


def _model(base: type[Any], given: dict[str, Any]) -> type[Any]:
    def __init__(self: Any, spec: EnvSpec) -> None:
        base.__init__(self, spec, **given)

    return type(base.__name__, (base,), {"__init__": __init__, "__module__": __name__})


def _data(base: type[Any], given: dict[str, Any]) -> type[Any]:
    def __init__(self: Any) -> None:
        base.__init__(self, **given)

    return type(base.__name__, (base,), {"__init__": __init__, "__module__": __name__})


def config_of(case: Case) -> dict[str, Any]:
    """What `rl fit` takes to make the row: classes of this module that hold the row's arguments."""
    here, word = sys.modules[__name__], case.name.replace("-", "_")
    for kind, make in (("model", _model), ("data", _data)):
        made = make(*made_of(getattr(case, kind)))
        made.__qualname__ = made.__name__ = f"{made.__name__}_{word}_{kind}"
        setattr(here, made.__name__, made)
    names = {kind: f"{__name__}.{type_name(case, kind)}" for kind in ("model", "data")}
    return {kind: {"class_path": path} for kind, path in names.items()}


def type_name(case: Case, kind: str) -> str:
    return f"{made_of(getattr(case, kind))[0].__name__}_{case.name.replace('-', '_')}_{kind}"
