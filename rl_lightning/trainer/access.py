"""The data of a Trainer and its clock, typed: Lightning itself declares neither."""

from __future__ import annotations

from typing import Any, Protocol, cast

from lightning.pytorch import Trainer

from rl_lightning.clock.run_clock import RunClock
from rl_lightning.errors import ConfigError
from rl_lightning.types import EnvSpec


class FitData(Protocol):
    """What callbacks ask of a DataModule of ours."""

    clock: RunClock
    seed: int
    spec: EnvSpec
    longest: int
    exact: bool  # everything that a resumed fit needs was restored, or it began anew

    def collect_metrics(self) -> dict[str, float]: ...
    def diagnostics(self, module: Any) -> dict[str, Any]: ...
    def eval_envs(self, episodes: int) -> Any: ...
    def render_env(self) -> Any: ...
    def save(self, store: Any) -> dict[str, Any]: ...
    def load(self, state: dict[str, Any], store: Any) -> None: ...


def data_of(trainer: Trainer) -> FitData:
    data = getattr(trainer, "datamodule", None)
    if data is None or not hasattr(data, "clock"):
        raise ConfigError(
            "modules of rl_lightning learn from its DataModules: trainer.fit(model, datamodule=OnPolicyData(...))"
        )
    return cast(FitData, data)


def clock_of(trainer: Trainer) -> RunClock:
    return data_of(trainer).clock
