"""What is written down of a run when it starts."""

from __future__ import annotations

import json
import platform
import shutil
import uuid
from importlib import metadata
from pathlib import Path
from typing import Any

from rl_lightning.redaction import redact
from rl_lightning.runs.store.artifact_hashes import artifacts_of
from rl_lightning.runs.store.code_state import code_state
from rl_lightning.runs.store.run_folder import Run, digest, now

FIRST_CONFIG = "config-first.yaml"  # of a run that was continued with other settings: those it began with
UNHASHED = ("seed_everything", "name", "log", "ckpt_path", "config_version")
_VERSIONS = ("rl-lightning", "torch", "lightning", "gymnasium", "numpy", "mujoco", "ale-py", "dm_control")


def new_record(
    config: dict[str, Any],
    group: str | None,
    command: list[str],
    threads: int | None,
    folder: Path | None = None,
) -> dict[str, Any]:
    """What is known of a run when it starts; changes of the code since its commit go into its folder."""
    model, data = config.get("model") or {}, config.get("data") or {}
    environment = (data.get("init_args") or {}).get("env") or {}
    run = config.get("run") or {}
    return {
        "id": uuid.uuid4().hex[:12],
        "algorithm": str(model.get("class_path", "")).rpartition(".")[2],
        "env": environment.get("id") if isinstance(environment, dict) else environment,
        "seed": config.get("seed_everything"),
        "group": group,
        "tags": redact(run.get("tags") or []),
        "status": "started",
        "created": now(),
        "command": command,
        "config_hash": config_hash(config),
        "threads": threads,
        "versions": versions(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "git": code_state(folder),
        "artifacts": artifacts_of(config),
        "env_step": 0,
        "update": 0,
        "best": None,
        "last10": None,
    }


def config_hash(config: dict[str, Any]) -> str:
    """Equal for runs that differ in seed, name, tags, logging or folders, and in nothing else."""
    settings = {key: value for key, value in redact(config).items() if key not in UNHASHED}
    run = settings.get("run")
    if isinstance(run, dict):
        settings["run"] = {key: value for key, value in run.items() if key not in ("name", "tags")}
    return digest(_without_folders(settings))


def _without_folders(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_folders(item) for key, item in value.items() if key != "default_root_dir"}
    if isinstance(value, list | tuple):
        return [_without_folders(item) for item in value]
    return value.rpartition("/")[2] if isinstance(value, str) and value.startswith("/") else value


def note_resume(run: Run, config: dict[str, Any], changed: list[str]) -> None:
    """Notes where a run was resumed with other settings. Call it once the checkpoint is loaded, before they are kept.

    The settings it began with stay beside the new ones: with those alone can its beginning be made again.
    """
    first = run.folder / FIRST_CONFIG
    if not first.exists():
        shutil.copyfile(run.config_file, first)
    record = run.read()
    resumes = [*record.get("resumes", []), {**_clocks(run, record), "changed": changed}]
    run.update(resumes=resumes, config_hash=config_hash(config))


def _clocks(run: Run, record: dict[str, Any]) -> dict[str, int]:
    """Where the run stands: a record may be ahead of the checkpoint that a killed run resumes from."""
    there = [folder / "meta.json" for folder in run.checkpoints()[-1:]]
    known = json.loads(there[0].read_text(encoding="utf-8")) if there and there[0].is_file() else record
    return {clock: int(known.get(clock) or 0) for clock in ("env_step", "update")}


def versions() -> dict[str, str]:
    installed = {}
    for package in _VERSIONS:
        try:
            installed[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return installed
