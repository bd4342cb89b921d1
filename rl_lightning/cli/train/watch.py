"""`rl watch`."""

from __future__ import annotations

import math
import shutil
import sys
import time

from rl_lightning.analysis.watch_run import watch_run
from rl_lightning.cli.flags import ParsedArgs, parse
from rl_lightning.errors import ConfigError, RLError

CLEAR = "\x1b[2J\x1b[H"


def watch(words: list[str]) -> int:
    """a run's curve and status while it trains

    usage: rl watch RUN [options]

    A run while it trains: curve, clocks, speed, time left, alerts; a pipeline, a group of seeds or a sweep, too.
    Ctrl-C ends the watching, not the run.

      rl watch ppo-cartpole-1
      rl watch ppo-cartpole-1 --metric train/loss

      --metric NAME           (default eval/return; of runs without returns their score or loss)
      --interval SECONDS      between two looks (default 2)
      --once                  look once
    """
    parsed = parse(words, ("metric", "interval"), ("once",), command="watch")
    if len(parsed.words) != 1:
        raise ConfigError("rl watch takes one run, group or sweep; see them with: rl list")
    once = parsed.has("once") or not sys.stdout.isatty()
    try:
        return _look(parsed, once, _seconds(parsed))
    except KeyboardInterrupt:
        print(f"\nstopped watching; {parsed.words[0]} itself was left alone", file=sys.stderr)
        return 130


def _look(parsed: ParsedArgs, once: bool, interval: float) -> int:
    while True:
        width = max(30, min(72, shutil.get_terminal_size((100, 24)).columns - 14))
        text, over = watch_run(
            parsed.words[0], parsed.get("metric") or watched_metric(parsed.words[0]), width
        )
        print(text if once else CLEAR + text, flush=True)
        if once or over:
            return 0
        time.sleep(interval)


def watched_metric(word: str) -> str:
    """Returns; of a run that has none its score or loss."""
    from rl_lightning.analysis.plot import USUAL, usual_metric

    try:
        return usual_metric([word])
    except RLError:  # a sweep, or a run that is not there yet
        return USUAL[0]


def _seconds(parsed: ParsedArgs) -> float:
    try:
        value = float(parsed.get("interval") or 2.0)
    except ValueError:
        value = math.nan
    if not 0.1 <= value <= 3600:
        raise ConfigError(f"--interval takes seconds between 0.1 and 3600, not '{parsed.get('interval')}'")
    return value
