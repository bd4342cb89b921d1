"""What --debug does to a parsed config: the same run in seconds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jsonargparse import Namespace

from rl_lightning.clock.phases import ALIASES
from rl_lightning.runs.config import catalog

# Upper bounds of keys of run, and of arguments of model and data at any depth; what a flag sets is left alone.
RUN_CAPS = {
    "env_steps": 200, "updates": 20, "eval_every": 100, "eval_episodes": 1, "eval_max_steps": 30, "final_episodes": 2,
    "save_every": 100,
}  # fmt: skip
ALWAYS = ("eval_every", "eval_max_steps")  # also where the config has none
DATA_CAPS = {
    "num_envs": 2, "rollout_steps": 8, "batch_size": 2, "minibatch_size": 16, "sequence_length": 4, "burn_in": 2,
    "learning_starts": 64, "pretrain": 2, "train_every": 64, "train_ratio": 8.0, "utd_ratio": 1.0, "n_epochs": 2,
    "updates_per_block": 2, "steps_per_block": 50, "capacity": 2000,
    "rollout_batch_size": 500, "rollout_freq": 25, "rollout_length": 5,
}  # fmt: skip
PLAN_CAPS = {
    "horizon": 3, "num_samples": 16, "num_elites": 4, "iterations": 2, "num_pi_trajs": 4,
    "popsize": 4, "num_rollouts": 2, "reevaluate_rollouts": 2, "num_workers": 2, "max_steps": 50,
}  # fmt: skip
WINDOW = 8  # actions of a window that a policy draws whole, or steps of a simulated env
EPISODE = 30  # steps, so that there are whole ones
PLANNER = ("horizon", "num_samples", "num_elites", "iterations", "num_pi_trajs")
# Left alone where weights of a run come from elsewhere: they must fit.
NETWORK_CAPS = {
    "hidden_dim": 64, "hidden_dims": 64, "critic_hidden_dims": 64, "guide_hidden_dims": 64, "value_hidden_dims": 64,
    "deter": 64, "stoch": 8, "classes": 8, "depth": 8, "base_channels": 8, "filter_double_steps": 1, "hidden_layers": 1,
    "latent_filters": 16, "latent_state_size": 16, "model_size": "1M",
}  # fmt: skip
# Of each phase, and of each hook of its cycle; env_steps as prefill, and room for as many is made in the run.
PHASE_CAPS = {"env_steps": 128, "updates": 8, "cycles": 4, "collect_steps": 32, "eval_episodes": 2}
HOOK_CAPS = {"every": 4, "count": 4, "after_updates": 4}


def apply_debug_caps(config: Any, flags: list[str]) -> None:
    """Cuts budgets and sizes of a parsed config in place."""
    own_keys = {flag[2:].partition("=")[0].replace("init_args.", "") for flag in flags}
    run, phases = config.run, phases_of(config)
    room = PHASE_CAPS["env_steps"] * sum(collects(entry) for entry in phases)
    run_caps = {**RUN_CAPS, "env_steps": max(RUN_CAPS["env_steps"], room)}
    if run.env_steps is None and run.updates is None:
        run.env_steps = run_caps["env_steps"]
    for key, cap in run_caps.items():
        if (run[key] is not None or key in ALWAYS) and f"run.{key}" not in own_keys:
            run[key] = smaller(run[key], cap)
    caps = {**DATA_CAPS, **PLAN_CAPS, **({} if has_foreign_weights(config) else NETWORK_CAPS)}
    small_planner(config.model)
    if "horizon" in (config.data.get("init_args") or {}):  # model and data mean the same by it
        caps["horizon"] = WINDOW
    for group in ("model", "data"):
        shrink(config[group].get("init_args"), caps, group, own_keys)
    shorten_episodes(config.data.get("init_args") or {}, own_keys)
    if not any(key.startswith("trainer.callbacks") for key in own_keys):
        shrink_phases(phases, run)


def shrink(value: Any, caps: Mapping[str, Any], where: str, own_keys: set[str]) -> None:
    """Cuts the arguments of a class and of all that it is made of, in place."""
    if isinstance(value, list | tuple):
        for item in value:
            shrink(item, caps, where, own_keys)
    if not isinstance(value, Namespace | dict):
        return
    for key in list(vars(value) if isinstance(value, Namespace) else value):
        place = where if key == "init_args" else f"{where}.{key}"
        if key in caps and place not in own_keys:
            value[key] = within(value[key], caps[key])
        elif key != "env":  # an env is what it is
            shrink(value[key], caps, place, own_keys)


def small_planner(model: Any) -> None:
    """A planner that a model would make itself, in its full size, is named, so that it can be cut."""
    arguments, entry = model.get("init_args"), catalog.find(model.class_path)
    if not arguments or entry is None or "planner" not in arguments or arguments["planner"] is not None:
        return
    option = next(option for option in catalog.all_options(entry) if option.name == "planner")
    kind = next((path for name, path in catalog.registry().items() if name in option.type.split(" | ")), None)
    if kind is not None:
        sizes = {name: PLAN_CAPS[name] for name in catalog.argument_names(kind) if name in PLANNER}
        arguments["planner"] = Namespace(class_path=kind, init_args=Namespace(sizes))


def shorten_episodes(data: Any, own_keys: set[str]) -> None:
    """Cuts episodes of an env that is named."""
    env = data.get("env")
    if env is not None and env.get("id") and "data.env.max_episode_steps" not in own_keys:
        env["max_episode_steps"] = smaller(env.get("max_episode_steps"), EPISODE)


def within(value: Any, cap: Any) -> Any:
    """A size, or each of a list of sizes, at most the cap; null stays, and of named sizes the cap is one."""
    if isinstance(value, list | tuple):
        return [within(item, cap) for item in value]
    if value == "auto" or isinstance(cap, str):
        return cap
    return min(value, cap) if isinstance(value, int | float) and not isinstance(value, bool) else value


def has_foreign_weights(config: Any) -> bool:
    """Whether the run begins with weights that were not made under --debug too, in the same pipeline."""
    arguments = config.model.get("init_args") or {}
    names = [config.ckpt_path, *(value for key, value in arguments.items() if key.startswith("init_"))]
    own = os.environ.get("RL_RUN_DIR")
    return any(isinstance(name, str) and not (own and is_within(name, own)) for name in names)


def is_within(name: str, folder: str) -> bool:
    return Path(name).resolve().is_relative_to(Path(folder).resolve())


def phases_of(config: Any) -> list[dict[str, Any]]:
    """The entries of the Phases callback, as they stand in the config; none if the run has no phases."""
    own = config.trainer.callbacks or []
    callbacks = own if isinstance(own, list) else [own]
    return [
        entry
        for item in callbacks
        if item.class_path.rpartition(".")[2] == "Phases"
        for entry in item.init_args.phases
    ]


def shrink_phases(phases: list[dict[str, Any]], run: Any) -> None:
    """Cuts durations in place, so that the run's budget reaches every phase."""
    caps = dict(PHASE_CAPS)
    for key, sharing in (("env_steps", sum(map(collects, phases))), ("updates", len(phases))):
        if run[key] is not None:
            caps[key] = max(1, min(caps[key], run[key] // max(1, sharing)))
    for entry in phases:
        cut(entry, {**caps, **{alias: caps[key] for alias, key in ALIASES.items() if key in caps}})
        for hook in hooks_of(entry):
            if isinstance(hook, dict):
                cut(hook, HOOK_CAPS)


def collects(entry: dict[str, Any]) -> bool:
    hooks = hooks_of(entry)
    names = [hook.get("name") if isinstance(hook, dict) else hook for hook in hooks]
    return "collect" in names if hooks else entry.get("type", "online") == "online"


def hooks_of(entry: dict[str, Any]) -> list[Any]:
    hooks = entry.get("hooks", entry.get("workflow_hooks")) or []
    return [hooks] if isinstance(hooks, str) else list(hooks)


def cut(entry: dict[str, Any], caps: dict[str, int]) -> None:
    """Numbers above their caps, in place; what is not a number is left to who checks it."""
    for key in caps.keys() & entry.keys():
        if type(entry[key]) is int:
            entry[key] = min(entry[key], caps[key])


def smaller(value: Any, cap: int) -> Any:
    """The cap, unless the value is a number below it already; "auto" and null count as large."""
    return value if isinstance(value, int | float) and value < cap else cap
