"""Writes docs/options.md from the signatures and docstrings of everything that a config may choose.

docs/coming-from.md is the table of what other libraries call these options.

`make docs` runs this file; tests/test_docs.py fails on an argument without a line and on a page that is out of date.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from pathlib import Path
from typing import Any, NamedTuple

from lightning.pytorch import Callback

from rl_lightning.algorithms import RLModule
from rl_lightning.callbacks import LogConfig
from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.datamodules import RLData
from rl_lightning.datasets.rows.reward_tuning import RewardTuning
from rl_lightning.envs.make import EnvConfig
from rl_lightning.envs.toys import _TOYS as TOYS
from rl_lightning.envs.wrappers.env_noise import EnvNoise
from rl_lightning.envs.wrappers.transforms import Transform
from rl_lightning.evolution.fitness import Fitness
from rl_lightning.functional.advantage_estimators import AdvantageEstimator
from rl_lightning.functional.diffusion_samplers import Sampler
from rl_lightning.functional.noise_schedules import NoiseSchedule
from rl_lightning.functional.reward_classes import RewardLoss
from rl_lightning.models.diffusion.candidate_filters import CandidateFilter
from rl_lightning.models.imitation_losses import ImitationLoss
from rl_lightning.optim.schedules import Schedule
from rl_lightning.planning.planners import Planner
from rl_lightning.replay.reward_samplers import RewardSampler
from rl_lightning.runs.config import aliases, catalog
from rl_lightning.runs.config.catalog import argument_docs, in_configs
from rl_lightning.trainer.contract import subclasses

PAGE = Path(__file__).parents[1] / "docs" / "options.md"
COMING_FROM = PAGE.with_name("coming-from.md")
MISSING = object()
WALKED = catalog.FOLDERS  # imported whole
INTRO = """\
# Options

Made by `make docs` from the signatures and docstrings; do not edit it. A name in a headline is what a config
calls by `class_path`, the table below it is what its `init_args` take, and every row is also a flag:
`--model.lr 3e-4`, `--data.env.id Acrobot-v1`, `--model.network MLP --model.network.hidden_dims [64,64]`.
`rl list algorithms PPO` and `rl fit --config NAME --help` print the same in the terminal.

Beside the groups below a config has `seed_everything` (default 0), `threads` (CPU threads for torch; default: torch's
choice), `matmul` (auto, default or fast: who computes products of full precision on a CPU, see the README) and
`trainer`, whose options are those of Lightning's Trainer (`accelerator`, `devices`, `strategy`, `precision`,
`callbacks`, ...)."""

COMING_FROM_INTRO = """\
# Coming from another library

Made by `make docs` from `rl_lightning/runs/config/aliases.csv`; do not edit it. Each table has a library's word, ours
and how the value differs; `-` means that we have none. A dotted word is a flag (`--model.lr 3e-4`), a key of a YAML and
a key in Python (`rl_lightning.fit("ppo/cartpole", {"model.lr": 3e-4})`). `phase` is an entry of `phases`, `sweep` the
YAML of a sweep. The error for an unknown option looks here first:

```
error: SAC has no option 'polyak'; Spinning Up's word for model.tau: --model.tau (1 - polyak)
```

Every option is in [options.md](options.md)."""


class Section(NamedTuple):
    """A part of the page: one class, or every class below a root that defines a method of its own."""

    title: str
    text: str
    classes: list[type]


class Row(NamedTuple):
    """One constructor argument."""

    name: str
    type: str
    default: Any
    doc: str


def below(root: type, *methods: str) -> list[type]:
    """Our classes that derive from `root` and say what one of the methods does, in order of their names."""
    found: dict[str, type] = {}
    waiting = [root]
    while waiting:
        for cls in waiting.pop().__subclasses__():
            waiting.append(cls)
            ours = cls.__module__.startswith("rl_lightning.")
            if (
                ours
                and not cls.__name__.startswith("_")
                and any(getattr(cls, method) is not getattr(root, method) for method in methods)
            ):
                found[cls.__name__] = cls
    return [found[name] for name in sorted(found)]


def listed(root: type) -> list[type]:
    """Our callbacks, also those that extend one of Lightning's, in order of their names."""
    homes = ("rl_lightning.callbacks.", "rl_lightning.trainer.", "rl_lightning.checkpoints.")
    return sorted(
        (cls for cls in subclasses(root) if cls.__module__.startswith(homes)), key=lambda cls: cls.__name__
    )


