"""Memory of big tensors on a CPU."""

from __future__ import annotations

import ctypes
import sys

MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # names in glibc's malloc.h
LARGEST = 1 << 30  # bytes; anything larger still comes straight from the system
KEPT = 2**31 - 1


def set_malloc_thresholds() -> bool:
    """Lets glibc use the memory of freed big tensors again, instead of fresh pages from the system each time.

    Without it every tensor above 32 MB is mapped, zeroed page by page, used once and given back: a fifth of the time of
    a large world model. Returns whether this system has such a switch.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(set_option(MMAP_THRESHOLD, LARGEST)) and bool(set_option(TRIM_THRESHOLD, KEPT))
