"""Numbers for people."""


def short(value: float) -> str:
    """A number in at most seven characters: 31k, 1.2M, 487, 0.031."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            scaled = value / (1e3 if unit == "k" else limit)
            return f"{scaled:.3g}{unit}"
    return f"{value:.4g}"
