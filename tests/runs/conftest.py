"""The fixtures of run folders that are files only."""

from run_folders import add, logs, rl

__all__ = ["add", "logs", "rl"]
