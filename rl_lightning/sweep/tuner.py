"""Optuna for a loop of your own: ask for a config, train it however you like, tell the score."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from rl_lightning.errors import ConfigError
from rl_lightning.runs.store.run_folder import digest
from rl_lightning.sweep.definition import read_definition
from rl_lightning.sweep.outcome import best_row
from rl_lightning.sweep.space import decode
from rl_lightning.sweep.study import TrialRow, optuna_module
from rl_lightning.sweep.sweep_keys import CONFIG, Config, nested, overlaid


class AutoTuner:
    """Suggests configs and learns from their scores.

    Args:
        base_config: A plain config; the keys of the space are set in it.
        space: As in a sweep's YAML: `{"model.lr": {"type": "log_uniform", "low": 1e-5, "high": 1e-2}}`.
        direction: maximize or minimize.
        sampler: As in a sweep's YAML: tpe (Bayesian) or random, with options.
        folder: Where the study is kept, so that a later process continues with it; None keeps it in memory.
        name: Of the study.
    """

    def __init__(
        self,
        base_config: Config,
        space: dict[str, Any],
        direction: str = "maximize",
        sampler: str | dict[str, Any] = "tpe",
        folder: str | Path | None = None,
        name: str = "tuner",
    ) -> None:
        self.base = base_config
        entries = {
            "base_config": "given",
            "space": space,
            "direction": direction,
            "sampler": sampler,
            "trials": 1,
        }
        self.definition = read_definition(entries, name)
        if CONFIG in self.definition.space:
            raise ConfigError("AutoTuner varies keys of one config; whole configs are for rl sweep")
        self.optuna = optuna_module()
        storage = None
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
            storage = f"sqlite:///{Path(folder).resolve() / 'study.db'}"
        options = dict(self.definition.sampler)
        samplers = self.optuna.samplers
        chosen = samplers.RandomSampler if options["name"] == "random" else samplers.TPESampler
        self.study = self.optuna.create_study(
            study_name=name, storage=storage, direction=direction, load_if_exists=True,
            sampler=chosen(seed=options.get("seed")),
        )  # fmt: skip

    def suggest_next_config(self) -> Config:
        """The base config with new values in it."""
        trial = self.study.ask()
        config = self.base
        for key, parameter in self.definition.space.items():
            config = overlaid(config, nested(config, key, parameter.suggest(trial)))
        trial.set_user_attr("digest", digest(config))
        return config

    def update_with_result(self, config: Config, score: float | None) -> None:
        """Tells the score of a suggested config; None, or what is not finite, marks it as failed."""
        wanted, state = digest(config), self.optuna.trial.TrialState
        for trial in self.study.get_trials(deepcopy=False, states=(state.RUNNING,)):
            if trial.user_attrs.get("digest") == wanted:
                failed = score is None or not math.isfinite(score)
                self.study.tell(
                    trial.number, None if failed else score, state=state.FAIL if failed else state.COMPLETE
                )
                return
        raise ConfigError("update_with_result: this config was not suggested, or its score is known already")

    @property
    def rows(self) -> list[TrialRow]:
        """All suggestions so far."""
        return [
            TrialRow(
                t.number, t.state.name.lower(), {k: decode(v) for k, v in t.params.items()}, t.value, True
            )
            for t in self.study.get_trials(deepcopy=False)
        ]

    @property
    def best(self) -> TrialRow | None:
        """The best suggestion whose score is known."""
        return best_row(self.rows, self.definition.direction)