def parts(factory: str) -> list[type]:
    """Our classes that an argument of this type makes."""
    return [getattr(importlib.import_module(e.module), e.name) for e in catalog.parts_of(factory)]


def toys() -> list[type]:
    """The classes behind our own env ids."""
    found = []
    for path in dict.fromkeys(path for path, _ in TOYS.values()):
        module, _, name = path.partition(":")
        found.append(getattr(importlib.import_module(f"rl_lightning.envs.toys.{module}"), name))
    return found


def import_all() -> None:
    """A class that no __init__ mentions is an option all the same."""
    for folder in WALKED:
        package = importlib.import_module(f"rl_lightning.{folder}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


def sections() -> list[Section]:
    import_all()
    return [
        Section("run", "Budgets and cadences; each is also a flag without `run.`.", [RunConfig]),
        Section("log", "Dashboards.", [LogConfig]),
        Section("Algorithms", "`model.class_path`. `spec` is filled in.", below(RLModule, "update")),
        Section("Data", "`data.class_path`.", below(RLData, "batches", "sample_batches")),
        Section("The environment", "`data.env`.", [EnvConfig]),
        Section("EnvNoise", "`data.env.noise`.", [EnvNoise]),
        Section("Transforms", "Entries of `data.env.transforms`.", below(Transform, "apply")),
        Section("Small envs", "`env.kwargs` of the ids below `rl/`.", toys()),
        Section("Networks", "`network` of an algorithm.", parts("Network")),
        Section("Buffers", "`buffer` of OnlineData.", parts("BufferFactory")),
        Section("Buffers of sequences", "`buffer` of SequenceData.", parts("SequenceReplayFactory")),
        Section("Windows", "`windows` of SequenceReplay.", parts("WindowsFactory")),
        Section("Worlds of frames", "`predictor` of NextFrame.", parts("FrameWorldFactory")),
        Section(
            "Reward heads", "`reward_net` of RewardModel and of a world of frames.", parts("RewardNetFactory")
        ),
        Section(
            "Reward losses", "`reward_loss` of RewardModel and NextFrame.", below(RewardLoss, "__call__")
        ),
        Section("Imitation losses", "`loss` of BC.", below(ImitationLoss, "__call__")),
        Section("Reward samplers", "`sampler` of RewardStepData.", below(RewardSampler, "groups")),
        Section("Optimizers", "`optimizer` of an algorithm.", parts("OptimizerFactory")),
        Section("Schedules", "`lr_schedule`, `clip_range_schedule`, ...", below(Schedule, "value")),
        Section("Densities", "`density_model` of Density.", parts("DensityFactory")),
        Section("Denoisers", "`denoiser` of what learns by diffusion.", parts("DenoiserFactory")),
        Section(
            "Noise schedules", "`schedule` of what learns by diffusion.", below(NoiseSchedule, "log_alpha")
        ),
        Section("Samplers", "`sampler` of what learns by diffusion.", below(Sampler, "solver_steps")),
        Section("Candidate filters", "`filter` of DiceGuidance.", below(CandidateFilter, "choose")),
        Section("Reward tunings", "`rewards` of OfflineData.", below(RewardTuning, "tune")),
        Section("Planners", "`planner` of an algorithm.", below(Planner, "refit")),
        Section("Data policies", "`policy` of EpisodeRecorder.", parts("BehaviorFactory")),
        Section("Evolution", "`strategy` of EvolutionaryController.", parts("SearchFactory")),
        Section("Fitness", "`fitness` of EvolutionData.", below(Fitness, "evaluate")),
        Section("Return computers", "`returns` of PPO.", below(AdvantageEstimator, "compute")),
        Section(
            "Callbacks",
            "Every run has these already, set from `run` and `log`; your own and Lightning's go to "
            "`trainer.callbacks`.",
            listed(Callback),
        ),
    ]


def rows(cls: type) -> list[Row]:
    """The constructor arguments of a class, with the line that its docstring (or its base's) has for each."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        docs |= argument_docs(inspect.cleandoc(base.__doc__ or ""))
    found = []
    for name, parameter in parameters(cls).items():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        default = MISSING if parameter.default is parameter.empty else parameter.default
        found.append(Row(name, type_text(parameter.annotation), default, docs.get(name, "")))
    if dataclasses.is_dataclass(cls):
        factories = {
            f.name: f.default_factory for f in dataclasses.fields(cls) if callable(f.default_factory)
        }
        found = [
            row._replace(default=factories[row.name]()) if row.name in factories else row for row in found
        ]
    return found


def parameters(cls: type) -> dict[str, inspect.Parameter]:
    """Of the constructor; DataModules take the run's arguments besides, and are called in a way of their own."""
    if type(cls).__call__ is type.__call__:
        return dict(inspect.signature(cls).parameters)
    return dict(list(inspect.signature(cls.__init__).parameters.items())[1:])  # type: ignore[misc]


def type_text(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        return "any"
    if isinstance(annotation, str):
        return in_configs(annotation)
    return getattr(annotation, "__name__", str(annotation))


def default_text(value: Any) -> str:
    if value is MISSING:
        return "required"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, type):
        return value.__name__
    return str(list(value)) if isinstance(value, tuple) else str(value)


def documented(cls: type) -> set[str]:
    """The arguments that the class's own docstring speaks of."""
    return set(argument_docs(inspect.cleandoc(cls.__doc__ or "")))


def summary(cls: type) -> str:
    """Everything that the docstring says before its arguments."""
    text = inspect.cleandoc(cls.__doc__ or "").partition("Args:\n")[0]
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))


