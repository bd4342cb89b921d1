"""What --debug does to a parsed config: the same run in seconds."""

from __future__ import annotations

from typing import Any

# Upper bounds of keys of run, and of model.init_args and data.init_args; what a flag sets is left alone.
RUN_CAPS = {"env_steps": 200, "updates": 50, "eval_every": 100, "eval_episodes": 2, "save_every": 100}
INIT_CAPS = {
    "num_envs": 2,
    "rollout_steps": 32,
    "batch_size": 32,
    "minibatch_size": 32,
    "learning_starts": 64,
    "prefill": 128,  # some windows of a sequence
    "pretrain": 4,
    "train_every": 64,
    "epochs": 2,
    "buffer.init_args.capacity": 2000,
}


def shrink(config: Any, flags: list[str]) -> None:
    """Cuts budgets and sizes of a parsed config in place."""
    given = {flag[2:].partition("=")[0].replace("init_args.", "") for flag in flags}
    run = config.run
    if run.env_steps is None and run.updates is None:
        run.env_steps = RUN_CAPS["env_steps"]
    for key, cap in RUN_CAPS.items():
        needed = run[key] is not None or key == "eval_every"
        if needed and f"run.{key}" not in given:
            run[key] = smaller(run[key], cap)
    for group in ("model", "data"):
        arguments = config[group].get("init_args")
        for key, cap in INIT_CAPS.items():
            if arguments and key in arguments and f"{group}.{key.replace('init_args.', '')}" not in given:
                arguments[key] = smaller(arguments[key], cap)


def smaller(value: Any, cap: int) -> Any:
    """The cap, unless the value is a number below it already; "auto" and null count as large."""
    return value if isinstance(value, int | float) and value < cap else cap
