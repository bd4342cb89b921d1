"""`rl data`: what data sets there are, whether they are sound, and how to come by more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rl_lightning.cli.flags import Parsed, parse
from rl_lightning.cli.tools import table
from rl_lightning.errors import ConfigError, DataError
from rl_lightning.experiments.names import did_you_mean
from rl_lightning.runs.recording.bar import Bar


def data(words: list[str]) -> int:
    actions = {
        "list": list_data, "info": info, "check": check, "make": make, "convert": convert, "get": get,
        "publish": publish,
    }  # fmt: skip
    if not words or words[0] not in actions:
        wrong = f"rl data has no '{words[0]}'" if words else "rl data what?"
        hint = (did_you_mean(words[0], actions) if words else "") or f"; one of: {', '.join(actions)}"
        raise ConfigError(f"{wrong}{hint}")
    return actions[words[0]](words[1:])


def list_data(words: list[str]) -> int:
    parsed = parse(words, takes=("format",), switches=("all",), command="data")
    from rl_lightning.datasets.places import D4RL_FILES
    from rl_lightning.datasets.summary import shelves

    found = shelves()
    if _json(parsed):
        print(
            json.dumps(
                [{"folder": shelf.folder, "files": shelf.files} for shelf in found], indent=2, default=str
            )
        )
        return 0
    for shelf in found:
        print(f"{shelf.folder}{'' if shelf.files else '  (empty)'}")
        if shelf.files:
            rows = [{key: value for key, value in row.items()} for row in shelf.files]
            print(table(rows))
        print()
    if parsed.has("all"):
        there = {row["name"] for shelf in found for row in shelf.files}
        names = [f"d4rl/{name}" for name in D4RL_FILES if f"d4rl/{name}" not in there]
        print("rl data get fetches any of these:\n" + "\n".join(f"  {name}" for name in names))
    elif not any(shelf.files for shelf in found):
        print("record some with: rl data make local/pendulum-random --rows 20000")
    return 0


def info(words: list[str]) -> int:
    parsed = parse(words, takes=("format",), command="data")
    name = _one(parsed, "info")
    from rl_lightning.datasets.load import load_raw
    from rl_lightning.datasets.summary import episode_table

    raw, data = load_raw(name)
    episodes = episode_table(raw)
    mean_return = episodes.mean_return
    found: dict[str, Any] = {
        "name": data.name,
        "sha256": data.sha256,
        "env": data.spec.env_id or None,
        "rows": data.rows,
        "episodes": len(episodes.returns),
        "mean_return": mean_return,
        "mean_length": float(episodes.lengths.mean()),
        "obs": list(data.obs.shape),
        "action": list(data.action.shape),
        "action_kind": data.spec.action_kind,
        "terminals": int(data.terminated.sum()),
        "reference": data.reference._asdict() if data.reference else None,
        "score": data.reference.score(mean_return) if data.reference else None,
    }
    if _json(parsed):
        print(json.dumps({**found, "metadata": data.about}, indent=2, default=str))
        return 0
    if data.reference is not None:
        low, high, kind = data.reference
        found["reference"] = f"{low:.6g} to {high:.6g} ({kind})"
    for title, part in (("", found), ("metadata", data.about)):
        if title and part:
            print(f"\n{title}")
        width = max((len(key) for key in part), default=0)
        for key, value in part.items():
            print(f"  {key.ljust(width)}  {_shown(value)}")
    return 0


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value if value is not None else "-")
    return text if len(text) <= 200 else text[:200] + "..."


def check(words: list[str]) -> int:
    parsed = parse(words, command="data")
    name = _one(parsed, "check")
    from rl_lightning.datasets.checks import examine
    from rl_lightning.datasets.load import sha256_of
    from rl_lightning.datasets.places import locate

    source = locate(name)
    findings = examine(source)
    print(f"{name} · {source.path} · sha256 {sha256_of(source)[:16]}")
    for finding in findings:
        print(f"{' BAD' if finding.bad else '    '} {finding.topic:<10} {finding.text}")
        for line in finding.more:
            print(f"{'':16}{line}")
    bad = [finding.topic for finding in findings if finding.bad]
    print(f"look at: {', '.join(bad)}" if bad else "all is well")
    return DataError.exit_code if bad else 0


def convert(words: list[str]) -> int:
    takes = ("action_low", "action_high", "env", "max_episode_steps")
    parsed = parse(words, takes=takes, switches=("drop_bad",), command="data")
    if len(parsed.words) != 2:
        raise ConfigError("rl data convert needs two files: rl data convert OLD.npz NEW.hdf5")
    from rl_lightning.datasets.convert import convert as run

    low, high = (parsed.numbers(key, []) for key in ("action_low", "action_high"))
    if bool(low) != bool(high):
        raise ConfigError("--action_low and --action_high belong together")
    limit = _number(parsed, "max_episode_steps")
    if limit is not None and (limit < 1 or limit != int(limit)):
        raise ConfigError(f"--max_episode_steps is {limit:g}; it must be a whole number above 0")
    path, rows, dropped = run(
        parsed.words[0],
        Path(parsed.words[1]).expanduser(),
        (low, high) if low else None,
        parsed.has("drop_bad"),
        parsed.get("env"),
        None if limit is None else int(limit),
    )
    print(f"{rows} rows -> {path}" + (f" ({dropped} bad rows left out)" if dropped else ""))
    return 0


def get(words: list[str]) -> int:
    parsed = parse(words, takes=("url",), command="data")
    name = _one(parsed, "get")
    from rl_lightning.datasets import download

    url, path = download.target_of(name)
    url = parsed.get("url") or url
    if path.is_file():
        known, found = download.recorded_digest(path), download.file_digest(path)
        if known is not None and known != found:
            raise DataError(
                f"{path}: its sha256 differs from when it was fetched: damaged. Delete it and fetch it again"
            )
        print(f"{path} is here already (sha256 {found})")
        return 0
    digest = download.fetch(
        url, path, Bar("MB", 1e6), begin=lambda size: print(_coming(url, size), flush=True)
    )
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB, sha256 {digest} (kept in {path.name}.sha256)")
    return 0


def _coming(url: str, size: int) -> str:
    return f"{url} ({size / 1e6:.1f} MB)" if size else f"{url} (of unknown size)"


def make(words: list[str]) -> int:
    from rl_lightning.cli.data_make import make as run

    return run(words)


def publish(words: list[str]) -> int:
    from rl_lightning.cli.data_make import publish as run

    return run(words)


def _one(parsed: Parsed, command: str) -> str:
    if len(parsed.words) != 1:
        raise ConfigError(f"rl data {command} needs one data set; see them with: rl data list")
    return parsed.words[0]


def _json(parsed: Parsed) -> bool:
    form = parsed.get("format") or "text"
    if form not in ("text", "json"):
        raise ConfigError(f"--format takes text or json, not '{form}'")
    return form == "json"


def _number(parsed: Parsed, name: str) -> float | None:
    text = parsed.get(name)
    try:
        return None if text is None else float(text)
    except ValueError:
        raise ConfigError(f"--{name} takes a number, not '{text}'") from None