def table(cls: type) -> str:
    lines = ["| option | type | default | meaning |", "|---|---|---|---|"]
    for row in rows(cls):
        if row.name == "spec":
            continue
        cells = [f"`{row.name}`", f"`{row.type}`", f"`{default_text(row.default)}`", row.doc]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) if len(lines) > 2 else "No options."


def page() -> str:
    parts = [INTRO]
    for section in sections():
        parts += [f"## {section.title}", section.text]
        for cls in section.classes:
            parts += [f"### {cls.__name__}", summary(cls), table(cls)]
    return "\n\n".join(part for part in parts if part) + "\n"


def coming_from() -> str:
    """A section for each library, a table for each of its algorithms."""
    parts = [COMING_FROM_INTRO, "\n".join(f"- [{name}](#{anchor(name)})" for name in aliases.LIBRARIES)]
    for family in aliases.LIBRARIES:
        known = [row for row in aliases.table() if row.family == family]
        groups = dict.fromkeys(row.library for row in known)
        parts.append(f"## {family}")
        for group in groups:
            parts += [f"### {heading(group)}"] if group != family else []
            parts.append(alias_table([row for row in known if row.library == group]))
    return "\n\n".join(parts) + "\n"


def heading(library: str) -> str:
    return ", ".join(library.split("/"))


def anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def alias_table(known: list[aliases.Alias]) -> str:
    lines = ["| theirs | ours | note |", "|---|---|---|"]
    for row in known:
        ours = row.ours if row.ours == aliases.NONE else f"`{row.ours}`"
        cells = [f"`{row.theirs}`", ours, row.note]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells).rstrip() + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    COMING_FROM.write_text(coming_from(), encoding="utf-8")
