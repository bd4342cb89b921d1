"""What --debug does to a parsed config: the same run in seconds."""

from __future__ import annotations

from typing import Any

from rl_lightning.clock.phases import ALIASES

# Upper bounds of keys of run, and of model.init_args and data.init_args; what a flag sets is left alone.
RUN_CAPS = {
    "env_steps": 200, "updates": 50, "eval_every": 100, "eval_episodes": 2, "final_episodes": 2, "save_every": 100,
}  # fmt: skip
INIT_CAPS = {
    "num_envs": 2,
    "rollout_steps": 32,
    "batch_size": 32,
    "minibatch_size": 32,
    "learning_starts": 64,
    "pretrain": 4,
    "train_every": 64,
    "n_epochs": 2,
    "buffer.init_args.capacity": 2000,
}
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
        needed = run[key] is not None or key == "eval_every"
        if needed and f"run.{key}" not in own_keys:
            run[key] = smaller(run[key], cap)
    for group in ("model", "data"):
        arguments = config[group].get("init_args")
        for key, cap in INIT_CAPS.items():
            if arguments and key in arguments and f"{group}.{key.replace('init_args.', '')}" not in own_keys:
                arguments[key] = smaller(arguments[key], cap)
    if not any(key.startswith("trainer.callbacks") for key in own_keys):
        shrink_phases(phases, run)


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
