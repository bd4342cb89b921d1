"""A run that is made inside somebody's program leaves the program as it was."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def unchanged_process() -> Iterator[None]:
    """Puts back environment, signal handlers, warnings, threads, import path and the parser's settings."""
    import torch
    from jsonargparse import _common  # its settings have a setter, and no getter for all of them

    from rl_lightning.io.trust import ALLOWED_IMPORTS

    variables, filters, path = dict(os.environ), list(warnings.filters), list(sys.path)
    settings, allowed = _copied(_common.parsing_settings), set(ALLOWED_IMPORTS)
    threads = torch.get_num_threads()
    main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1) if main else ()
    handlers = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(variables)
        warnings.filters[:] = filters  # type: ignore[index]
        sys.path[:] = path
        _common.parsing_settings.clear()
        _common.parsing_settings.update(settings)
        ALLOWED_IMPORTS.clear()
        ALLOWED_IMPORTS.update(allowed)
        torch.set_num_threads(threads)
        for number, handler in handlers.items():
            if handler is not None:
                signal.signal(number, handler)


def _copied(settings: dict[str, Any]) -> dict[str, Any]:
    return {key: dict(value) if isinstance(value, dict) else value for key, value in settings.items()}
