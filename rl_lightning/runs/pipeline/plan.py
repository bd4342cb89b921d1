"""From a YAML with `stages:` to a list of jobs: which config, in which folder, fed by which artifacts."""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rl_lightning.errors import ConfigError
from rl_lightning.redaction import REDACTED, redact, redact_words
from rl_lightning.runs.config.keys import full_key
from rl_lightning.runs.pipeline.reach import BUDGETS, check_reach, dotted_keys, lay, own_layer
from rl_lightning.runs.store.names import did_you_mean
from rl_lightning.runs.store.run_folder import logs_root

Config = dict[str, Any]
STAGE_KEYS = (
    "name", "config", "inputs", "once", "warm_start", "budget_by_cycle", "artifact", "overrides", "skip",
)  # fmt: skip


@dataclass
class Job:
    """One stage of one cycle.

    Args:
        key: Its folder in the run: the stage's name, and the cycle's number where there are several.
        stage: The stage's name.
        cycle: The cycle, from 1.
        config: The stage's whole config, artifacts not yet filled in.
        inputs: Dotted key -> job key of the artifact that goes there, or a path.
        warm_start_from: The job of the cycle before whose weights this one starts from; null: starts anew.
        artifact: Which checkpoint becomes the artifact: best, last or a milestone.
        flags: Fields given on the command line, over the config.
    """

    key: str
    stage: str
    cycle: int
    config: Config
    inputs: dict[str, str] = field(default_factory=dict)
    warm_start_from: str | None = None
    artifact: str = "best"
    flags: list[str] = field(default_factory=list)

    def budget(self) -> float:
        """How long it is, in its own clock."""
        run = self.config.get("run") or {}
        return float(next((run[key] for key in BUDGETS if run.get(key)), 1))

    def identity(self) -> str:
        """Changes with what a stage learns from and how, but not with how long: a budget may grow."""
        config = {key: value for key, value in self.config.items() if key not in ("log", "run")}
        flags = [flag for flag in self._flags() if not flag.startswith(("--run.", "--log."))]
        text = json.dumps({**redact(config), "inputs": self.inputs, "flags": flags}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def hash(self) -> str:
        """Changes with everything that decides the artifact, but not with the names of runs."""
        config = {k: v for k, v in self.config.items() if k != "log"}
        run = {k: v for k, v in dict(config.get("run") or {}).items() if k not in ("name", "tags")}
        whole = {
            **config,
            "run": run,
            "inputs": self.inputs,
            "artifact": self.artifact,
            "flags": self._flags(),
        }
        text = json.dumps(redact(whole), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _flags(self) -> list[str]:
        """Without secrets: a run's record does not hold them, and they are given again when it is resumed."""
        return [flag for flag in redact_words(self.flags) if REDACTED not in flag]


def make_plan(pipeline: Config, load: Callable[[str], Config]) -> list[Job]:
    """All jobs of a pipeline in order. `load` resolves the name of a stage's config."""
    stages = [stage for stage in _check_stages(pipeline) if not stage.get("skip")]
    if not stages:
        raise ConfigError("stages: all of them are skipped")
    skipped = [stage["name"] for stage in pipeline["stages"] if stage.get("skip")]
    cycles = pipeline.get("cycles", 1)
    if not isinstance(cycles, int) or cycles < 1:
        raise ConfigError(f"cycles is {cycles!r}; it must be a positive number")
    configs = {s["name"]: _stage_config(s, pipeline, load) for s in stages}
    check_reach(configs, [*dotted_keys(own_layer(pipeline)), *dotted_keys(pipeline.get("overlay") or {})])
    jobs: list[Job] = []
    newest: dict[str, str] = {}  # stage -> key of its newest job
    for cycle in range(1, cycles + 1):
        for stage in stages:
            name = stage["name"]
            if stage.get("once") and cycle > 1:
                continue
            numbered = cycles > 1 and not stage.get("once")
            key = f"{name}-{cycle}" if numbered else name
            sources = {
                ".".join(full_key(configs[name], dotted)): _source(stage, dotted, source, newest, skipped)
                for dotted, source in _inputs(stage).items()
            }
            inputs = {dotted: source for dotted, source in sources.items() if source is not None}
            config = _with_budget(configs[name], stage.get("budget_by_cycle") or {}, cycle, name)
            before = newest.get(name) if stage.get("warm_start") else None
            jobs.append(Job(key, name, cycle, config, inputs, before, str(stage.get("artifact", "best"))))
            newest[name] = key
    return jobs


def select_jobs(jobs: list[Job], begin: str | None, only: str | None) -> list[Job]:
    """All jobs, those from a stage on, or one stage alone; a name that no stage has is refused."""
    names = list(dict.fromkeys([job.key for job in jobs] + [job.stage for job in jobs]))
    for stage in (begin, only):
        if stage is not None and stage not in names:
            raise ConfigError(
                f"no stage '{stage}'; there are {', '.join(names)}{did_you_mean(stage, names, 1)}"
            )
    if only is not None:
        return [job for job in jobs if only in (job.key, job.stage)]
    start = 0 if begin is None else next(i for i, job in enumerate(jobs) if begin in (job.key, job.stage))
    return jobs[start:]


def _check_stages(pipeline: Config) -> list[Config]:
    stages = pipeline.get("stages")
    if not isinstance(stages, list) or not stages:
        raise ConfigError("stages: give a list of {name, config}")
    seen: set[str] = set()
    for i, stage in enumerate(stages):
        if not isinstance(stage, dict) or "name" not in stage or "config" not in stage:
            raise ConfigError(f"stages[{i}] needs a name and a config")
        for key in stage:
            if key not in STAGE_KEYS:
                hint = did_you_mean(str(key), STAGE_KEYS, 1) or f" (allowed: {', '.join(STAGE_KEYS)})"
                raise ConfigError(f"stages[{i}] has no key '{key}'{hint}")
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", str(stage["name"])):
            raise ConfigError(f"stages[{i}].name is {stage['name']!r}; use letters, digits and _")
        if stage["name"] in seen:
            raise ConfigError(f"two stages are called '{stage['name']}'")
        seen.add(stage["name"])
    return stages


def _inputs(stage: Config) -> dict[str, Any]:
    inputs = stage.get("inputs") or {}
    if not isinstance(inputs, dict):
        raise ConfigError(f"stage {stage['name']}: inputs maps dotted keys to stages or paths")
    return inputs


def _source(
    stage: Config, dotted: str, source: Any, newest: dict[str, str], skipped: Sequence[str] = ()
) -> str | None:
    """The key of the job whose artifact is taken, or the path or run as it is; null takes an input away.

    Of a list, the first stage that has an artifact by then: `[collect, explore]` is the collection of the cycle before,
    and in the first cycle what was explored; `[policy, null]` is nothing in the first cycle.
    """
    if isinstance(source, list):
        there = [each for each in source if each is None or each in newest]
        if there:
            return None if there[0] is None else newest[there[0]]
        source = source[0] if source else None
    if source is None:
        return None
    if source in newest:
        return newest[source]
    if source in skipped:
        raise ConfigError(
            f"stage {stage['name']} takes {dotted} from '{source}', which is skipped; give another with: "
            f"--stages.{stage['name']}.inputs.{dotted} RUN (null for none)"
        )
    if "/" in str(source) or "." in str(source) or (logs_root() / str(source)).is_dir():
        return str(source)
    hint = did_you_mean(str(source), newest, 1)
    raise ConfigError(
        f"stage {stage['name']} has '{source}' as input {dotted}, and no stage before it has that name, nor a run"
        f"{hint}"
    )


def _stage_config(stage: Config, pipeline: Config, load: Callable[[str], Config]) -> Config:
    """A stage's config, then the pipeline's own keys, what is shared, the stage's overrides, what is laid over all."""
    config = load(stage["config"]) if isinstance(stage["config"], str) else copy.deepcopy(stage["config"])
    config = lay(config, own_layer(pipeline))
    for dotted, value in {**(pipeline.get("shared") or {}), **(stage.get("overrides") or {})}.items():
        set_key(config, dotted, value)
    return lay(config, pipeline.get("overlay") or {})


def _with_budget(config: Config, factors: dict[Any, Any], cycle: int, name: str) -> Config:
    factor = {int(k): v for k, v in factors.items()}.get(cycle, 1)
    if factor == 1:
        return config
    config = copy.deepcopy(config)
    run = config.setdefault("run", {})
    for key in BUDGETS:
        if run.get(key):
            run[key] = int(run[key] * factor)
            return config
    raise ConfigError(
        f"stage {name}: budget_by_cycle multiplies run.env_steps or run.updates, and neither is set"
    )


def set_key(config: Config, dotted: str, value: Any) -> None:
    """Sets a dotted key, written as in flags; mappings on the way are made as needed."""
    *path, last = full_key(config, dotted)
    for key in path:
        below = config.setdefault(key, {})
        if not isinstance(below, dict):
            raise ConfigError(f"{dotted}: '{key}' is not a mapping")
        config = below
    config[last] = copy.deepcopy(value)
