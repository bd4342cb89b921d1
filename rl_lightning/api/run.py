"""Training from Python: `fit`, and the run that it returns."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from rl_lightning.api.group import TrainedRuns
from rl_lightning.api.objects import sort_out
from rl_lightning.api.spelling import spoken_in_python
from rl_lightning.errors import ConfigError
from rl_lightning.io.text import number

if TYPE_CHECKING:
    from rl_lightning.api.policy import LoadedPolicy
    from rl_lightning.runs.request import Request


class TrainedRun:
    """A run's folder and what it says: scores, metrics, its policy. A pipeline's stages are its items, by name.

    Args:
        folder: The run's folder.
        given: Objects that it was made with, by their dotted names; no folder holds them.
    """

    def __init__(self, folder: str | Path, given: Mapping[str, Any] | None = None) -> None:
        from rl_lightning.runs.store.run_folder import Run

        self._run, self.given = Run(Path(folder)), dict(given or {})

    @property
    def folder(self) -> Path:
        return self._run.folder

    @property
    def name(self) -> str:
        return self._run.name

    @property
    def record(self) -> dict[str, Any]:
        """run.json as it is now."""
        return self._run.read()

    @property
    def status(self) -> str:
        """started, running, finished, interrupted, diverged or failed."""
        return str(self.record.get("status", "unknown"))

    @property
    def best(self) -> float | None:
        """Score of the best evaluation; of a pipeline that of its last stage."""
        return self[self.stages[-1]].best if self.stages else self.record.get("best")

    @property
    def stages(self) -> list[str]:
        """Of a pipeline, those that have begun; of a run none."""
        from rl_lightning.runs.pipeline.ledger import Ledger

        return list(Ledger(self.folder / "pipeline.json").read())

    def __getitem__(self, stage: str) -> TrainedRun:
        if stage not in self.stages:
            raise KeyError(f"'{self.name}' has no stage '{stage}'; it has {', '.join(self.stages) or 'none'}")
        if not self.given:
            return TrainedRun(self.folder / stage)
        from rl_lightning.runs.engine.stage_objects import of_stage

        own = TrainedRun(self.folder / stage).record.get("given") or []
        return TrainedRun(self.folder / stage, of_stage(self.given, stage, own))

    @spoken_in_python()
    def metrics(self, *names: str) -> Any:
        """Columns of metrics.csv with the run's clocks, rows that have any of them: arrays by name, or a DataFrame.

        Args:
            names: "eval/return", "train/loss" ...; none: all of them.
        """
        import numpy as np

        from rl_lightning.runs.store.metrics_file import CLOCKS, find_column, header, read_columns

        path = self.folder / "metrics.csv"
        columns = header(path)
        clocks = [clock for clock in CLOCKS if clock in columns]
        chosen = [find_column(name, columns, self.name) for name in names] or [
            name for name in columns if name not in clocks
        ]
        table = read_columns(path, [*clocks, *chosen])
        arrays = {
            name: np.array([np.nan if value is None else value for value in column])
            for name, column in table.items()
        }
        has_value = np.zeros(len(arrays[clocks[0]]), bool)
        for name in chosen:
            has_value |= ~np.isnan(arrays[name])
        return as_frame({name: column[has_value] for name, column in arrays.items()})

    def evaluations(self) -> Any:
        """Every evaluation of eval.jsonl: a list of dicts, or a DataFrame."""
        path = self.folder / "eval.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        return as_frame([json.loads(line) for line in lines])

    def policy(self, checkpoint: str = "best", imports: Sequence[str] = ()) -> LoadedPolicy:
        """The trained policy, on the CPU. See `rl_lightning.load`."""
        from rl_lightning.api.policy import load

        return load(self, checkpoint, imports)

    def __repr__(self) -> str:
        best = "" if self.best is None else f", best {number(self.best)}"
        return f"<run {self.name}: {self.status}{best}>"


def as_frame(values: Any) -> Any:
    """A pandas DataFrame where pandas is installed, else the values themselves."""
    try:
        import pandas
    except ImportError:
        return values
    return pandas.DataFrame(values)


Configs = str | Path | Sequence[str]
Overrides = Mapping[str, Any] | None
ARGUMENTS = ("env_steps", "updates", "seed", "seeds", "name", "imports", "debug")
OptionValue = str | int | float | bool


@overload
def fit(
    config: Configs, overrides: Overrides = None, *, env_steps: int | None = None, updates: int | None = None,
    seed: int | None = None, seeds: None = None, name: str | None = None, imports: Sequence[str] = (),
    debug: bool = False, **options: OptionValue,
) -> TrainedRun: ...  # fmt: skip


@overload
def fit(
    config: Configs, overrides: Overrides = None, *, env_steps: int | None = None, updates: int | None = None,
    seed: None = None, seeds: Sequence[int], name: str | None = None, imports: Sequence[str] = (),
    debug: bool = False, **options: OptionValue,
) -> TrainedRuns: ...  # fmt: skip


@spoken_in_python()
def fit(
    config: str | Path | Sequence[str],
    overrides: Mapping[str, Any] | None = None,
    *,
    env_steps: int | None = None,
    updates: int | None = None,
    seed: int | None = None,
    seeds: Sequence[int] | None = None,
    name: str | None = None,
    imports: Sequence[str] = (),
    debug: bool = False,
    **options: OptionValue,
) -> TrainedRun | TrainedRuns:
    """Trains what a config says, as `rl fit` does, in this process.

    Args:
        config: A shipped config, a file, or several of them, later ones laid over earlier ones.
        overrides: Settings by their dotted names: {"model.lr": 1e-3, "data.num_envs": 4}. An argument of the model, the
            data or the trainer may also be an object: {"model.network": make_net, "data.env": MyEnv}, and `model` and
            `data` a class of your own. Of a pipeline they go to every stage that takes them, or to one:
            {"stages.bc.data.env": MyEnv}.
        env_steps: Budget in env steps; null: the config's.
        updates: Budget in updates; null: the config's.
        seed: Of everything; null: the config's.
        seeds: Several of them, trained one after the other as one group; the group's runs are returned.
        name: Of the run or group; null: a fresh one.
        imports: Packages of yours whose classes the config may name.
        debug: A run of seconds that watches everything.
        options: Those that the config declares for itself: fit("gormpo", task="d4rl/hopper-medium-v2").
    """
    from rl_lightning.runs.config.compose import compose, implied_options
    from rl_lightning.runs.config.flags.usual_config import usual_config
    from rl_lightning.runs.engine.fit import given_name, stem_of
    from rl_lightning.runs.process import unchanged_process
    from rl_lightning.runs.request import Request

    names = [str(config)] if isinstance(config, str | Path) else [str(each) for each in config]
    short = {"run.env_steps": env_steps, "run.updates": updates, "seed_everything": seed, "run.name": name}
    flags, packages, given = sort_out(overrides, short, imports)
    names = usual_config(names, flags)
    check_options(names, options)
    options = {**implied_options(names, flags), **options}
    composed = compose(names, options)
    request = Request(
        overrides=flags, options=options, imports=packages, debug=debug, small=debug, given=given
    )
    with unchanged_process():
        if seeds is not None:
            if seed is not None or not seeds:
                raise ConfigError("give seed= or seeds=, and of seeds= at least one")
            title = given_name(request, composed)
            return _fit_seeds(composed, request, names, list(seeds), title, stem_of(names, composed))
        return fit_one(composed, request, names)


def check_options(names: list[str], options: Mapping[str, Any]) -> None:
    """Refuses an argument that is neither of `fit` nor of the config, with the nearest one that is."""
    from rl_lightning.runs.config.compose import own_options
    from rl_lightning.runs.store.names import did_you_mean

    own = own_options(names) if options else {}
    for name in options:
        if name not in own:
            hint = (
                did_you_mean(name, [*own, *ARGUMENTS], 1)
                or "; settings go into overrides: {'model.lr': 1e-3}"
            )
            raise ConfigError(f"neither fit nor {' + '.join(names)} has '{name}'{hint}")


def fit_one(composed: dict[str, Any], request: Request, names: list[str]) -> TrainedRun:
    from rl_lightning.runs.fit_config import fit_config

    request = replace(request, command=as_command(names, request))
    return TrainedRun(fit_config(composed, request, names).run.folder, request.given)


def _fit_seeds(
    composed: dict[str, Any],
    request: Request,
    names: list[str],
    seeds: list[int],
    title: str | None,
    stem: str,
) -> TrainedRuns:
    """One run after the other under the names that `rl fit --seeds` gives; an interrupted one is the last."""
    from rl_lightning.runs.engine.folder import GROUP_SEEDS
    from rl_lightning.runs.engine.group import members_of
    from rl_lightning.runs.store.run_folder import fresh_name

    group = str(title) if title else fresh_name(stem)
    flags = [flag for flag in request.overrides if not flag.startswith("--run.name=")]
    os.environ[GROUP_SEEDS] = ",".join(map(str, seeds))
    runs = []
    for seed, name in members_of(group, seeds).items():
        own = [*flags, f"--run.name={name}", f"--seed_everything={seed}"]
        runs.append(fit_one(copy.deepcopy(composed), replace(request, overrides=own, group=group), names))
        os.environ.pop("RL_RUN_DIR", None)  # of the run that has ended
        if runs[-1].status == "interrupted":
            break
    return TrainedRuns(group, runs)


def as_command(names: list[str], request: Request) -> list[str]:
    """What would be typed for the same run, for its record; objects cannot be typed."""
    words = [word for name in names for word in ("--config", name)]
    words += [word for package in request.imports for word in ("--import", package)]
    words += [f"--{option}={value}" for option, value in request.options.items()]
    group = [] if request.group is None else ["--group", request.group]
    return [] if request.given else [*words, *request.overrides, *group]
