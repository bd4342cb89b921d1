"""Config and flags -> data, model and Trainer by LightningCLI, strictly: allowed classes, known keys."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import lightning.pytorch as lightning
import torch
import yaml
from jsonargparse import Namespace, set_parsing_settings
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI
from lightning.pytorch.plugins.environments import SLURMEnvironment
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from rl_lightning.algorithms.ddp import AveragingDDP
from rl_lightning.algorithms.rl_module import RLModule
from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.datamodules.bases.rl_data import RLData
from rl_lightning.errors import ConfigError, RLError, made_from_config
from rl_lightning.kernels.malloc import set_malloc_thresholds
from rl_lightning.loggers.make_loggers import LogConfig
from rl_lightning.ranges import check_ranges_within
from rl_lightning.redaction import REDACTED, redact, redacted_keys
from rl_lightning.runs.config import yaml_io
from rl_lightning.runs.config.aliases import named_classes
from rl_lightning.runs.config.catalog import registry
from rl_lightning.runs.config.compose import Config, check_specs, choose_classes
from rl_lightning.runs.config.config_errors import explain
from rl_lightning.runs.config.flags.default_classes import choose_defaults
from rl_lightning.runs.config.given import makers, marked, take_over
from rl_lightning.runs.config.partners import check_classes, check_named
from rl_lightning.runs.config.places import LATE, check_places, given, made_in
from rl_lightning.runs.config.swapped import inherit_settings

# What a config may name. Not all of torch or lightning: torch.hub would run what it is given.
ALLOWED = [
    "rl_lightning",
    "torch.nn",
    "torch.optim",
    *(f"lightning.pytorch.{part}" for part in ("callbacks", "loggers", "strategies", "profilers", "plugins")),
    "gymnasium.wrappers",
]
PRECISIONS = ("32-true", "32", "bf16-mixed", "bf16")
LARGEST_SEED = 2**32 - 1  # NumPy's
TRAINER_DEFAULTS: dict[str, Any] = {
    "max_epochs": -1,
    "devices": 1,
    "num_sanity_val_steps": 0,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "use_distributed_sampler": False,
}


def allow_imports(packages: list[str]) -> None:
    """Makes the parser strict, and imports the packages that the user named with --import."""
    set_parsing_settings(
        import_path_denylist=["*"],
        import_path_allowlist=[*ALLOWED, *(check_package(package) for package in packages)],
        instantiate_subclass_spec_in_any=False,
        config_read_mode_fsspec_enabled=False,
    )
    if packages and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    for package in packages:
        try:
            importlib.import_module(package)
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"--import {package}: no module '{error.name}' here ({os.getcwd()}) or installed"
            ) from error
        except Exception as error:
            raise ConfigError(f"--import {package}: raises {type(error).__name__}: {error}") from error
    if packages:
        from rl_lightning.io.trust import ALLOWED_IMPORTS

        ALLOWED_IMPORTS.update(packages)


def check_package(package: str) -> str:
    if not re.fullmatch(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", package):
        raise ConfigError(f"--import takes a package or module name, not '{package}'")
    if package.split(".")[0] in sys.stdlib_module_names or package.split(".")[0] == "jsonargparse":
        raise ConfigError(f"--import {package}: that is not a package of yours, and configs may not reach it")
    return package


class RLCLI(LightningCLI):
    """LightningCLI in three steps of ours: parse, `build` data and model, `make_trainer`.

    Args:
        config: The composed config.
        flags: `--key=value` laid over it.
        objects: Arguments that only Python can give, by their dotted names.
    """

    def __init__(self, config: Config, flags: list[str], objects: Mapping[str, Any] | None = None) -> None:
        chosen, self.flags = choose_classes(config, flags)
        self.base, self.objects = take_over(inherit_settings(chosen), objects or {})
        super().__init__(
            RLModule,
            RLData,
            subclass_mode_model=True,
            subclass_mode_data=True,
            save_config_callback=None,
            trainer_defaults=dict(TRAINER_DEFAULTS),
            seed_everything_default=0,
            auto_configure_optimizers=False,
            parser_kwargs={"exit_on_error": False, "prog": "rl fit", "allow_abbrev": False},
            run=False,
            args=[],
        )

    def add_default_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.add_argument("--seed_everything", type=int, default=0, help="Seed of everything.")
        parser.add_argument("--threads", type=int | None, default=None, help="CPU threads for torch.")
        parser.add_argument(
            "--matmul",
            type=Literal["auto", "default", "fast"],
            default="auto",
            help="Products on a CPU: torch's own (default), oneDNN's (fast), or those that are quicker here (auto).",
        )
        parser.add_argument(
            "--ckpt_path", type=str | None, default=None, help="Checkpoint, artifact or run to start from."
        )
        modes = Literal["exact", "warm_start", "warm_start_optimizer"]
        parser.add_argument(
            "--resume_mode", type=modes, default="exact", help="What is taken over from ckpt_path."
        )

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.add_class_arguments(RunConfig, "run")
        parser.add_class_arguments(LogConfig, "log")
        parser.link_arguments("data.spec", "model.init_args.spec", apply_on="instantiate")

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        check_specs(self.base)
        check_named(self.base)
        text = yaml.safe_dump(self.base, sort_keys=False)
        words = ([f"--config={text}"] if self.base else []) + arrange(choose_defaults(self.base, self.flags))
        try:
            self.config = parser.parse_args(words)
        except (argparse.ArgumentError, TypeError, ValueError, KeyError) as error:
            message = error.message if isinstance(error, argparse.ArgumentError) else str(error)
            options = list(parser.get_defaults(skip_validation=True).keys(branches=True))
            line = explain(message, {"model": RLModule, "data": RLData}, options, named_classes(self.base))
            raise ConfigError(line) from error
        check_seed(self.config.seed_everything)
        check_trainer(self.config.trainer)
        check_classes(self.config.model, self.config.data)
        for part in ("model", "data"):
            if isinstance(named := self.config.get(part), Namespace):
                check_ranges_within(named.as_dict(), part)

    def _parse_ckpt_path(self) -> None:
        """Lightning would let a checkpoint's arguments beat the command line; ours never do."""

    def _set_seed(self) -> None:
        """Done in `build`, right before the weights are drawn."""

    def _dump_config(self) -> None:
        super()._dump_config()
        self.config_dump = redact(self.config_dump)  # it goes into every checkpoint

    def instantiate_classes(self) -> None:
        """Left to `build`, so that --print_config makes nothing."""

    def data_arguments(self) -> Any:
        """What the config gives the DataModule; a class without arguments has none."""
        return self.config.data.get("init_args") or {}

    def plain(self) -> Config:
        """The whole resolved config as a plain dict: re-runs the run, under a name of its own."""
        config = yaml.safe_load(self.parser.dump(self.config, skip_unset=False, format="yaml"))
        config.get("run", {}).pop("name", None)
        return marked(dict(config), self.objects)

    def refuse_redacted(self) -> None:
        """A run's config does not hold its secrets: nothing is built with the text that stands in their place."""
        if not redacted_keys(self.base) and not any(REDACTED in flag for flag in self.flags):
            return
        if missing := redacted_keys(self.plain()):
            flags = " ".join(f"--{key} VALUE" for key in missing)
            raise ConfigError(f"{missing[0]} is secret and was not kept with the run; give it again: {flags}")

    def build(self, meta: bool = False) -> None:
        """Makes data and model. `meta` gives weights no memory, only shapes."""
        self.refuse_redacted()
        if self.config.threads is not None:
            if self.config.threads < 1:
                raise ConfigError(f"threads is {self.config.threads}; it must be at least 1")
            torch.set_num_threads(self.config.threads)
        set_malloc_thresholds()
        lightning.seed_everything(self.config.seed_everything, verbose=False)
        try:
            with made_from_config(), torch.device("meta" if meta else "cpu"):
                self.config_init = self.parser.instantiate(
                    self._without_late(), instantiators=makers(self.objects)
                )
        except Exception as error:
            raise root_cause(error) from error
        self.datamodule, self.model = self.config_init.data, self.config_init.model
        self.datamodule.configure(self.config_init.run, self.config.seed_everything)
        self.datamodule.check_model(self.model)

    def _without_late(self) -> Any:
        """The config without what is made in the run's folder."""
        config = self.config.clone()
        for name in LATE:
            config.trainer[name] = None
        return config

    def make_trainer(
        self, callbacks: list[Any], loggers: list[Any], folder: Path | None = None, **overrides: Any
    ) -> lightning.Trainer:
        """A Trainer with the config's callbacks besides ours and, in a run's folder, its loggers and profiler."""
        settings: dict[str, Any] = {**dict(self.config_init.trainer.items()), **overrides}
        settings |= self.objects["trainer"]
        if folder is not None:
            check_places(self.config.trainer, self.flags)
            try:
                settings |= made_in(folder, self.config.trainer, self.flags)
            except Exception as error:
                raise root_cause(error) from error
            own_root = settings.get("default_root_dir") or ""
            settings["default_root_dir"] = own_root if given(own_root, self.flags) else str(folder / own_root)
        own = settings.get("callbacks") or []
        settings["callbacks"] = [*(own if isinstance(own, list) else [own]), *callbacks]
        more = settings.get("logger")
        more = (
            []
            if more is None or isinstance(more, bool)
            else more
            if isinstance(more, list | tuple)
            else [more]
        )
        settings["logger"] = [*loggers, *more] or False
        settings["enable_checkpointing"] = any(isinstance(c, Checkpoint) for c in settings["callbacks"])
        settings |= data_parallel(settings)
        try:
            return lightning.Trainer(**settings)
        except (ValueError, TypeError, RuntimeError, MisconfigurationException) as error:
            raise ConfigError(f"trainer: {str(error).splitlines()[0]}") from error


