"""Numbers and names for people."""

import math
import unicodedata


def short(value: float) -> str:
    """A number in at most seven characters: 31k, 1.2M, 487, 0.031."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            scaled = value / (1e3 if unit == "k" else limit)
            return f"{scaled:.3g}{unit}"
    return number(value)


def number(value: float) -> str:
    """Four digits that count, and all that stand before the point: 0.03125, 487.3, 12503."""
    text = f"{value:.4g}"
    return f"{value:.0f}" if "e" in text and 1 <= abs(value) < 1e7 else text


def file_size(count: float) -> str:
    """Bytes as 512 bytes, 34 kB, 1.7 MB, 2.3 GB."""
    for limit, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= limit:
            return f"{count / limit:.3g} {unit}" if count < 1000 * limit else f"{count / limit:.0f} {unit}"
    return f"{count:.0f} bytes"


def score(value: float, scale: float | None = None) -> str:
    """A score with as many decimals as its scale asks for: 487.3, 9.52, 0.731; never -0.0.

    Args:
        value: The score.
        scale: The largest of the scores that stand beside it; null: its own size.
    """
    size = abs(value if scale is None else scale)
    if not math.isfinite(size) or not math.isfinite(value):
        return str(value)
    decimals = 1 if size >= 10 or size == 0 else min(8, 2 - math.floor(math.log10(size)))
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def clock_time(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def counted(number: int, what: str) -> str:
    """1 thread, 2 threads."""
    return f"{number} {what}" + ("" if number == 1 else "s")


def printable(text: str) -> str:
    """Text that cannot move the cursor, colour the terminal, break a row or turn the line around."""
    if text.isascii() and text.isprintable():
        return text
    return "".join("�" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in text)
