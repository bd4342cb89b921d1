"""Rows of the contracts as classes that a config can name, so that whole commands run over them."""

import sys
from functools import partial
from typing import Any

from contracts.cases import CASES, Case
from contracts.diffusion_cases import DIFFUSION
from contracts.frame_cases import COLLECTORS, DREAMERS, WORLDS
from contracts.offline_cases import FOLDER, MODELS, OFFLINE, dynamics_product, offline
from contracts.planning_cases import PLANNING
from contracts.planning_cases import SMALL as SHORT_PLANS
from contracts.world_model_cases import RECORD, STAGES

from rl_lightning.algorithms import EnsembleMPC
from rl_lightning.envs.termination import NeverEnds
from rl_lightning.planning.planners import MPPI
from rl_lightning.types import EnvSpec

MPC = Case(
    "ensemble-mpc",
    offline,
    partial(
        EnsembleMPC,
        dynamics=dynamics_product(FOLDER / "mpc"),
        planner=MPPI(**{**SHORT_PLANS, "policy_samples": 0}),
        termination=NeverEnds(),
    ),
    (),
    0,
    None,
)
DREAMED = next(case for case in STAGES if case.name == "evolve-dream")
REAL = [Case(**{**vars(case), "data": DREAMED.data}) for case in STAGES if case.name == "evolve-real"]
EVERY = [
    *CASES, *OFFLINE, *MODELS, *DIFFUSION, *WORLDS, *DREAMERS, *COLLECTORS, *PLANNING, MPC, RECORD,
    *(case for case in STAGES if case.name != "evolve-real"), *REAL,
]  # fmt: skip


def parts(made: Any) -> tuple[type[Any], dict[str, Any]]:
    """The class at the bottom of nested partials, and all that they were given."""
    given: dict[str, Any] = {}
    while isinstance(made, partial):
        assert not made.args, made
        given, made = {**made.keywords, **given}, made.func
    assert isinstance(made, type), made
    return made, given


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
        made = make(*parts(getattr(case, kind)))
        made.__qualname__ = made.__name__ = f"{made.__name__}_{word}_{kind}"
        setattr(here, made.__name__, made)
    names = {kind: f"{__name__}.{type_name(case, kind)}" for kind in ("model", "data")}
    return {kind: {"class_path": path} for kind, path in names.items()}


def type_name(case: Case, kind: str) -> str:
    return f"{parts(getattr(case, kind))[0].__name__}_{case.name.replace('-', '_')}_{kind}"
