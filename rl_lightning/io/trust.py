"""Whose code may be named by what a user hands over: a config, an env id, an artifact."""

# Packages that `--import` or `imports=[...]` named; env workers import them, too.
ALLOWED_IMPORTS: set[str] = set()


def why_not_loaded(error: Exception) -> str:
    """What was wrong with a file of tensors, without torch's advice to load it all the same."""
    lines = str(error).splitlines() or [type(error).__name__]
    if "weights_only" in str(error) or "Weights only" in str(error):
        return "it holds more than tensors and plain values, which could run code"
    return lines[0] if len(lines[0]) <= 160 else lines[0][:160].rpartition(" ")[0] + " ..."
