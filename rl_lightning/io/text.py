"""Numbers and names for people."""

import unicodedata


def short(value: float) -> str:
    """A number in at most seven characters: 31k, 1.2M, 487, 0.031."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            scaled = value / (1e3 if unit == "k" else limit)
            return f"{scaled:.3g}{unit}"
    return f"{value:.4g}"


def printable(text: str) -> str:
    """Text that cannot move the cursor, colour the terminal, break a row or turn the line around."""
    if text.isascii() and text.isprintable():
        return text
    return "".join("�" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in text)
