"""A run's config as flat settings: `model.lr`, `data.env.id`, `model.network.hidden_dims`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rl_lightning.redaction import redact, secret_name

MAX_BYTES = 1_000_000
MAX_SETTINGS = 20_000
# What differs between two runs without making them two experiments.
INCIDENTAL = ("seed_everything", "run.name", "run.tags", "ckpt_path", "resume_mode", "name")


def read_settings(path: Path) -> dict[str, Any]:
    """The settings of a config.yaml; empty if it is missing, no config or hostile."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
        config = yaml.load(raw.decode("utf-8"), loader) if len(raw) <= MAX_BYTES else None
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValueError, RecursionError):
        return {}
    settings = flatten(config) if isinstance(config, dict) else {}
    return {key: _hidden(key, value) for key, value in settings.items()}


def _hidden(key: str, value: Any) -> Any:
    """A run of an older version, or of somebody else, may have written a secret down."""
    name = next(filter(secret_name, key.split(".")), "")
    if isinstance(value, list):  # of plain values; one that is nested may stand for billions of them
        return [redact(item, name) if isinstance(item, str) else item for item in value]
    return redact(value, name) if isinstance(value, str | int | float) else value


def flatten(config: dict[Any, Any]) -> dict[str, Any]:
    """Dotted keys without `init_args`; a stage is called by its name. Empty if there are far too many."""
    flat: dict[str, Any] = {}
    visits = 0

    def walk(value: Any, key: str) -> None:
        nonlocal visits
        visits += 1
        if visits > MAX_SETTINGS:
            raise OverflowError
        if isinstance(value, dict) and value:
            for name, item in value.items():
                walk(item, key if name == "init_args" else f"{key}.{name}".lstrip("."))
        elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
            for place, item in enumerate(value):
                name = item.get("name", place) if isinstance(item, dict) else place
                walk(item, f"{key}.{name}")
        else:
            flat[key] = value

    try:
        walk(config, "")
    except (OverflowError, RecursionError):  # aliases of aliases stand for billions of settings
        return {}
    return flat


def short_class(path: Any) -> str:
    return str(path).rpartition(".")[2]


def setting(settings: dict[str, Any], key: str) -> Any:
    """One setting; of an object with a class, the short name of that."""
    key = key.replace(".init_args", "")
    if key in settings:
        value = settings[key]
        return short_class(value) if key.endswith("class_path") else value
    path = settings.get(f"{key}.class_path")
    return None if path is None else short_class(path)


def varying(many: list[dict[str, Any]]) -> list[str]:
    """Keys whose values are not the same in all of several configs; incidental ones are left out."""
    keys = dict.fromkeys(key for settings in many for key in settings)
    return [
        key
        for key in keys
        if not key.startswith("log.")
        and key not in INCIDENTAL
        and any(settings.get(key) != many[0].get(key) for settings in many[1:])
    ]
