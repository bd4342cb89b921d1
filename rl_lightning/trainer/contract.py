"""What a Trainer may ask of our modules: what cannot hold is refused by name, with the word to use instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

from rl_lightning.errors import ConfigError

PRECISIONS = ("32-true", "32", "bf16-mixed", "bf16")
# Lightning's callbacks that cannot work with optimizers that a module moves itself, and what does the same here.
REFUSED = {
    "StochasticWeightAveraging": "it swaps weights inside automatic optimization; average checkpoints instead",
    "GradientAccumulationScheduler": (
        "gradients are gathered by rl_lightning.callbacks.NonFiniteGuard(accumulate_grad_batches=N)"
    ),
    "BatchSizeFinder": "batches come from a replay, not a loader; set batch_size of the DataModule",
    "LearningRateFinder": "it needs automatic optimization; try learning rates with rl sweep",
}


def check_trainer(trainer: Trainer) -> None:
    """Raises before anything is set up."""
    if trainer.gradient_clip_val:
        raise ConfigError(
            f"Trainer(gradient_clip_val={trainer.gradient_clip_val}): gradients are clipped by the algorithm; give it "
            f"max_grad_norm={trainer.gradient_clip_val}"
        )
    if trainer.accumulate_grad_batches != 1:
        count = trainer.accumulate_grad_batches
        raise ConfigError(
            f"Trainer(accumulate_grad_batches={count}): gradients are gathered by a callback; list "
            f"rl_lightning.callbacks.NonFiniteGuard(accumulate_grad_batches={count})"
        )
    if getattr(trainer, "overfit_batches", 0):
        raise ConfigError(
            "Trainer(overfit_batches=...): a block is collected once, it cannot be repeated; use "
            "limit_train_batches, or fast_dev_run"
        )
    if trainer.val_check_interval != 1.0:
        raise ConfigError(
            "Trainer(val_check_interval=...): an epoch is the stretch between two evaluations; use eval_every of the "
            "DataModule (a config's run.eval_every), or check_val_every_n_epoch"
        )
    if str(trainer.precision) not in PRECISIONS:
        raise ConfigError(f"Trainer(precision={trainer.precision!r}): it must be 32-true or bf16-mixed")
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        check_callback(callback)


def check_callback(callback: Any) -> None:
    for kind in type(callback).__mro__:
        if kind.__module__.startswith("lightning.") and kind.__name__ in REFUSED:
            raise ConfigError(f"{kind.__name__}: {REFUSED[kind.__name__]}")
    if isinstance(callback, ModelCheckpoint) and callback._train_time_interval is not None:
        raise ConfigError(
            "ModelCheckpoint(train_time_interval=...) does nothing where a module moves its optimizers itself; use "
            "every_n_train_steps, or rl_lightning.callbacks.RunCheckpoint(save_minutes=...)"
        )


def check_partners(model: Any, data: Any, example: Callable[[str], str] | None = None) -> None:
    """Raises unless the batches of the data are what the algorithm learns from.

    Args:
        model: The algorithm, or its class.
        data: The DataModule, or its class.
        example: A sentence with an example for an algorithm, by its name.
    """
    model, data = (item if isinstance(item, type) else type(item) for item in (model, data))
    wanted, there = getattr(model, "learns_from", ()), getattr(data, "yields", None)
    if not wanted or there is None:
        return
    if any(issubclass(there, kind) for kind in wanted):
        check_fields(model, data)
        return
    right = partners_of(model, data_base(data))
    names = " or ".join(kind.__name__ for kind in wanted)
    raise ConfigError(
        f"{model.__name__} learns from {names} ({', '.join(right)}); {data.__name__} yields {there.__name__}."
        + ("" if example is None else example(model.__name__))
    )


def check_fields(model: type, data: type) -> None:
    """Raises unless the data fill in what an algorithm needs beside the columns that all have."""
    for name in getattr(model, "needs_fields", ()):
        if name not in getattr(data, "fields_given", ()):
            right = partners_of(model, data_base(data))
            raise ConfigError(
                f"{model.__name__} needs {name} of every row, which {data.__name__} does not know. "
                f"Use: --data {' or '.join(right)}"
            )


def partners_of(model: type, base: type) -> list[str]:
    """The DataModules below `base` whose batches an algorithm learns from."""
    wanted, needs = getattr(model, "learns_from", ()), set(getattr(model, "needs_fields", ()))
    return sorted(
        {
            kind.__name__
            for kind in subclasses(base)
            if getattr(kind, "yields", None) in wanted and needs <= set(getattr(kind, "fields_given", ()))
        }
    )


def data_base(kind: type) -> type:
    """The base of all DataModules of ours."""
    return next(base for base in kind.__mro__ if base.__name__ == "RLData")


def subclasses(kind: type) -> set[type]:
    below = set(kind.__subclasses__())
    return below | {deeper for each in below for deeper in subclasses(each)}
