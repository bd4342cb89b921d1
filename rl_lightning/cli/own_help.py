"""Help for the options that configs declare for themselves: which stages they set, and what holds without them."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Mapping
from typing import Any

from rl_lightning.runs.config import catalog
from rl_lightning.runs.config.compose import Config, compose, find, inline, own_options
from rl_lightning.runs.config.keys import full_key
from rl_lightning.runs.config.own_options.declared import OwnOption
from rl_lightning.runs.config.own_options.laid import OF_A_PIPELINE

INDENT = 28
_STAGE = re.compile(r"stages\.(\w+)\.(.*)")


def own_help(names: list[str], given: Mapping[str, str]) -> str:
    """One entry an option, or nothing; `given` are those that were typed beside --help."""
    options = own_options(names)
    if not options:
        return ""
    config = compose(names, given)
    stages = stage_configs(config, names)
    cycles = {key: config[key] for key in OF_A_PIPELINE if key in config}
    whose = f" (stages {', '.join(stages)})" if "stages" in config else ""
    width = max(70, min(shutil.get_terminal_size((110, 20)).columns, 130))
    lines = [f"\noptions of {' + '.join(names)}{whose}:"]
    for option in options.values():
        head = f"  --{option.name} {shown_values(option)}  "
        body = f"{option.help} ({'; '.join(facts(option, stages, cycles))})".strip()
        lines += [head.rstrip()] if len(head) > INDENT else []
        first = " " * INDENT if len(head) > INDENT else head.ljust(INDENT)
        wrapped = textwrap.fill(
            body, width, initial_indent=first, subsequent_indent=" " * INDENT, break_on_hyphens=False
        )
        lines.append(wrapped)
    return "\n".join(lines)


def stage_configs(config: Config, names: list[str]) -> dict[str, Config]:
    """The config of each stage as it is trained; of a plain config itself."""
    if "stages" not in config:
        return {"": config}
    from rl_lightning.runs.pipeline.fit_pipeline import check_stage_config
    from rl_lightning.runs.pipeline.plan import make_plan

    jobs = make_plan(inline(config, find(names[0]).parent), check_stage_config)
    configs: dict[str, Config] = {}
    for job in jobs:
        configs.setdefault(job.stage, job.config)
    return configs


def shown_values(option: OwnOption) -> str:
    return "VALUE" if option.values is None else "|".join(option.values)


def facts(option: OwnOption, stages: Mapping[str, Config], whole: Config) -> list[str]:
    """Where it goes, what holds without it, and the table that it chooses from."""
    keys = option.sets or tuple(next(iter((option.values or {}).values())))[:1]
    places = [place_of(key) for key in keys]
    alone = stages.keys() == {""} or places[0][1] in OF_A_PIPELINE
    words = [", ".join(key if alone else f"{stage or 'all stages'}: {key}" for stage, key in places)]
    default = option.default if option.default is not None else whole.get(places[0][1])
    default = value_now(option, places[0], stages) if default is None else default
    words += [] if default in (None, "None") else [f"default {default}"]
    rows = option.named_rows()
    return words + ([f"table: {', '.join(rows)}"] if rows else [])


def place_of(key: str) -> tuple[str, str]:
    """Stage and key; no stage where all take it."""
    match = _STAGE.fullmatch(key)
    return (match[1], match[2]) if match else ("", key)


def value_now(option: OwnOption, place: tuple[str, str], stages: Mapping[str, Config]) -> Any:
    """What the stage's config says, as it would be typed; else the default of the class."""
    stage, key = place
    config = stages.get(stage) if stage else next(iter(stages.values()))
    if config is None:
        return None
    inside: Any = config
    for word in full_key(config, key):
        inside = inside.get(word) if isinstance(inside, Mapping) else None
        if inside is None:
            return default_of(config, key)
    kind = inside.get("class_path") if isinstance(inside, Mapping) else None
    if kind is None:
        return inside
    names = [name for name, entry in (option.values or {}).items() if kind in str(entry)]
    return names[0] if names else str(kind).rpartition(".")[2]


def default_of(config: Config, key: str) -> str | None:
    """Of the class that has the argument, if it is one of ours."""
    parent, _, name = key.rpartition(".")
    inside: Any = config
    for word in full_key(config, parent):
        inside = inside.get(word) if isinstance(inside, Mapping) else None
    entry = catalog.find(str(inside.get("class_path"))) if isinstance(inside, Mapping) else None
    options = [] if entry is None else catalog.all_options(entry)
    return next((option.default for option in options if option.name == name), None)
