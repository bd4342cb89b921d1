"""Taking a command line apart: our own options here, everything with a dot for the config."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rl_lightning.errors import ConfigError, RLError
from rl_lightning.runs.config.aliases import Place, advice, named_classes, short_flag, verb_advice
from rl_lightning.runs.config.catalog import argument_names
from rl_lightning.runs.config.flags.bare_flags import needs_value
from rl_lightning.runs.config.flags.usual_config import usual_config
from rl_lightning.runs.config.keys import GROUPS, TOP
from rl_lightning.runs.config.own_options.declared import OwnOption, option_for
from rl_lightning.runs.request import Request
from rl_lightning.runs.store.names import did_you_mean

# The run group has a short flag per key. (A test holds this list against RunConfig.)
RUN_KEYS = (
    "name", "tags", "env_steps", "updates", "eval_every", "eval_episodes", "eval_max_steps", "final_episodes",
    "save_every", "save_minutes", "milestone_every", "max_hours",
)  # fmt: skip
OWN_OPTIONS = ("fit", "sweep")  # commands that take what a config declares for itself
SHORT = {key: f"run.{key}" for key in RUN_KEYS} | {"seed": "seed_everything"}


@dataclass
class ParsedArgs:
    """A command line in three parts.

    Args:
        words: Arguments that are not options.
        values: Our own options; those that repeat keep every value.
        config_flags: The rest, as `--key=value`, for the config.
        options: Those that the config declares for itself, by name.
        raw: The command line as it was.
    """

    words: list[str] = field(default_factory=list)
    values: dict[str, list[str]] = field(default_factory=dict)
    config_flags: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    raw: list[str] = field(default_factory=list)

    @property
    def configs(self) -> list[str]:
        """Names and files of configs; for a model alone the one that it is published with."""
        return usual_config([*self.words, *self.all("config")], self.config_flags)

    def request(self, small: bool = False, verb: str = "fit") -> Request:
        """The same for the engine, which knows no command line."""
        return Request(
            overrides=self.config_flags,
            overlays=self.all("config"),
            imports=self.all("import"),
            command=self.raw,
            verb=verb,
            group=self.get("group"),
            checkpoint=self.get("checkpoint"),
            begin=self.get("from"),
            only=self.get("only"),
            render=self.get("render"),
            debug=self.has("debug"),
            small=small,
            reset_lr=self.has("reset_lr"),
        )

    def has(self, name: str) -> bool:
        return self.values.get(name, ["false"])[-1].lower() not in ("false", "0", "no")

    def get(self, name: str) -> str | None:
        return self.values[name][-1] if name in self.values else None

    def all(self, name: str) -> list[str]:
        return self.values.get(name, [])

    def integer(self, name: str, default: int, least: int = 1) -> int:
        text = self.get(name)
        if text is None:
            return default
        if not re.fullmatch(r"-?\d{1,12}", text) or int(text) < least:
            raise ConfigError(f"--{name} takes a whole number of at least {least}, not '{text}'")
        return int(text)

    def number(self, name: str) -> float | None:
        text = self.get(name)
        try:
            return None if text is None else float(text)
        except ValueError:
            raise ConfigError(f"--{name} takes a number, not '{text}'") from None

    def numbers(self, name: str, default: Sequence[float]) -> list[float]:
        """A list like 0.1,1."""
        text = self.get(name)
        if text is None:
            return list(default)
        try:
            return [float(part) for part in text.split(",")]
        except ValueError:
            raise ConfigError(f"--{name} takes numbers with commas between them, not '{text}'") from None


def normalize(words: list[str]) -> list[str]:
    """Both spellings of an option: --dry-run becomes --dry_run; its value is left alone. Seeds may stand apart."""
    words = [re.sub(r"^--[^=\s]+", lambda m: "--" + m.group()[2:].replace("-", "_"), word) for word in words]
    if "--seeds" in words:
        start = words.index("--seeds") + 1
        seeds = list(itertools.takewhile(re.compile(r"\d+(-\d+)?").fullmatch, words[start:]))
        words[start : start + len(seeds)] = [",".join(seeds)] if seeds else []
    return words


def parse(
    words: list[str],
    takes: Iterable[str] = (),
    switches: Iterable[str] = (),
    config: bool = False,
    command: str = "",
) -> ParsedArgs:
    """Takes a command line apart.

    Args:
        words: The command line after the command.
        takes: Our options that need a value.
        switches: Our options that stand alone.
        config: Whether options for the config are accepted too.
        command: For messages.
    """
    takes, switches = set(takes), {*switches, "debug"}
    parsed = ParsedArgs(raw=list(words))
    queue = list(normalize(words))
    unknown: dict[str, str | None] = {}
    bare: list[tuple[str, str]] = []
    while queue:
        word = {"-c": "--config"}.get(queue[0], queue[0])
        queue.pop(0)
        if not word.startswith("--"):
            parsed.words.append(check_word(word) if config else word)
            continue
        name, argument = _option(word, queue, switches)
        if name == "seed" and "seeds" in takes and re.search(r"\d\s*[,-]", argument or ""):
            name = "seeds"  # several
        if name in takes and argument is None:
            raise ConfigError(f"--{name} needs a value")
        key = config_key(name) if config else None
        if name in takes or name in switches:
            parsed.values.setdefault(name, []).append("true" if argument is None else argument)
        elif key:
            bare += [(name, key)] if argument is None else []
            parsed.config_flags.append(f"--{key}={'true' if argument is None else argument}")
        else:
            unknown[name] = argument
    if command in OWN_OPTIONS:
        unknown = take_own_options(parsed, unknown)
    if unknown:  # the rest of the line tells which config it is about
        raise ConfigError(
            _refusal(next(iter(unknown)), takes | switches, parsed if config else None, command)
        )
    check_bare(bare, parsed)
    return parsed


def take_own_options(parsed: ParsedArgs, words: dict[str, str | None]) -> dict[str, str | None]:
    """Notes what the config declares for itself; returns the other words."""
    from rl_lightning.runs.config.compose import implied_options

    others = {}
    options = known_options(parsed) if words or parsed.config_flags else {}
    if options:
        parsed.options |= implied_options(parsed.configs, parsed.config_flags)
    for word, value in words.items():
        name = option_for(word, options)
        if name is None:
            others[word] = value
        elif value is None:
            raise ConfigError(f"--{word} needs a value")
        else:
            parsed.options[name] = value
    return others


def _option(word: str, queue: list[str], switches: set[str]) -> tuple[str, str | None]:
    """Name and value of an option; a value of its own word is taken from the queue."""
    name, equals, value = word[2:].partition("=")
    if equals:
        return name, value
    if name in switches or not queue or queue[0].startswith("--"):
        return name, None
    value = queue.pop(0)
    check_whole(name, value, queue)
    return name, value


def known_options(parsed: ParsedArgs) -> dict[str, OwnOption]:
    """What the configs of a command line declare for themselves, as far as it can be known."""
    from rl_lightning.runs.config.compose import own_options

    try:
        return own_options(parsed.configs)
    except RLError:
        return {}


def check_bare(bare: list[tuple[str, str]], parsed: ParsedArgs) -> None:
    """Refuses options without a value that are no switches."""
    for name, key in bare:
        if needs_value(key, known_classes(parsed)):
            raise ConfigError(f"--{name} needs a value")


def check_word(word: str) -> str:
    """The word, unless it is an option as Hydra writes it."""
    key, equals, value = word.partition("=")
    if equals and config_key(key):
        raise ConfigError(f"{word}: an option begins with two dashes: --{key} {value}")
    return word


def check_whole(name: str, value: str, following: list[str]) -> None:
    """Refuses a list or mapping that was typed with spaces and without quotes."""
    rest = list(itertools.takewhile(lambda word: not word.startswith("--"), following))
    opening = value[:1]
    if opening in ("[", "{") and value.count(opening) != value.count({"[": "]", "{": "}"}[opening]):
        whole = " ".join([value, *rest])
        raise ConfigError(f"--{name} {value} is cut at a space; put it in quotes: --{name} '{whole}'")


def config_key(name: str) -> str | None:
    """The option of the config that a flag stands for."""
    if name in TOP or name.split(".")[0] in (*GROUPS, "stages"):
        return name
    return SHORT.get(name) or short_flag(name)


def classes_of(parsed: ParsedArgs) -> dict[str, str]:
    """The model and data class of the configs and flags on a command line."""
    from rl_lightning.runs.config.compose import compose

    classes = named_classes(compose(parsed.configs, parsed.options))
    for flag in parsed.config_flags:
        key, _, value = flag[2:].partition("=")
        if key.removesuffix(".class_path") in ("model", "data"):
            classes[key.split(".")[0]] = value
    return classes


def known_classes(parsed: ParsedArgs) -> dict[str, str]:
    """The same as far as it can be known: no config may be meant, or one that does not exist."""
    try:
        return classes_of(parsed)
    except RLError:
        return {}


def _refusal(name: str, own: set[str], parsed: ParsedArgs | None, command: str) -> str:
    """Another library's word is told first, then what is near; `parsed` where options of a config are taken."""
    if parsed is None:
        hint = verb_advice(name, command, own) or did_you_mean(name, sorted(own))
    else:
        classes = known_classes(parsed)
        hint = (
            _dotted(name, classes)
            or advice(name, Place(classes))
            or did_you_mean(name, sorted(own | {*SHORT, *TOP, *known_options(parsed)}))
        )
    return f"rl {command} has no option '--{name}'{hint or f'; see: rl {command} --help'}"


def _dotted(name: str, classes: dict[str, str]) -> str:
    """ "; it is --model.lr": an option of the config's own classes, without the group it stands in."""
    word = name.replace("-", "_")
    groups = [group for group, cls in sorted(classes.items()) if word in argument_names(cls)]
    if word == "env" or len(groups) != 1:
        return ""  # of an env its id is meant
    return f"; it is --{groups[0]}.{word}"


def seed_list(text: str) -> list[int]:
    """`0-4` or `1,2,5` or a mixture of both."""
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:\s*-\s*(\d{1,9}))?\s*", part)
        if not match:
            raise ConfigError(f"--seeds '{text}': write a range (0-4) or a list (1,2,5)")
        first, last = int(match.group(1)), int(match.group(2) or match.group(1))
        if last < first or last - first >= 1000:
            raise ConfigError(f"--seeds '{text}': {first}-{last} is not a range of at most 1000 seeds")
        seeds.extend(range(first, last + 1))
    doubled = sorted({seed for seed in seeds if seeds.count(seed) > 1})
    if doubled:
        raise ConfigError(f"--seeds '{text}': seed {doubled[0]} is there twice")
    return seeds
