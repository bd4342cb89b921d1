"""From config names to one plain dict: found, extended, overlaid, filled in. Needs no torch."""

from __future__ import annotations

import copy
import functools
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rl_lightning.errors import ConfigError
from rl_lightning.io.nearness import nearest
from rl_lightning.redaction import keep_reference, redact, secret_name
from rl_lightning.runs.config import yaml_io
from rl_lightning.runs.config.aliases import Place, advice, named_classes
from rl_lightning.runs.config.catalog import PACKAGE, argument_names, registry
from rl_lightning.runs.config.config_version import migrate
from rl_lightning.runs.config.keys import GROUPS
from rl_lightning.runs.config.own_options import declared
from rl_lightning.runs.config.own_options.laid import layer_of
from rl_lightning.runs.store.names import did_you_mean

Config = dict[str, Any]

STAGE_KEYS = (
    "model",
    "data",
    "run",
    "trainer",
    "log",
    "seed_everything",
    "threads",
    "matmul",
    "ckpt_path",
    "resume_mode",
)
PIPELINE_KEYS = ("stages", "name", "shared", "cycles", "overlay")
OPTIONS = declared.KEY
SWEEP_KEYS = ("base_config", "grid", "space")  # of a file for another command
_CONFIG_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::([^}]*))?\}")
_MAX_EXTENDS = 16
FORMER = "former"  # of a swapped class: the one it replaced, with its arguments
_SPEC = ("class_path", "init_args")


def compose(names: Iterable[str], given: Mapping[str, Any] | None = None) -> Config:
    """Several configs laid over each other, left to right, each with what it extends below it.

    What is laid over a pipeline waits under `overlay`: its plan knows which stages have such keys.

    Args:
        names: Shipped names or files.
        given: Options that a config declares for itself, by name; they win over all configs.
    """
    names, given = list(names), given or {}
    result: Config = {}
    for name in names:
        layer = load(name, given=given)
        if "stages" in result and "stages" not in layer:
            layer = {
                "overlay": {key: value for key, value in layer.items() if key in STAGE_KEYS},
                **{key: value for key, value in layer.items() if key in PIPELINE_KEYS},
            }
        result = merge(result, layer)
    options = declared.read_options(result.pop(OPTIONS, {}), " + ".join(names))
    declared.check_given(options, given, " + ".join(names) or "a config without a name")
    settings: Config = {}
    for option in options.values():  # in their own order: a class before what is set of it
        settings |= declared.settings_of(option, given[option.name]) if option.name in given else {}
    return fill_variables(merge(result, normalize(layer_of(result, settings))))


def own_options(names: Iterable[str]) -> dict[str, declared.OwnOption]:
    """The options that configs declare for themselves."""
    entries: Config = {}
    for name in names:
        entries = merge(entries, load(name).get(OPTIONS, {}))
    return declared.read_options(entries, " + ".join(names))


def implied_options(names: list[str], flags: Iterable[str]) -> dict[str, str]:
    """What flags ask of a table by its key; a config that is a row has chosen already."""
    rows = {name for root in config_roots() for name in rows_in(root)}
    return {} if rows.intersection(names) else declared.implied(own_options(names), flags)


def load(
    name: str,
    base: Path | None = None,
    _chain: tuple[Path, ...] = (),
    given: Mapping[str, Any] | None = None,
) -> Config:
    """One config with everything it extends, variables not yet filled in; options of its own stay in it."""
    path = find(name, base)
    if path in _chain:
        names = " -> ".join(item.stem for item in (*_chain, path))
        raise ConfigError(f"{path}: extends itself ({names})")
    if len(_chain) >= _MAX_EXTENDS:
        raise ConfigError(f"{path}: extends more than {_MAX_EXTENDS} configs deep")
    config = migrate(yaml_io.load(path), str(path))
    parents = config.pop("extends", [])
    parents = [parents] if isinstance(parents, str) else parents
    if not isinstance(parents, list) or not all(isinstance(parent, str) for parent in parents):
        raise ConfigError(f"{path}: extends takes a config name or a list of them")
    check_keys(config, path)
    result: Config = {}
    declares = OPTIONS in config
    for parent in parents:
        below = load(parent, path.parent, (*_chain, path), given)
        declares = declares or (OPTIONS in below and _has_nothing_to_set(below))
        result = merge(result, below)
    result = merge(result, normalize(config))
    if declares and not _has_nothing_to_set(result):
        return _with_options(result, path, name, given or {})
    return result


