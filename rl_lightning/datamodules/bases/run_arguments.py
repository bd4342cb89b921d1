"""Budgets, cadences and a seed as arguments of every DataModule, for use without a config."""

from __future__ import annotations

import contextlib
import inspect
from abc import ABCMeta
from typing import Any

from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.errors import ConfigError, name_arguments
from rl_lightning.ranges import check_ranges

# Each with its type; the defaults are RunConfig's, and a DataModule's own of eval_every.
RUN_ARGUMENTS = {
    "env_steps": "int | None",
    "updates": "int | None",
    "eval_every": "int | None",
    "eval_episodes": "int",
    "seed": "int",
}


def _check_ranges(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """By their types, before anything is made; arguments that do not fit are the constructor's to refuse."""
    with contextlib.suppress(TypeError):
        check_ranges(cls, inspect.signature(cls.__init__).bind_partial(None, *args, **kwargs).arguments)  # type: ignore[misc]


class RunArguments(ABCMeta):
    """Lets every DataModule take what a config has in `run:` as arguments: seed, env_steps, updates, eval_every,
    eval_episodes."""

    default_eval_every: int

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        own = inspect.signature(cls.__init__).parameters  # type: ignore[misc]
        run_arguments = {
            name: kwargs.pop(name) for name in RUN_ARGUMENTS if name in kwargs and name not in own
        }
        seed = run_arguments.pop("seed", 0)
        try:
            _check_ranges(cls, args, kwargs)
            data = super().__call__(*args, **kwargs)
            data.configure(RunConfig(**{"eval_every": cls.default_eval_every, **run_arguments}), seed)
        except ConfigError as error:
            name_arguments(error, cls.__signature__.parameters, "data", "run")
            raise
        return data

    @property
    def __signature__(cls) -> inspect.Signature:
        """The constructor's, with those arguments behind its own, by keyword only."""
        own = list(inspect.signature(cls.__init__).parameters.values())[1:]  # type: ignore[misc]
        taken = {each.name for each in own}
        defaults = {**vars(RunConfig()), "eval_every": cls.default_eval_every, "seed": 0}
        more = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name], annotation=kind)
            for name, kind in RUN_ARGUMENTS.items()
            if name not in taken
        ]
        # a constructor's **kwargs stay the last
        return inspect.Signature(sorted([*own, *more], key=lambda each: each.kind))
