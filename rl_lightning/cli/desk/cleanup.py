"""`rl cleanup`."""

from __future__ import annotations

import sys

from rl_lightning.cli.flags import ParsedArgs, parse
from rl_lightning.cli.outputs import note
from rl_lightning.errors import ConfigError


def cleanup(words: list[str]) -> int:
    """make room: drop checkpoints of runs that are neither good nor recent

    usage: rl cleanup [--keep-best N] [--keep-recent DAYS] [options]

    Deletes checkpoints, replay, videos and event files of runs that are neither among the best nor recent. Configs,
    records and metrics stay; runs that run, runs whose artifact or weights another run takes, and links are not
    touched.

      rl cleanup --keep-best 10 --keep-recent 30 --dry-run

      --keep-best N           the N best runs of every task stay
      --keep-recent DAYS      runs that changed within so many days stay
      --metric NAME           what the best are chosen by (default: last10, its mean, which no lucky
                              evaluation lifts; best is the best evaluation)
      --dry-run               only say what would go (also: --dry_run --keep_best --keep_recent)
      --yes                   do not ask
    """
    parsed = parse(words, ("keep_best", "keep_recent", "metric"), ("dry_run", "yes"), command="cleanup")
    if parsed.words:
        raise ConfigError(f"rl cleanup takes no run ('{parsed.words[0]}'): it goes over all below the logs")
    best, days = _count(parsed, "keep_best"), _count(parsed, "keep_recent")
    if best is None and days is None:
        raise ConfigError(
            "rl cleanup needs to know what to keep: --keep-best 10, --keep-recent 30 (days), or both"
        )
    from rl_lightning.analysis.cleanup import carry_out, plan
    from rl_lightning.runs.store.index import Index
    from rl_lightning.runs.store.run_folder import artifacts_dir

    with Index() as index:
        decided = plan(index, best, days, parsed.get("metric") or "last10")
    print(decided)
    if parsed.has("dry_run") or not decided.to_delete:
        return 0
    if not parsed.has("yes") and not _agreed():
        print("nothing was deleted")
        return 0
    for line in carry_out(decided, index, [artifacts_dir()]):
        note(f"left alone: {line}")
    print("done")
    return 0


def _count(parsed: ParsedArgs, name: str) -> int | None:
    return parsed.integer(name, 0, least=0) if parsed.get(name) else None


def _agreed() -> bool:
    if not sys.stdin.isatty():
        raise ConfigError("nothing was deleted: look at the list above and type it again with --yes")
    return input("delete them? [y/N] ").strip().lower() in ("y", "yes")
