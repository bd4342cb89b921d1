"""A new run: named, built, recorded and trained."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl_lightning.errors import ConfigError
from rl_lightning.redaction import redact
from rl_lightning.runs.config.compose import Config
from rl_lightning.runs.engine.folder import Ended, claim_once, forget, is_first, join, start_record
from rl_lightning.runs.engine.init_distributed import init_distributed, run_lock
from rl_lightning.runs.recording.missing import record_missing_data
from rl_lightning.runs.request import Request
from rl_lightning.runs.store.names import check_run_name, slug
from rl_lightning.runs.store.run_folder import Run, claim, logs_root

if TYPE_CHECKING:
    from rl_lightning.runs.config.build import RLCLI
    from rl_lightning.runs.engine.run_start import RunStart


def train(
    cli: RLCLI,
    request: Request,
    name: str | None,
    stem: str,
    run: Run | None = None,
    start: RunStart | None = None,
    started: Callable[[], None] | None = None,
) -> Ended:
    """Builds, trains and closes the run's record, whatever happens."""
    from rl_lightning.runs.config.places import check_places
    from rl_lightning.runs.engine.fit_session import FitSession, debug_monitor
    from rl_lightning.runs.pipeline.stage_artifact import leave_artifact

    check_places(cli.config.trainer, cli.flags)
    note_settled(cli)
    saved = cli.plain()
    if request.render:
        watch(cli, request.render)
    if not has_end(cli) and not has_phases(cli):
        raise ConfigError("the run has no end: give it --env_steps, --updates or --max_hours")
    if start is None:
        from rl_lightning.runs.engine.run_start import start_from

        start = start_from(cli.config.ckpt_path, cli.config.resume_mode, request.reset_lr)
    record_missing_data(cli.config)
    cli.build()
    init_distributed()
    is_new, fresh = run is None, run is None and is_first()
    if run is None:
        run = join() or claim_once(name, stem)
    try:
        if fresh:
            start_record(run, saved, request)
        training = FitSession(cli, run, redact(saved), debug_monitor(run, request), start, started=started)
    except BaseException:
        forget(run, fresh)
        raise
    os.environ["RL_RUN_DIR"] = str(run.folder.resolve())  # ranks that Lightning starts join this run
    try:
        with run_lock(run) if is_new else nullcontext():
            code = training.fit()
            if code == 0 and is_first() and hands_on_frames(cli):
                leave_artifact(run, saved)
            if code == 0:
                close(cli, run, request)
            return Ended(code, run)
    except BaseException:
        forget(run, fresh)
        raise


def note_settled(cli: RLCLI) -> None:
    """What the env decides of the config, and a line about it."""
    from rl_lightning.runs.engine.settle import settle

    note = settle(cli)
    if note and is_first():
        print(f"note: {note}", file=sys.stderr)


def close(cli: RLCLI, run: Run, request: Request, which: str = "last") -> None:
    """The closing evaluation of a finished policy, by one process alone."""
    if cli.config.run.final_episodes is None or not is_first():
        return
    from rl_lightning.runs.agents.evaluate_agent import final_evaluation

    line = final_evaluation(run, request, which)
    if line:
        print(line, flush=True)


def hands_on_frames(cli: RLCLI) -> bool:
    from rl_lightning.datamodules.frame_data import FrameCollectionData

    return isinstance(cli.datamodule, FrameCollectionData)


def has_end(cli: RLCLI) -> bool:
    """Whether there is any budget, of the run's or the Trainer's."""
    run, trainer = cli.config.run, cli.config.trainer
    own = (run.env_steps, run.updates, run.max_hours, trainer.get("max_time"))
    return (
        any(budget is not None for budget in own)
        or any((trainer.get(name) or -1) > 0 for name in ("max_steps", "max_epochs"))
        or bool(trainer.get("fast_dev_run"))
    )


def has_phases(cli: RLCLI) -> bool:
    """Phases may end a run. They themselves see to it that they do: only with the module are their hooks known."""
    own = cli.config.trainer.callbacks or []
    names = [item.class_path for item in (own if isinstance(own, list) else [own])]
    return any(name.rpartition(".")[2] == "Phases" for name in names)


def given_name(request: Request, config: Config) -> str | None:
    """The name that flags or config ask for, checked; None for a fresh one."""
    named = [flag.partition("=")[2] for flag in request.overrides if flag.startswith("--run.name=")]
    name: Any = named[-1] if named else (config.get("run") or {}).get("name")
    return None if name is None or name == "null" else check_run_name(str(name))


def check_name_free(name: str) -> None:
    """Says so before torch is loaded; `claim` decides for good."""
    if (logs_root() / name).exists():
        claim(name, name)


def stem_of(names: list[str], config: Config) -> str:
    """What a fresh name is made of: a pipeline's own name, the first config (a run's own gives the run's stem), or the
    algorithm."""
    if "stages" in config and config.get("name"):
        return check_run_name(str(config["name"]))
    if not names:
        return slug(str((config.get("model") or {}).get("class_path", "run")).rpartition(".")[2].lower())
    path = Path(names[0])
    if path.name in ("config.yaml", "config.yml") and path.parent.name:
        return slug(path.parent.name).rstrip("0123456789").rstrip("-") or "run"
    return slug(path.stem if path.suffix in (".yaml", ".yml") and path.is_file() else names[0])


def steps_an_env(cli: RLCLI) -> bool:
    """Whether training steps the env itself, not recorded rows nor a learned world."""
    arguments = cli.data_arguments()
    return "vectorization" in arguments and "world_from" not in arguments


def watch(cli: RLCLI, mode: str) -> None:
    """One env that draws itself while it trains."""
    check_display(mode)
    arguments = cli.data_arguments()
    if "env" not in arguments:
        raise ConfigError("--render: this data has no env to draw")
    arguments.env.kwargs = {**(arguments.env.kwargs or {}), "render_mode": mode}
    for key, value in (("num_envs", 1), ("vectorization", "sync")):
        if key in arguments:
            arguments[key] = value


def check_display(mode: str) -> None:
    if mode != "human":
        raise ConfigError(f"--render takes human, not '{mode}'")
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise ConfigError("--render human: there is no display here; `rl play RUN` writes an mp4 instead")
