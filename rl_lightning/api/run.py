"""Training from Python: `fit` and `resume`, and the run that they return."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl_lightning.errors import ConfigError

if TYPE_CHECKING:
    from rl_lightning.api.policy import LoadedPolicy


class TrainedRun:
    """A run's folder and what it says: scores, metrics, its policy. A pipeline's stages are its items, by name.

    Args:
        folder: The run's folder.
    """

    def __init__(self, folder: str | Path) -> None:
        from rl_lightning.experiments.runs import Run

        self._run = Run(Path(folder))

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
        from rl_lightning.pipeline.ledger import Ledger

        return list(Ledger(self.folder / "pipeline.json").read())

    def __getitem__(self, stage: str) -> TrainedRun:
        if stage not in self.stages:
            raise KeyError(f"'{self.name}' has no stage '{stage}'; it has {', '.join(self.stages) or 'none'}")
        return TrainedRun(self.folder / stage)

    def metrics(self, *names: str) -> Any:
        """Columns of metrics.csv with the run's clocks, rows that have any of them: arrays by name, or a DataFrame.

        Args:
            names: "eval/return", "train/loss" ...; none: all of them.
        """
        import numpy as np

        from rl_lightning.experiments.metrics_file import CLOCKS, find_column, header, read_columns

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
        told = np.zeros(len(arrays[clocks[0]]), bool)
        for name in chosen:
            told |= ~np.isnan(arrays[name])
        return as_frame({name: column[told] for name, column in arrays.items()})

    def evaluations(self) -> Any:
        """Every evaluation of eval.jsonl: a list of dicts, or a DataFrame."""
        path = self.folder / "eval.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        return as_frame([json.loads(line) for line in lines])

    def policy(self, checkpoint: str = "best", imports: Sequence[str] = ()) -> LoadedPolicy:
        """The trained policy, on the CPU. See `rl_lightning.load`."""
        from rl_lightning.api.policy import load

        return load(self.folder, checkpoint, imports)

    def __repr__(self) -> str:
        best = "" if self.best is None else f", best {self.best:.4g}"
        return f"<run {self.name}: {self.status}{best}>"


def as_frame(values: Any) -> Any:
    """A pandas DataFrame where pandas is installed, else the values themselves."""
    try:
        import pandas
    except ImportError:
        return values
    return pandas.DataFrame(values)


def fit(
    config: str | Path | Sequence[str],
    overrides: Mapping[str, Any] | None = None,
    *,
    env_steps: int | None = None,
    updates: int | None = None,
    seed: int | None = None,
    name: str | None = None,
    imports: Sequence[str] = (),
    debug: bool = False,
) -> TrainedRun:
    """Trains what a config says, as `rl fit` does, in this process.

    Args:
        config: A shipped config, a file, or several of them, later ones laid over earlier ones.
        overrides: Settings by their dotted names: {"model.lr": 1e-3, "data.num_envs": 4}.
        env_steps: Budget in env steps; null: the config's.
        updates: Budget in updates; null: the config's.
        seed: Of everything; null: the config's.
        name: Of the run; null: a fresh one.
        imports: Packages of yours whose classes the config may name.
        debug: A run of seconds that watches everything.
    """
    from rl_lightning.runs.config.compose import compose
    from rl_lightning.runs.config.parsing import parse_config
    from rl_lightning.runs.engine.fit import given_name, stem_of, train
    from rl_lightning.runs.engine.pipelines import fit_pipeline
    from rl_lightning.runs.process import unchanged_process
    from rl_lightning.runs.request import Request

    names = [str(config)] if isinstance(config, str | Path) else [str(each) for each in config]
    short = {"run.env_steps": env_steps, "run.updates": updates, "seed_everything": seed, "run.name": name}
    request = Request(
        overrides=as_flags({**(overrides or {}), **short}), imports=list(imports), debug=debug, small=debug
    )
    composed = compose(names)
    with unchanged_process():
        if "stages" in composed:
            return TrainedRun(fit_pipeline(composed, request, names).run.folder)
        cli = parse_config(composed, request)
        return TrainedRun(
            train(cli, request, given_name(request, composed), stem_of(names, composed)).run.folder
        )


def resume(
    run: Any,
    overrides: Mapping[str, Any] | None = None,
    *,
    env_steps: int | None = None,
    updates: int | None = None,
    checkpoint: str | None = None,
    imports: Sequence[str] = (),
) -> TrainedRun:
    """Goes on with a run exactly where it was stopped, as `rl resume` does, in this process.

    Args:
        run: Its name or folder, or what `fit` returned.
        overrides: Settings that change, by their dotted names.
        env_steps: A new budget in env steps.
        updates: A new budget in updates.
        checkpoint: last, or a milestone (step-20000); null: last.
        imports: Packages of yours that the run was made with. Those that you have imported already need not be named.
    """
    from rl_lightning.api.policy import trusted
    from rl_lightning.experiments.runs import resolve
    from rl_lightning.runs.engine.meet import alone, meet
    from rl_lightning.runs.engine.resume import go_on
    from rl_lightning.runs.process import unchanged_process
    from rl_lightning.runs.request import Request

    place = resolve(str(getattr(run, "folder", run)))
    short = {"run.env_steps": env_steps, "run.updates": updates}
    request = Request(
        overrides=as_flags({**(overrides or {}), **short}),
        imports=trusted(place, imports),
        checkpoint=checkpoint,
    )
    with unchanged_process():
        meet()
        with alone(place):
            go_on(place, request)
    return TrainedRun(place.folder)


def as_flags(overrides: Mapping[str, Any]) -> list[str]:
    """Settings as the parser of configs takes them; those that are None are left as they are.

    An override that is to be null is written "null".
    """
    flags = []
    for key, value in overrides.items():
        if value is None:
            continue
        if not isinstance(value, str | bool | int | float | list | tuple | dict):
            raise ConfigError(
                f"{key}: a config holds plain values, not a {type(value).__name__}; "
                "objects of your own go into a Trainer, a module and a DataModule by hand"
            )
        flags.append(f"--{key}={value if isinstance(value, str) else json.dumps(value)}")
    return flags
