"""`rl data list`, `info` and `check`: recorded data as text or JSON."""

from __future__ import annotations

import json
from typing import Any

from rl_lightning.analysis.listing import table
from rl_lightning.datasets.d4rl_files import D4RL_FILES
from rl_lightning.datasets.data_files import locate
from rl_lightning.datasets.load import load_raw, sha256_of
from rl_lightning.datasets.rows.checks import examine
from rl_lightning.datasets.summary import data_folders, episode_table


def list_datasets(form: str = "text", fetchable: bool = False, edge: int | None = None) -> str:
    """Folders of data and what is in them.

    Args:
        form: text or json.
        fetchable: Also the names of what can be fetched.
        edge: Column at which lines of a table are cut; null: nowhere.
    """
    folders = data_folders()
    if form == "json":
        entries = [{"folder": shelf.folder, "files": shelf.files} for shelf in folders]
        return json.dumps(entries, indent=2, default=str)
    lines = []
    for shelf in folders:
        lines.append(f"{shelf.folder}{'' if shelf.files else '  (empty)'}")
        lines += [table(shelf.files, edge), ""] if shelf.files else [""]
    if fetchable:
        there = {row["name"] for shelf in folders for row in shelf.files}
        names = [f"d4rl/{name}" for name in D4RL_FILES if f"d4rl/{name}" not in there]
        lines += ["rl data get fetches any of these:", *(f"  {name}" for name in names)]
        lines += ["and ogbench/NAME, minari/ID, hub:USER/REPO, hub:USER/REPO/FILE"]
    elif not any(shelf.files for shelf in folders):
        lines.append("record some with: rl data make local/pendulum-random --rows 20000")
    return "\n".join(lines)


def describe_dataset(name: str, form: str = "text") -> str:
    """Shapes, returns, references and metadata of a data set, as text or json."""
    raw, data = load_raw(name)
    episodes = episode_table(raw)
    about: dict[str, Any] = {
        "name": data.name,
        "sha256": data.sha256,
        "env": data.spec.env_id or None,
        "rows": data.rows,
        "episodes": len(episodes.returns),
        "mean_return": None if "rewards" in data.missing else episodes.mean_return,
        "mean_length": float(episodes.lengths.mean()),
        "obs": list(data.obs.shape),
        "action": list(data.action.shape),
        "action_kind": data.spec.action_kind,
        "terminals": int(data.terminated.sum()),
        "reference": data.reference._asdict() if data.reference else None,
        "score": data.reference.score(episodes.mean_return) if data.reference and not data.missing else None,
    }
    if form == "json":
        return json.dumps({**about, "metadata": data.about}, indent=2, default=str)
    if data.reference is not None:
        low, high, kind = data.reference
        about["reference"] = f"{low:.6g} to {high:.6g} ({kind})"
    lines = _pairs(about)
    return "\n".join([*lines, "", "metadata", *_pairs(data.about)] if data.about else lines)


def _pairs(values: dict[str, Any]) -> list[str]:
    width = max((len(key) for key in values), default=0)
    return [f"  {key.ljust(width)}  {_shown(value)}" for key, value in values.items()]


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value if value is not None else "-")
    return text if len(text) <= 200 else text[:200] + "..."


def check_dataset(name: str) -> tuple[str, bool]:
    """Every check as text, and whether all are well."""
    source = locate(name)
    findings = examine(source)
    lines = [f"{name} · {source.path} · sha256 {sha256_of(source)[:16]}"]
    for finding in findings:
        lines.append(f"{' BAD' if finding.bad else '    '} {finding.topic:<10} {finding.text}")
        lines += [f"{'':16}{line}" for line in finding.more]
    bad = [finding.topic for finding in findings if finding.bad]
    return "\n".join([*lines, f"look at: {', '.join(bad)}" if bad else "all is well"]), not bad
