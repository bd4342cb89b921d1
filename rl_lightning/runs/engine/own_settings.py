"""What a parsed config says that the defaults do not: the part of it that people read first."""

from __future__ import annotations

from typing import Any, NamedTuple

import yaml

from rl_lightning.redaction import redact
from rl_lightning.runs.config.build import RLCLI
from rl_lightning.runs.store.changed_settings import default_of, same
from rl_lightning.runs.store.flat_settings import flatten, short_class

WIDEST = 60  # characters of a value


class OwnSetting(NamedTuple):
    """A setting that is not the default.

    Args:
        key: Dotted, without init_args.
        value: Its value; of an object the name of its class.
        default: As text; empty where there is none.
    """

    key: str
    value: str
    default: str


def own_settings(cli: RLCLI) -> list[OwnSetting]:
    """In the order of the config."""
    settings = flatten(redact(cli.plain()))
    parser_defaults = flatten(cli.parser.get_defaults(skip_validation=True).as_dict())
    given = {
        *flatten(cli.base),
        *(flag[2:].partition("=")[0].replace(".init_args", "") for flag in cli.flags),
    }
    rows = []
    for key, value in settings.items():
        if key.endswith(".class_path"):
            rows.append(OwnSetting(key.removesuffix(".class_path"), short_class(value), ""))
            continue
        is_ours = key.startswith("trainer.") or "." not in key
        known, default = (True, parser_defaults.get(key)) if is_ours else default_of(key, settings)
        if known and not same(default, value):
            rows.append(OwnSetting(key, _cut(value), _cut(default)))
        elif not known and key in given:
            rows.append(OwnSetting(key, _cut(value), ""))
    return rows


def own_lines(cli: RLCLI) -> list[str]:
    """The same as aligned lines."""
    rows = own_settings(cli)
    key_width, width = (max((len(row[column]) for row in rows), default=0) for column in (0, 1))
    lines = [f"{row.key:<{key_width}}  {row.value:<{width}}  " for row in rows]
    notes = [f"(default {row.default})" if row.default else "" for row in rows]
    return [(line + note).rstrip() for line, note in zip(lines, notes, strict=True)]


def resolved(cli: RLCLI) -> str:
    """The whole config as YAML, below a comment with what differs from the defaults."""
    above = ["# differs from the defaults:", *(f"#   {line}" for line in own_lines(cli)), ""]
    return "\n".join(above) + yaml.safe_dump(redact(cli.plain()), sort_keys=False).rstrip()


def _cut(value: Any) -> str:
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 3]}..."
