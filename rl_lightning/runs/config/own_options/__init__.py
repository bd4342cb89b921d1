"""Flags that a config declares for itself."""
