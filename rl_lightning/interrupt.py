"""A stop that was asked for. Blocks end in their own time; one that takes too long is abandoned, not saved."""

from __future__ import annotations

import time

PATIENCE = 8.0  # seconds that a block may still take after a signal


class BlockAbandoned(Exception):
    """The current block did not end in time; the run goes on from its last checkpoint, with the same bits."""


_asked_at: float | None = None


def ask() -> None:
    global _asked_at
    _asked_at = time.monotonic()


def clear() -> None:
    global _asked_at
    _asked_at = None


def poll() -> None:
    """Called from inner loops: raises if a stop was asked for longer ago than patience allows."""
    if _asked_at is not None and time.monotonic() - _asked_at > PATIENCE:
        raise BlockAbandoned
