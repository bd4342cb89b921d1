"""A composed config: trained as one run or as a pipeline, or only shown."""

from __future__ import annotations

import os

from rl_lightning.errors import ConfigError
from rl_lightning.runs.config.aliases import named_classes
from rl_lightning.runs.config.compose import Config, choose_classes
from rl_lightning.runs.config.parsing import parse_config
from rl_lightning.runs.engine.fit import check_name_free, given_name, stem_of, train
from rl_lightning.runs.engine.folder import Ended
from rl_lightning.runs.engine.init_distributed import is_launched_by_cluster
from rl_lightning.runs.request import Request


def fit_config(config: Config, request: Request, names: list[str]) -> Ended:
    """Trains it: `rl fit` and `rl_lightning.fit` without seeds.

    Args:
        config: Composed, not yet parsed.
        request: What else is asked.
        names: Of the configs it was composed of; a fresh run is named after the first.
    """
    if "stages" in config:
        from rl_lightning.runs.pipeline.fit_pipeline import fit_pipeline

        return fit_pipeline(config, request, names)
    check_whole(config, request, names)
    name = given_name(request, config)
    if name is not None and "LOCAL_RANK" not in os.environ and not is_launched_by_cluster():
        check_name_free(name)
    return train(parse_config(config, request), request, name, stem_of(names, config))


def check_whole(config: Config, request: Request, names: list[str]) -> None:
    """Refuses a fragment that is laid over nothing."""
    chosen, _ = choose_classes(config, request.overrides)
    if names and not named_classes(chosen):
        words = " ".join(f"--config {name}" for name in ["NAME", *names])
        raise ConfigError(
            f"{names[-1]} is a fragment, with neither model nor data of its own; lay it over a config: rl fit {words}"
        )


def show_config(config: Config, request: Request, names: list[str], sizes: bool) -> int:
    """Prints it resolved, of a pipeline every stage; with `sizes` also shapes, memory and the time it takes."""
    if "stages" in config:
        from rl_lightning.runs.pipeline.fit_pipeline import show_pipeline

        return show_pipeline(config, request, names, sizes)
    check_whole(config, request, names)
    given_name(request, config)
    cli = parse_config(config, request)
    if sizes:
        from rl_lightning.runs.engine.dry_run import describe

        print(describe(cli, names))
    else:
        from rl_lightning.runs.engine.own_settings import resolved

        print(resolved(cli))
    return 0
