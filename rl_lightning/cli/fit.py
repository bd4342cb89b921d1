"""`rl fit` and `rl resume`."""

from __future__ import annotations

import os

import yaml

from rl_lightning.cli.flags import normalize, parse, seed_list
from rl_lightning.cli.options import OWN_SWITCHES, OWN_VALUES
from rl_lightning.errors import ConfigError
from rl_lightning.experiments.runs import group_of, resolve
from rl_lightning.redaction import redact
from rl_lightning.runs.config.compose import compose
from rl_lightning.runs.config.parsing import parse_config
from rl_lightning.runs.engine.fit import given_name, refuse_used, stem_of, train
from rl_lightning.runs.engine.meet import alone, launched, meet
from rl_lightning.runs.engine.resume import go_on, refuse_modes


def fit(words: list[str]) -> int:
    parsed = parse(words, OWN_VALUES, OWN_SWITCHES, config=True, command="fit")
    names = [*parsed.words, *parsed.all("config")]
    if not names and not any(flag.startswith("--model") for flag in parsed.config_flags):
        raise ConfigError("nothing to train: rl fit --config NAME, e.g. ppo/cartpole; see: rl list configs")
    config, request = compose(names), parsed.request(small=parsed.has("debug"))
    for_show = parsed.has("dry_run") or parsed.has("print_config")
    if "stages" in config and (for_show or not parsed.get("seeds")):
        from rl_lightning.runs.engine.pipelines import fit_pipeline, show_pipeline

        return (
            show_pipeline(config, request, names, parsed.has("dry_run"))
            if for_show
            else fit_pipeline(config, request, names).code
        )
    name = given_name(request, config) or (
        str(config["name"]) if "stages" in config and "name" in config else None
    )
    if parsed.get("seeds") and not for_show:
        from rl_lightning.runs.engine.group import run_group

        seeds, jobs = seed_list(parsed.get("seeds") or ""), parsed.integer("jobs", 1)
        return run_group(normalize(words), name, stem_of(names, config), seeds, jobs)
    if name is not None and not for_show and "LOCAL_RANK" not in os.environ and not launched():
        refuse_used(name)
    cli = parse_config(config, request)
    if parsed.has("print_config"):
        print(yaml.safe_dump(redact(cli.plain()), sort_keys=False).rstrip())
        return 0
    if parsed.has("dry_run"):
        from rl_lightning.runs.engine.dry_run import describe

        print(describe(cli, names))
        return 0
    return train(cli, request, name, stem_of(names, config)).code


def resume(words: list[str]) -> int:
    parsed = parse(words, OWN_VALUES, OWN_SWITCHES, config=True, command="resume")
    if len(parsed.words) != 1:
        raise ConfigError("rl resume takes one run; see them with: rl list")
    request = parsed.request()
    refuse_modes(parsed.words[0], request)
    if (members := group_of(parsed.words[0])) is not None:
        from rl_lightning.runs.engine.group import resume_group

        return resume_group(parsed.words[0], members, words, parsed.integer("jobs", 1))
    run = resolve(parsed.words[0])
    meet()
    with alone(run):
        return go_on(run, request)