def check_seed(seed: int) -> None:
    if not 0 <= seed <= LARGEST_SEED:
        said = "it must be 0 or more" if seed < 0 else f"it must be at most {LARGEST_SEED}"
        raise ConfigError(f"seed_everything is {seed}; {said}")


def check_trainer(trainer: Mapping[str, Any]) -> None:
    """Our modules move their optimizers themselves: Lightning refuses to touch gradients, but only once it trains."""
    check_precision(trainer)
    if trainer.get("enable_checkpointing") is False:
        raise ConfigError(
            "trainer.enable_checkpointing is false; a run is always saved. How often: --save_every"
        )
    if trainer.get("val_check_interval") not in (None, 1.0):
        raise ConfigError(
            "trainer.val_check_interval: an epoch is the stretch between two evaluations; use --eval_every N"
        )
    if trainer.get("overfit_batches"):
        raise ConfigError(
            "trainer.overfit_batches: a block is collected once and cannot be repeated; use "
            "--trainer.limit_train_batches or --debug"
        )
    clip, gathered = trainer.get("gradient_clip_val"), trainer.get("accumulate_grad_batches")
    if clip:
        raise ConfigError(
            f"trainer.gradient_clip_val is {clip}; gradients are clipped by the model: --model.max_grad_norm {clip}"
        )
    if gathered not in (None, 1):
        raise ConfigError(
            f"trainer.accumulate_grad_batches is {gathered}; gradients are gathered by a callback: "
            f"--trainer.callbacks NonFiniteGuard --trainer.callbacks.accumulate_grad_batches {gathered}"
        )


