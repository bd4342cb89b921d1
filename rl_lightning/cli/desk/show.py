"""`rl show`."""

from __future__ import annotations

from rl_lightning.analysis.show_run import show_run
from rl_lightning.cli.flags import parse
from rl_lightning.cli.outputs import terminal_edge
from rl_lightning.errors import ConfigError


def show(words: list[str]) -> int:
    """one run: scores, what differs from its config, checkpoints, how to resume

    usage: rl show RUN [--format text|json]

    One run: scores, clocks, what differs from the config it came from, checkpoints, stages, and how to resume.

      rl show ppo-cartpole-1

      --format text|json      (default text)
    """
    parsed = parse(words, ("format",), command="show")
    if len(parsed.words) != 1:
        raise ConfigError("rl show takes one run or group; see them with: rl list")
    form = parsed.get("format") or "text"
    if form not in ("text", "table", "json"):
        raise ConfigError(f"--format takes text or json, not '{form}'")
    print(show_run(parsed.words[0], form, terminal_edge()))
    return 0
