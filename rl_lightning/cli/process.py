"""What the command `rl` changes of its own process, and nobody who imports the library: tips and warnings of others."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator

# Each by its full name: the filter of a logger does not see what its children say.
TALKERS = (
    "lightning",
    "lightning.pytorch",
    "lightning.pytorch.utilities.rank_zero",
    "lightning.fabric",
    "lightning.fabric.utilities.rank_zero",
    "lightning.fabric.utilities.distributed",
    "torch.distributed",
)
NO_PROMPT = {"PYGAME_HIDE_SUPPORT_PROMPT": "1"}


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Tips and deprecations of other packages, about which a user of the command can do nothing, are not shown."""
    variables = [name for name in _variables().items() if name[0] not in os.environ]
    os.environ.update(variables)
    loggers = [logging.getLogger(name) for name in TALKERS]
    for logger in loggers:
        logger.addFilter(_errors_only)  # a level would not last: Lightning sets its own when it is imported
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger in loggers:
            logger.removeFilter(_errors_only)
        for name, _ in variables:
            os.environ.pop(name, None)


def say_loading(what: str) -> None:
    """At a terminal, a word at once: torch and Lightning take seconds to load."""
    if sys.stderr.isatty() and "LOCAL_RANK" not in os.environ:
        print(f"{what} · loading torch and lightning", file=sys.stderr, flush=True)


def _variables() -> dict[str, str]:
    headless = sys.platform == "linux" and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
    # else SDL complains on the way to drawing off screen
    return NO_PROMPT | ({"SDL_VIDEODRIVER": "dummy"} if headless else {})


def _errors_only(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR
