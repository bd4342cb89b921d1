"""The `rl` command."""

from rl_lightning.cli.main import main

__all__ = ["main"]