def _has_nothing_to_set(config: Config) -> bool:
    """Whether a config declares options for those that extend it."""
    return not {"stages", "model", "data"} & config.keys()


def _with_options(config: Config, path: Path, name: str, given: Mapping[str, Any]) -> Config:
    """The config as its own options' defaults have it, and the table's row that its name or an option asks for."""
    options = declared.read_options(config[OPTIONS], str(path))
    tables = [rows_in(root) for root in config_roots() if root.resolve() == path.parent]
    _, option, row = next((rows[name] for rows in tables if name in rows), (path, "", ""))
    chosen = {option: row, **given} if option else dict(given)
    config = merge(config, normalize(layer_of(config, declared.settings_below(options, chosen))))
    tabled = next((each for each in options.values() if each.rows), None)
    value = None if tabled is None else chosen.get(tabled.name, tabled.default)
    if tabled is not None and value is not None and "name" in config:
        config["name"] = f"{config['name']}-{declared.slug_of(str(declared.full_value(tabled, value)))}"
    return config


@functools.cache
def rows_in(root: Path) -> dict[str, tuple[Path, str, str]]:
    """What the tables of a folder's configs name: gormpo/hopper-medium-v2 -> file, option, row."""
    rows = {}
    for path in sorted(root.glob("*.yaml")):
        if f"\n{OPTIONS}:" not in path.read_text(encoding="utf-8"):
            continue
        for option in declared.read_options(yaml_io.load(path).get(OPTIONS, {}), str(path)).values():
            for slug, row in option.named_rows().items():
                rows[f"{path.stem}/{slug}"] = (path, option.name, row)
    return rows


def check_keys(config: Config, path: Path | str) -> None:
    for key in config:
        if key not in (*STAGE_KEYS, *PIPELINE_KEYS, OPTIONS):
            allowed = ("extends", *STAGE_KEYS, "stages", OPTIONS)
            hint = advice(str(key), Place(named_classes(config))) or did_you_mean(str(key), allowed)
            hint = "; this is a sweep: rl sweep --config FILE" if key in SWEEP_KEYS else hint
            hint = (
                "; what varies is grid: in a file for rl sweep, or rl sweep --grid.KEY A,B"
                if key == "sweep"
                else hint
            )
            hint = hint or f" (allowed: {', '.join(allowed)})"
            raise ConfigError(f"{path}: unknown key '{key}'{hint}")
        kind = (dict, str) if key in ("model", "data") else dict
        if key in GROUPS and config[key] is not None and not isinstance(config[key], kind):
            raise ConfigError(f"{path}: {key} holds `key: value` lines, not {config[key]!r:.40}")


def config_roots() -> list[Path]:
    """Where shipped configs are: the checkout this code runs from, or the installed package."""
    checkout = PACKAGE.parent
    roots = [checkout / "configs"] if (checkout / "pyproject.toml").is_file() else []
    return [root for root in (*roots, PACKAGE / "_configs") if root.is_dir()]


def shipped() -> dict[str, Path]:
    """Every shipped config by name, rows of tables by the file that holds the table."""
    configs: dict[str, Path] = {}
    for root in config_roots():
        for path in root.rglob("*.yaml"):
            configs.setdefault(path.relative_to(root).with_suffix("").as_posix(), path)
        for name, (path, _, _) in rows_in(root).items():
            configs.setdefault(name, path)
    return dict(sorted(configs.items(), key=lambda item: item[0].split("/")))