def check_precision(trainer: Mapping[str, Any]) -> None:
    """Weights stay float32, and no gradient is scaled: float16 would lose the small ones without a word."""
    plugins = trainer.get("plugins")
    plugins = plugins if isinstance(plugins, list | tuple) else [plugins]
    asked = [("precision", trainer.get("precision"))]
    for plugin in plugins:
        name = str(plugin.get("class_path") if isinstance(plugin, Mapping | Namespace) else plugin)
        if name.endswith("Precision"):
            value = (plugin.get("init_args") or {}).get("precision") if not isinstance(plugin, str) else None
            asked.append(("plugins", value or name.rpartition(".")[2]))
    for key, precision in asked:
        if precision is not None and str(precision) not in PRECISIONS:
            raise ConfigError(f"trainer.{key} is {precision}; it must be 32-true or bf16-mixed")


def data_parallel(settings: dict[str, Any]) -> dict[str, Any]:
    """Our own averaging wherever Lightning would wrap the model, and no handlers of SLURM's that save mid-step."""
    strategies = {"ddp": "popen", "ddp_fork": "fork", "ddp_spawn": "spawn"}
    several = settings.get("devices") not in (1, "1", "auto", None) or (settings.get("num_nodes") or 1) > 1
    name = "ddp" if settings.get("strategy") == "auto" and several else settings.get("strategy")
    changed: dict[str, Any] = {}
    if name in strategies:
        changed["strategy"] = AveragingDDP(start_method=strategies[str(name)])  # type: ignore[arg-type]
    if "SLURM_NTASKS" in os.environ and not settings.get("plugins"):
        changed["plugins"] = [SLURMEnvironment(auto_requeue=False)]
    return changed


def root_cause(error: Exception) -> Exception:
    """What a constructor really raised: the parser wraps it once for every level it lies deep."""
    while isinstance(error.__cause__, Exception) and not isinstance(error, RLError):
        error = error.__cause__
    if isinstance(error, ModuleNotFoundError):
        wanted = re.search(r"Requirement '([^']+)' not met", str(error))
        package = wanted.group(1) if wanted else str(error.name or error)
        return ConfigError(f"this config needs a package that is not installed: pip install '{package}'")
    return error


def arrange(flags: list[str]) -> list[str]:
    """Flags with whole numbers written out; those that choose a class before its arguments, the outer ones first."""

    def rank(flag: str) -> tuple[bool, int]:
        key, _, value = flag[2:].partition("=")
        chooses = key.endswith(".class_path") or value in registry()
        return not chooses, key.count(".") if chooses else 0

    return [_written_out(flag) for flag in sorted(flags, key=rank)]


def _written_out(flag: str) -> str:
    """A class of ours in full; 1e6 as the config files read it: the parser would take it for a float."""
    key, _, text = flag.partition("=")
    if key.startswith(("--model.", "--data.")):
        text = registry().get(text, text)
    value = yaml_io.scalar(text) if re.fullmatch(r"[-+]?[\d.]+[eE]\+?\d+", text) else text
    return f"{key}={value}" if key != "--run.name" else flag
