"""`rl watch`: a run's curve and status while it trains. Needs no torch."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from rl_lightning.analysis.plot import Curve, in_characters, read_curve
from rl_lightning.errors import RLError
from rl_lightning.io.text import number, printable, short
from rl_lightning.runs.config.compose import compose
from rl_lightning.runs.store.run_folder import Run, alive, logs_root, resolve_group
from rl_lightning.sweep.trial_scores import history

ENDED = ("finished", "failed", "diverged", "interrupted", "stopped")


def watch_run(name: str, metric: str, width: int = 72) -> tuple[str, bool]:
    """What there is to see, and whether nothing more will come.

    Args:
        name: A run, group, pipeline or sweep.
        metric: Whose curve is drawn.
        width: Of the curve, in characters.
    """
    folder = logs_root() / name if (logs_root() / name).is_dir() else Path(name)
    if (folder / "sweep.yaml").is_file():
        return watch_sweep(folder)
    runs = [stage_of(run) for run in resolve_group(name)]
    lines = [status_line(run) for run in runs]
    curves = [curve for run in runs if (curve := curve_of(run, metric))]
    picture = in_characters(curves, metric, width) if curves else f"no value of {metric} yet"
    warnings = [line for run in runs for line in alerts(run.folder)]
    over = all(status(run.read()) in ENDED for run in runs)
    return "\n".join([picture, "", *lines, *warnings]), over


def stage_of(run: Run) -> Run:
    """Of a pipeline the stage that is at work, or was last."""
    if not (run.folder / "pipeline.json").is_file():
        return run
    stages = [path.parent for path in run.folder.glob("*/run.json") if ".old" not in path.parent.name]
    return Run(max(stages, key=lambda path: (path / "run.json").stat().st_mtime)) if stages else run


def curve_of(run: Run, metric: str) -> Curve | None:
    try:
        return read_curve(run, metric)
    except (RLError, OSError, ValueError):
        return None  # none yet, or the file is being widened


def status(record: dict[str, Any]) -> str:
    said = str(record.get("status") or "unknown")
    return "stopped" if said in ("running", "started") and not alive(record) else said


def status_line(run: Run) -> str:
    """Name, state, clocks, speed, scores and the time that is left."""
    record = run.read()
    clock, now, budget = progress(run, record)
    parts = [
        f"{run.name}: {status(record)}",
        f"{clock} {short(now)}" + (f"/{short(budget)}" if budget else ""),
    ]
    speed = last_value(run, f"time/{clock}s_per_s")
    if speed is not None:
        parts.append(f"{short(speed)} {'steps' if clock == 'env_step' else 'updates'}/s")
    for key in ("best", "last10"):
        if isinstance(record.get(key), int | float):
            parts.append(f"{key} {number(record[key])}")
    memory = last_value(run, "time/memory_gb")
    if memory is not None:
        parts.append(f"{memory:.2g} GB")
    if speed and budget and status(record) == "running":
        left = int(max(0.0, budget - now) / speed)
        parts.append(f"about {left // 3600}:{left // 60 % 60:02d}:{left % 60:02d} left")
    return " · ".join(parts)


def progress(run: Run, record: dict[str, Any]) -> tuple[str, float, float | None]:
    """The run's clock, where it stands, and its budget."""
    try:
        budgets = compose([str(run.config_file)]).get("run") or {}
    except RLError:
        budgets = {}
    clock = "env_step" if budgets.get("env_steps") or not budgets.get("updates") else "update"
    last = last_value(run, clock)
    now = max(float(record.get(clock) or 0), last or 0.0)
    budget = budgets.get(f"{clock}s")
    return clock, now, float(budget) if isinstance(budget, int | float) else None


def last_value(run: Run, metric: str) -> float | None:
    values = history(run.folder / "metrics.csv").get(metric)
    return values[-1] if values and math.isfinite(values[-1]) else None


def alerts(folder: Path, count: int = 3) -> list[str]:
    """The last alerts of a run."""
    try:
        lines = (folder / "alerts.jsonl").read_text(encoding="utf-8", errors="replace").splitlines()[-count:]
    except OSError:
        return []
    texts = []
    for line in lines:
        try:
            entry = json.loads(line)
            text = f"alert {entry['alert']}: {entry['text']} ({entry['time']})"
        except (ValueError, KeyError, TypeError):
            continue
        texts.append(printable(text))
    return texts


def watch_sweep(folder: Path) -> tuple[str, bool]:
    """Its trainings, and how far each is."""
    pattern = f"{folder.name}-[0-9][0-9][0-9]*-s*"
    runs = [Run(path.parent) for path in sorted(folder.parent.glob(f"{pattern}/run.json"))]
    states = [status(run.read()) for run in runs]
    counts = ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states)))
    working = [
        status_line(stage_of(run)) for run, state in zip(runs, states, strict=True) if state == "running"
    ]
    lines = [f"sweep {folder.name}: {counts or 'no training has begun'}", *working]
    best = folder / "best.yaml"
    if best.is_file():
        lines.append(best.read_text(encoding="utf-8", errors="replace").splitlines()[0].lstrip("# "))
    return "\n".join(lines), bool(runs) and not working
