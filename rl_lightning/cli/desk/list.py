"""`rl list`."""

from __future__ import annotations

from rl_lightning.analysis.listing import KINDS, RunQuery, check_format, list_names, list_runs
from rl_lightning.cli.flags import parse
from rl_lightning.cli.outputs import terminal_edge
from rl_lightning.errors import ConfigError
from rl_lightning.runs.config import catalog
from rl_lightning.runs.store.names import did_you_mean


def list_things(words: list[str]) -> int:
    """runs, or: rl list groups | pipelines | configs | algorithms | envs

    usage: rl list [runs | groups | pipelines | configs | algorithms | envs] [WORD...] [options]

    Without a word: the runs here, with algorithm, env, status, env_step, best and last-10 score.

      rl list
      rl list --filter algorithm=SAC --filter 'eval/return>400' --sort best --limit 10
      rl list --filter model.lr=3e-4 --columns name,model.lr,eval/return --format csv
      rl list groups                means over seeds
      rl list pipelines             with their stages
      rl list configs cartpole
      rl list algorithms PPO        its options
      rl list envs Hopper

      --filter KEY=VALUE      also != > >= < <= and ~ (contains); KEY is a field of the record (algorithm, env, status,
                              seed, group, tags, created), a setting (model.lr, data.env.id, model.network) or a metric
                              (train/loss: its newest value; eval/return and reward: the best evaluation). Repeatable
      --sort KEY              scores, metrics and clocks highest first (losses lowest), all else in order; without it
                              newest first
      --reverse               the other way round
      --limit N               the first N
      --columns A,B           these keys instead of the usual columns
      --format table|json|csv
    """
    takes = ("filter", "sort", "format", "limit", "columns")
    parsed = parse(words, takes=takes, switches=("reverse",), command="list")
    kind, search = (parsed.words[0], parsed.words[1:]) if parsed.words else ("runs", [])
    if kind not in KINDS:
        hint = did_you_mean(kind, KINDS) or f"; one of: {', '.join(KINDS)}"
        raise ConfigError(f"rl list knows no '{kind}'{hint}")
    form = check_format(parsed.get("format") or "table")
    if kind in ("runs", "groups", "pipelines"):
        query = RunQuery(
            filters=parsed.all("filter"),
            sort=parsed.get("sort"),
            reverse=parsed.has("reverse"),
            limit=parsed.integer("limit", 0) if parsed.get("limit") else None,
            columns=[word.strip() for word in (parsed.get("columns") or "").split(",") if word.strip()],
        )
        text = list_runs(kind, query, form, terminal_edge())
    elif kind == "algorithms" and len(search) == 1 and catalog.find(search[0]):
        from rl_lightning.cli.help import class_help

        text = class_help(search[0], "model").lstrip()
    else:
        text = list_names(kind, search, form, terminal_edge())
    print(text)
    return 0
