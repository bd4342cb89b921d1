"""Flags that a config declares for itself: `options:` maps a short name, its values and a help line to keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from rl_lightning.errors import ConfigError
from rl_lightning.runs.config import yaml_io
from rl_lightning.runs.config.aliases import meanings
from rl_lightning.runs.store.names import did_you_mean

KEY = "options"
_FIELDS = ("help", "sets", "values", "format", "default", "rows")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_STAGE = re.compile(r"stages\.\w+\.")


class OwnOption(NamedTuple):
    """One flag of a config.

    Args:
        name: As it is typed.
        help: What it is.
        sets: Dotted keys that take its value; `stages.NAME.KEY` is a key of one stage.
        values: What may be given: a list, or by name a value for `sets` or a mapping of keys; null: anything.
        format: What becomes of the value, `{}` standing for it: ALE/{}-v5.
        default: What holds where it is not given; null: what the stages say.
        rows: Settings by what is given, a name or a pattern with `*`: of options and of keys; all that match, in order.
    """

    name: str
    help: str
    sets: tuple[str, ...]
    values: Mapping[str, Any] | None
    format: str | None
    default: Any
    rows: Mapping[str, Mapping[str, Any]]

    def named_rows(self) -> dict[str, str]:
        """The rows that are no patterns, by what a config is called after them: hopper-medium-v2, bank-heist."""
        return {slug_of(row): row for row in self.rows if "*" not in row}

    @property
    def keys(self) -> list[str]:
        """What it is about, without the stages: the keys that it sets, or the first that its first value does."""
        chosen = () if self.sets or not self.values else next(iter(self.values.values()))
        return [_STAGE.sub("", key) for key in self.sets or list(chosen)[:1]]


def read_options(entries: Any, where: str) -> dict[str, OwnOption]:
    """The options of a config, by name."""
    if not isinstance(entries, Mapping):
        raise ConfigError(f"{where}: {KEY} maps names to {', '.join(_FIELDS)}")
    return {str(name): _read(str(name), entry, f"{where}: {KEY}.{name}") for name, entry in entries.items()}


def _read(name: str, entry: Any, where: str) -> OwnOption:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{where}: a name has small letters, digits and _")
    if not isinstance(entry, Mapping):
        raise ConfigError(f"{where} holds {', '.join(_FIELDS)}")
    for field in entry:
        if field not in _FIELDS:
            hint = did_you_mean(str(field), _FIELDS, 1) or f"; one of: {', '.join(_FIELDS)}"
            raise ConfigError(f"{where} has no '{field}'{hint}")
    sets, values, rows = entry.get("sets") or [], entry.get("values"), entry.get("rows") or {}
    keys = (sets,) if isinstance(sets, str) else tuple(sets)
    if isinstance(values, list):
        values = {_text(value): value for value in values}
    elif values is not None:
        values = {_text(value): each for value, each in values.items()}
    if not keys and not (values and all(isinstance(each, Mapping) for each in values.values())):
        raise ConfigError(
            f"{where}: say which keys it sets: `sets: KEY`, or `values: {{NAME: {{KEY: VALUE}}}}`"
        )
    if not isinstance(rows, Mapping) or not all(isinstance(row, Mapping) for row in rows.values()):
        raise ConfigError(f"{where}.rows maps a value to {{OPTION or KEY: VALUE}}")
    return OwnOption(
        name, str(entry.get("help", "")), keys, values, entry.get("format"), entry.get("default"), rows
    )


def settings_below(options: Mapping[str, OwnOption], given: Mapping[str, Any]) -> dict[str, Any]:
    """What a config is made of by its defaults, and by the row of the task that is given: {dotted key: value}."""
    chosen = {name: option.default for name, option in options.items() if option.default is not None}
    chosen |= {name: value for name, value in given.items() if name in options and options[name].rows}
    settings: dict[str, Any] = {}
    for name, value in chosen.items():
        settings |= settings_of(options[name], value)
    for name, value in chosen.items():
        settings |= row_settings(options, name, value)
    return settings


def row_settings(options: Mapping[str, OwnOption], name: str, value: Any) -> dict[str, Any]:
    """What the rows say of a value, options written out."""
    settings: dict[str, Any] = {}
    value = full_value(options[name], value)
    for pattern, row in options[name].rows.items():
        if fnmatchcase(str(value), pattern):
            for key, item in row.items():
                settings |= settings_of(options[key], item) if key in options else {key: item}
    return settings


def settings_of(option: OwnOption, value: Any) -> dict[str, Any]:
    """{dotted key: value} of one value."""
    value = full_value(option, value)
    if option.values is not None:
        text = _text(value)
        if text not in option.values:
            hint = did_you_mean(text, option.values, 1)
            raise ConfigError(f"--{option.name} takes {listed(option.values)}, not '{text}'{hint}")
        value = option.values[text]
        if not option.sets:
            return dict(value)
    elif option.format:
        value = option.format.format(value)
    elif isinstance(value, str) and not option.rows:
        value = yaml_io.loads(value, f"--{option.name}")
    return dict.fromkeys(option.sets, value)


def full_value(option: OwnOption, value: Any) -> Any:
    """The row that is meant by its last part or as a config is called: hopper-medium-v2, bank-heist; else the value."""
    if not isinstance(value, str) or value in option.rows:
        return value
    before, stands, after = (option.format or "").partition("{}")
    if stands and value.startswith(before) and value.endswith(after):
        value = value.removeprefix(before).removesuffix(after)  # written out already
    return option.named_rows().get(slug_of(value) if "/" not in value else value, value)


def option_for(word: str, options: Mapping[str, OwnOption]) -> str | None:
    """The option that a word is, or that stands for what another library calls so."""
    if word in options:
        return word
    for row in meanings(word):
        for name, option in options.items():
            if row.ours in (f"--{name}", *option.keys):
                return name
    return None


def implied(options: Mapping[str, OwnOption], flags: Iterable[str]) -> dict[str, str]:
    """Options whose table a flag asks for by their key: `--data.env.id X` is `--task X`."""
    values = dict(flag[2:].partition("=")[::2] for flag in flags)
    tabled = [option for option in options.values() if option.rows and len(option.sets) == 1]
    return {option.name: values[option.sets[0]] for option in tabled if option.sets[0] in values}


def check_given(options: Mapping[str, OwnOption], given: Iterable[str], where: str) -> None:
    """Refuses what no option of the config is."""
    for name in given:
        if name not in options:
            hint = did_you_mean(name, options, 1)
            hint = hint or (f"; it has {listed(options)}" if options else "")
            raise ConfigError(f"{where} has no option '{name}'{hint}")


def listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def slug_of(row: str) -> str:
    """d4rl/hopper-medium-v2 -> hopper-medium-v2, BankHeist -> bank-heist."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", Path(row).name).lower()


def _text(value: Any) -> str:
    """A value as it is typed: YAML reads `true` and 5 as what they are."""
    return str(value).lower() if isinstance(value, bool) else str(value)
