"""How an alert reaches somebody: the terminal, a file, W&B, a program of the user's."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import Logger

from rl_lightning import distributed
from rl_lightning.errors import ConfigError
from rl_lightning.io.text import printable
from rl_lightning.loggers.media import is_wandb

VARIABLE = "RL_ALERT_COMMANDS"
PLACES = ("log", "wandb")
PATIENCE = 10.0  # seconds a program has left when the run ends
LONGEST = 2000


class AlertSender:
    """Sends alerts. A config that somebody else wrote cannot start programs: the user's environment names those it may.

    Args:
        places: log, wandb.
        command: Program and arguments.
    """

    def __init__(self, places: list[str], command: list[str] | None = None) -> None:
        unknown = [place for place in places if place not in PLACES]
        if unknown:
            raise ConfigError(f"Alerts.tell takes {' and '.join(PLACES)}, not '{unknown[0]}'")
        if command is not None and (not command or not all(isinstance(word, str) for word in command)):
            raise ConfigError("Alerts.command is a list of words: the program, then its arguments")
        self.destinations, self.command = places, command
        self.folder = Path.cwd()
        self.loggers: list[Logger] = []
        self.running: list[subprocess.Popen[bytes]] = []

    def open(self, folder: Path, loggers: list[Logger]) -> None:
        self.folder, self.loggers = folder, loggers
        if self.command is None:
            return
        allowed = [word for word in os.environ.get(VARIABLE, "").split(os.pathsep) if word]
        if self.command[0] not in allowed:
            raise ConfigError(
                f"this config wants to start '{printable(self.command[0])}' for its alerts. If you trust it:\n"
                f"{VARIABLE}={printable(self.command[0])} rl fit ..."
            )

    def send(self, name: str, text: str, stops: bool) -> None:
        """Never raises: an alert that cannot be sent is no reason to lose a run."""
        if not distributed.is_rank_zero():
            return
        text = printable(text)[:LONGEST]
        ending = "; the run ends" if stops else ""
        if "log" in self.destinations:
            print(f"alert {printable(name)}: {text}{ending}", file=sys.stderr, flush=True)  # noqa: T201
            self._write({"alert": name, "text": text, "stops": stops})
        if "wandb" in self.destinations:
            self._wandb(name, text)
        if self.command is not None:
            self._start(name, text)

    def _write(self, entry: dict[str, Any]) -> None:
        time = datetime.now(UTC).isoformat(timespec="seconds")
        with contextlib.suppress(OSError), open(self.folder / "alerts.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps({"time": time, **entry}) + "\n")

    def _wandb(self, name: str, text: str) -> None:
        for logger in self.loggers:
            if is_wandb(logger):
                try:
                    logger.experiment.alert(title=name, text=text)  # type: ignore[attr-defined]
                except Exception as error:  # whatever the network does
                    print(f"note: W&B did not take the alert ({error})", file=sys.stderr)  # noqa: T201

    def _start(self, name: str, text: str) -> None:
        assert self.command is not None
        values = {"{name}": name, "{text}": text, "{run}": self.folder.name}
        words = [_filled(word, values) for word in self.command[1:]]
        environment = {**os.environ, "RL_ALERT": name, "RL_ALERT_TEXT": text, "RL_RUN": str(self.folder)}
        environment = {key: value.replace("\0", "") for key, value in environment.items()}
        self.running = [process for process in self.running if process.poll() is None]
        try:
            nowhere = subprocess.DEVNULL
            process = subprocess.Popen(
                [self.command[0], *words], stdin=nowhere, stdout=nowhere, stderr=nowhere, env=environment
            )
            self.running.append(process)
        except (OSError, ValueError) as error:
            print(f"note: the alert's command did not start ({error})", file=sys.stderr)  # noqa: T201

    def close(self) -> None:
        for process in self.running:
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
        self.running = []


def _filled(word: str, values: dict[str, str]) -> str:
    """Each placeholder once, from the left: what is filled in is never read again."""
    out, rest = "", word.replace("\0", "")
    while rest:
        key = next((key for key in values if rest.startswith(key)), None)
        out += values[key].replace("\0", "") if key else rest[0]
        rest = rest[len(key) if key else 1 :]
    return out
