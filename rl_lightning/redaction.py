"""Secrets in what a run writes down: one rule for records, configs, command lines, diffs and dashboards."""

from __future__ import annotations

import functools
import itertools
import os
import re
from collections.abc import Iterator
from typing import Any

REDACTED = "<redacted>"

_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
_STRONG = {
    "secret", "secrets", "password", "passwords", "passwd", "passphrase", "passcode", "pwd", "pgpass", "credential",
    "credentials", "creds", "auth", "oauth", "authorization", "bearer", "jwt", "apikey", "apitoken", "accesskey",
    "secretkey", "privatekey", "authtoken",
}  # fmt: skip
_WEAK = {"key", "token", "pass"}  # the last word of a name
_OWNERS = {
    "api",
    "access",
    "private",
    "signing",
    "encryption",
    "client",
    "account",
    "session",
    "refresh",
    "bot",
}
# What a key or token of data is called: not secret.
_DATA = {
    "obs", "observation", "observations", "image", "pixel", "pixels", "state", "goal", "render", "action", "info",
    "sort", "cls", "mask", "pad", "start", "end", "num", "n", "per", "first", "second", "dict",
}  # fmt: skip

_NAME = r"(?:api_?key|access_?key|secret|token|passw(?:or)?d|passphrase|credentials?)"
_VALUE = r"""("[^"\n]+"|'[^'\n]+'|(?=[^\s]*\d)[\w+/=~-]{8,}(?![\w.(\[]))"""
_NAMED = re.compile(rf"""({_NAME}\w*["']?\s*[:=]\s*){_VALUE}""", re.IGNORECASE)
_SHAPED = re.compile(
    r"(?<![A-Za-z0-9])(?:AKIA[0-9A-Z]{16}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abprs]-[\w-]{10,}"
    r"|hf_\w{20,}|sk-[\w-]{16,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*)|\b[0-9a-f]{40}\b(?=[\"'])"
)
_IN_URL = re.compile(r"(://[^\s/:@]*):(?!\d{1,5}(?:[/?#\s]|$))(?!\$\{\w+\}@)\S*@")
_KEY_BLOCK = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
_ASSIGNED = re.compile(r"(?<![\w.-])([\w.-]+)=([^&;\s]+)")
_HEADER = re.compile(r"\b(bearer|basic)(\s+)[\w.~+/=-]{8,}", re.IGNORECASE)
# Most settings have nothing of the kind: looked at once, before the patterns above.
_SUSPECT = re.compile(
    r"://|=|-----|AKIA|gh[pousr]_|github_pat_|glpat-|xox|hf_|sk-|eyJ|bearer|basic", re.IGNORECASE
)
_REFERENCE = re.compile(r"\$\{([A-Za-z_]\w*)(?::[^}]*)?\}")

_references: dict[str, str] = {}  # value that came from an environment variable -> the text that named it


@functools.lru_cache(maxsize=4096)
def secret_name(name: str, number: bool = False) -> bool:
    """Whether a key, an option or a variable is called like one that holds a secret: apiToken, access_key_id.

    A number below a mere `key` is an index.
    """
    words = [word.lower() for word in _WORDS.findall(name)]
    if any(word in _STRONG for word in words) or words == ["pass"]:
        return True
    pairs = itertools.pairwise(words)
    if any(owner in _OWNERS and thing.rstrip("s") in ("key", "token") for owner, thing in pairs):
        return True
    weak = _WEAK - {"key"} if number else _WEAK
    return words[-1:] != [] and words[-1] in weak and (len(words) == 1 or words[-2] not in _DATA)


def scrub(text: str) -> str:
    """A setting's text without a password in a URL, a token by its shape, or the value of `api_key=...`."""
    if not _SUSPECT.search(text):
        return text
    text = _IN_URL.sub(rf"\1:{REDACTED}@", _KEY_BLOCK.sub(REDACTED, text))
    text = _HEADER.sub(rf"\1\2{REDACTED}", _SHAPED.sub(REDACTED, text))
    return _ASSIGNED.sub(lambda m: f"{m[1]}={REDACTED}" if secret_name(m[1]) else m[0], text)


