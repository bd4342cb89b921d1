"""A stop that was asked for. Blocks end in their own time; one that takes too long is abandoned, not saved."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE = 8.0  # seconds that a block may still take after a signal
GRACE = 1.0  # more for one that waits where nobody polls: then it is raised out of there
LAST = 5.0  # more for one that Python cannot leave, e.g. inside a simulator: then the process ends
EXIT = {signal.SIGINT: 130, signal.SIGTERM: 143}


class BlockAbandoned(BaseException):
    """The current block did not end in time; the run resumes from its last checkpoint, with the same bits.

    No Exception: it may be raised inside an env's step, where code of the user's catches those.
    """


class StoppedBySignal(SystemExit):
    """SIGTERM, or a cluster's warning, where nothing trains that would have to be saved first."""


@contextmanager
def signals_raise() -> Iterator[None]:
    """While it lasts a SIGTERM raises, as Ctrl-C does; who trains has handlers of its own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: Any) -> None:
        raise StoppedBySignal(EXIT.get(signal.Signals(number), 143))

    previous = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGUSR1)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


_asked_at: float | None = None
_over = threading.Event()  # the stop has happened: whoever watches may leave
_late = False
_shields = 0


def request_stop(number: int | None = None, farewell: Callable[[], None] | None = None) -> None:
    """Notes that a stop is wanted; where a signal asks for it, also sees to it that it comes.

    Args:
        number: The signal, whose handler raises where `late`.
        farewell: Called before the process is ended because nothing else helped.
    """
    global _asked_at, _over, _late
    _asked_at, _late, _over = time.monotonic(), False, threading.Event()
    if number is not None:
        threading.Thread(target=_see_to_it, args=(number, _over, farewell), daemon=True).start()


def block_ended() -> None:
    """The block ended by itself: what follows, saving and closing, takes the time it takes."""
    _over.set()


def clear() -> None:
    global _asked_at, _late
    _asked_at, _late = None, False
    _over.set()


def raise_if_stopped() -> None:
    """Called from inner loops: raises if a stop was asked for longer ago than patience allows."""
    if _asked_at is not None and time.monotonic() - _asked_at > PATIENCE:
        raise BlockAbandoned


def late() -> bool:
    """Called by the handler of the signal: whether it is the one that must end the block now."""
    return _late and not _shields


@contextmanager
def shield() -> Iterator[None]:
    """While it lasts nothing is raised: what is being saved is finished."""
    global _shields
    _shields += 1
    try:
        yield
    finally:
        _shields -= 1


def _see_to_it(number: int, over: threading.Event, farewell: Callable[[], None] | None) -> None:
    """Waits beside the run; a signal to the main thread ends whatever that one waits for."""
    global _late
    if over.wait(PATIENCE + GRACE):
        return
    while _shields:
        if over.wait(0.05):
            return
    _late = True
    main = threading.main_thread().ident
    signal.pthread_kill(main or 0, number)
    if over.wait(LAST) or number == signal.SIGINT:  # a notebook's Ctrl-C ends no process
        return
    if farewell is not None:
        farewell()
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(EXIT.get(signal.Signals(number), 143))