def find(name: str, base: Path | None = None) -> Path:
    """The file of a config: a path (relative to `base`, the file that names it), or a shipped name."""
    if not isinstance(name, str) or not name.strip() or "\0" in name:
        raise ConfigError(f"{name!r} is not a config; see them with: rl list configs")
    looks_like_path = name.endswith((".yaml", ".yml")) or name.startswith((".", "/", "~"))
    places = ([base / name] if base else []) + [Path(name).expanduser()]
    if looks_like_path:
        for path in places:
            if path.is_file():
                return path.resolve()
    if _CONFIG_NAME.fullmatch(name):
        stem = re.sub(r"\.ya?ml$", "", name)
        for root in config_roots():
            path = root / f"{stem}.yaml"
            if path.is_file():
                return path.resolve()
            if stem in rows_in(root):
                return rows_in(root)[stem][0].resolve()
    hint = _near(name)
    if looks_like_path:
        raise ConfigError(f"{name}: no such file{hint}")
    raise ConfigError(f"no config '{name}'{hint or '; see them with: rl list configs'}")


def _near(name: str) -> str:
    """A file beside the one that is meant, or a shipped config, of a similar name."""
    folder, _, file = name.rpartition("/")
    beside = Path(folder or ".").expanduser()
    files = [path.name for path in sorted(beside.glob("*.y*ml"))[:200]] if beside.is_dir() else []
    near = nearest(file, files, 1)
    if near:
        return f"; did you mean '{f'{folder}/' if folder else ''}{near[0]}'?"
    return did_you_mean(re.sub(r"^(.*/)?configs/|^\./|\.ya?ml$", "", name), shipped())


def normalize(config: Config) -> Config:
    """Writes shorthands out: `model: SAC` is a class_path, and a short name of ours becomes its full path."""
    config = {key: value for key, value in config.items() if not (key in GROUPS and value is None)}
    for key in ("model", "data"):
        if isinstance(config.get(key), str):
            config[key] = {"class_path": config[key]}
    expanded: Config = _expand_classes(config)
    data = expanded.get("data")
    arguments = data.get("init_args") if isinstance(data, dict) else None
    if isinstance(arguments, dict) and isinstance(arguments.get("env"), str):
        arguments["env"] = {"id": arguments["env"]}
    return expanded


def _beside(key: str, class_path: str, stray: str) -> str:
    names = argument_names(class_path)
    place = Place({key: class_path}, key, names)
    hint = "" if stray in names else advice(f"{key}.{stray}", place)
    return f"{key}: '{stray}' stands beside class_path; arguments go under init_args{hint}"


