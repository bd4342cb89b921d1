"""Whose code may be named by what a user hands over: a config, an env id, an artifact."""

# Packages that `--import` or `imports=[...]` named; env workers import them, too.
ALLOWED_IMPORTS: set[str] = set()