def without_secrets(text: str) -> str:
    """A diff or other long text without what looks like a key, a token or a password, by its name or its shape."""
    text = _IN_URL.sub(rf"\1:{REDACTED}@", _KEY_BLOCK.sub(REDACTED, text))
    return _SHAPED.sub(REDACTED, _NAMED.sub(rf"\1{REDACTED}", text))


def keep_reference(value: Any, written: str) -> None:
    """Remembers that a secret value came from `${NAME}`: that is written down in its place."""
    _references[str(value)] = _REFERENCE.sub(r"${\1}", written)


def redact(value: Any, key: str = "") -> Any:
    """A copy in which everything below keys that look like secrets, and secrets inside texts, are blanked."""
    if isinstance(value, dict):
        below = secret_name(key)
        return {name: redact(item, key if below else str(name)) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [redact(item, key) for item in value]
    if value is None or isinstance(value, bool) or value == "":
        return value
    if not secret_name(key, number=isinstance(value, int | float)):
        shown: Any = scrub(value) if isinstance(value, str) else value
    elif isinstance(value, str) and _REFERENCE.fullmatch(value):
        return _REFERENCE.sub(r"${\1}", value)
    else:
        shown = REDACTED if isinstance(value, str | int | float) else value
    return value if shown is value or shown == value else (_reference(value) or shown)


def _reference(value: Any) -> str | None:
    """The `${NAME}` that stands for a value, as long as the variable is there."""
    written = _references.get(str(value), "")
    names = _REFERENCE.findall(written)
    return written if names and all(name in os.environ for name in names) else None


def redact_words(words: list[str]) -> list[str]:
    """A command line in which the values of options that look like secrets are blanked."""
    shown: list[str] = []
    hide = False
    for word in words:
        key, equals, value = word.partition("=")
        option = word.startswith("--")
        secret = option and any(secret_name(part) for part in key[2:].replace("-", "_").split("."))
        if hide and not option:
            shown.append(REDACTED)
        elif option and equals:
            shown.append(f"{key}={REDACTED if secret else _shown(value)}")
        else:
            shown.append(word if option else _shown(word))
        hide = secret and not equals
    return shown


def _shown(text: str) -> str:
    """The value of an option, which may be a whole mapping in YAML."""
    if text.lstrip()[:1] not in ("{", "["):
        return scrub(text)
    import yaml

    try:
        value = yaml.safe_load(text)
        hidden = redact(value)
    except (yaml.YAMLError, ValueError, RecursionError):
        return without_secrets(scrub(text))
    if hidden == value:
        return text
    return str(yaml.safe_dump(hidden, default_flow_style=True, sort_keys=False, width=10**6)).strip()


def redacted_keys(config: Any, key: str = "") -> list[str]:
    """Dotted keys of settings that were blanked when the config was written."""
    if isinstance(config, dict):
        inner = [(f"{key}.{name}".lstrip("."), item) for name, item in config.items()]
        return [redacted for name, item in inner for redacted in redacted_keys(item, name)]
    if isinstance(config, list | tuple):
        return [redacted for item in config for redacted in redacted_keys(item, key)]
    return [key.replace(".init_args", "")] if isinstance(config, str) and REDACTED in config else []


def secret_texts(value: Any, key: str = "", path: str = "") -> Iterator[tuple[str, str]]:
    """Path and text of every secret in the arguments of an env."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from secret_texts(
                item, key if secret_name(key) else str(name), f"{path}.{name}".lstrip(".")
            )
    elif isinstance(value, list | tuple):
        for place, item in enumerate(value):
            yield from secret_texts(item, key, f"{path}.{place}")
    elif isinstance(value, str) and len(value) >= 6 and secret_name(key):
        yield path, value