def check_specs(value: Any, key: str = "") -> None:
    """Refuses what the parser would misread: keys beside class_path, an env that is not a mapping."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            check_specs(item, f"{key}[{index}]")
    elif isinstance(value, dict):
        stray = [name for name in value if name not in ("class_path", "init_args", "dict_kwargs")]
        if "class_path" in value and stray:
            raise ConfigError(_beside(key, str(value["class_path"]), str(stray[0])))
        arguments = value.get("init_args", {})
        if "class_path" in value and not isinstance(arguments, dict):
            raise ConfigError(f"{key}.init_args: expected `key: value` lines, got {arguments!r:.40}")
        env = arguments.get("env") if isinstance(arguments, dict) else None  # null: data that name their own
        if key == "data" and env is not None and not isinstance(env, dict):
            raise ConfigError(f"data.env: expected an env id or `key: value` lines, got {env!r:.40}")
        for name, item in value.items():
            check_specs(item, f"{key}.{name}" if key else str(name))


def _expand_classes(value: Any, within_class: bool = False) -> Any:
    """Short names of classes of ours in full: torch has an RNN and an Adam, too."""
    if isinstance(value, dict):
        inside = within_class or "class_path" in value
        value = {key: _expand_classes(item, inside) for key, item in value.items()}
        if isinstance(value.get("class_path"), str):
            value["class_path"] = registry().get(value["class_path"], value["class_path"])
        return value
    if isinstance(value, list):
        return [_expand_classes(item, within_class) for item in value]
    return registry().get(value, value) if within_class and isinstance(value, str) else value


def merge(below: Config, above: Config, at: str = "") -> Config:
    """`above` laid over `below`: mappings merge, all else is replaced, another class forgets old arguments.

    Data of another class keep their `env`: it says which task, not how the class is set. What a model or data class
    replaces stays beside it under FORMER: whether it is a subclass, which keeps settings, is known once it is imported.
    """
    result = dict(below)
    if "class_path" in above and above["class_path"] != below.get("class_path", above["class_path"]):
        old_args = result.pop("init_args", None)
        result.pop("dict_kwargs", None)
        if at == "data" and isinstance(old_args, dict) and "env" in old_args:
            result["init_args"] = {"env": old_args["env"]}
        if at in ("model", "data") and old_args:
            result[FORMER] = copy.deepcopy({key: below[key] for key in (*_SPEC, FORMER) if key in below})
    for key, value in above.items():
        old = result.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            result[key] = merge(old, value, f"{at}.{key}".lstrip("."))
        elif key == "stages" and not at and isinstance(old, list) and isinstance(value, list):
            result[key] = merge_stages(old, value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def merge_stages(below: list[Any], above: list[Any]) -> list[Any]:
    """Stages of the same name merge in their place, new ones come after."""
    result = copy.deepcopy(below)
    places = {stage.get("name"): i for i, stage in enumerate(result) if isinstance(stage, dict)}
    for stage in above:
        place = places.get(stage.get("name")) if isinstance(stage, dict) else None
        if place is None:
            result.append(copy.deepcopy(stage))
        else:
            result[place] = merge(result[place], stage, "stages")
    return result


def choose_classes(config: Config, flags: list[str]) -> tuple[Config, list[str]]:
    """Applies the flags that choose a model, a data class or an env by the same rule; returns the other flags."""
    rest = []
    for flag in flags:
        key, _, value = flag[2:].partition("=")
        if key in ("model", "data", "model.class_path", "data.class_path"):
            config = merge(config, normalize({key.split(".")[0]: value}))
        elif key in ("data.env", "data.init_args.env"):
            env = yaml_io.loads(value, f"--{key}")
            config = merge(config, normalize({"data": {"init_args": {"env": env}}}))
        else:
            rest.append(flag)
    return config, rest


def inline(config: Config, base: Path) -> Config:
    """The pipeline with every stage's config in place of its name: a run's config.yaml stands alone."""
    stages = []
    for stage in config["stages"] if isinstance(config["stages"], list) else []:
        if isinstance(stage, dict) and isinstance(stage.get("config"), str | list):
            names = [stage["config"]] if isinstance(stage["config"], str) else stage["config"]
            whole: Config = {}
            for name in names:
                whole = merge(whole, load(name, base))
            stage = {**stage, "config": fill_variables(whole)}
        stages.append(stage)
    return {**config, "stages": stages}


def fill_variables(config: Config, key: str = "") -> Any:
    """Replaces ${NAME} and ${NAME:default} in values by environment variables.

    A config may be a stranger's: a variable that looks like a secret is filled in inside a URL alone.
    """
    if isinstance(config, dict):
        return {
            name: fill_variables(item, f"{key}.{name}" if key else str(name)) for name, item in config.items()
        }
    if isinstance(config, list):
        return [fill_variables(item, f"{key}[{index}]") for index, item in enumerate(config)]
    if not isinstance(config, str) or "${" not in config:
        return config

    def value_of(match: re.Match[str]) -> str:
        if secret_name(match.group(1)) and "://" not in config[: match.start()]:
            dotted = key.replace(".init_args", "")
            raise ConfigError(
                f"{key}: {match.group(1)} looks like a secret, and a config takes those into URLs alone; if you trust "
                f'it with that, give it yourself: --{dotted} "${match.group(1)}"'
            )
        value = os.environ.get(match.group(1), match.group(2))
        if value is None:
            raise ConfigError(
                f"{key}: environment variable {match.group(1)} is not set, and ${{...:default}} is missing"
            )
        return value

    filled = _VARIABLE.sub(value_of, config)
    value = yaml_io.scalar(filled) if _VARIABLE.fullmatch(config) else filled
    if redact(value, next(filter(secret_name, re.split(r"[.\[]", key)), "")) != value:
        keep_reference(value, config)  # what is written down names the variable, as the config did
    return value
