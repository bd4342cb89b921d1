"""Runs on games of Atari 100k as that benchmark's table: raw scores, human-normalised ones, published agents beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rl_lightning.analysis.plot import read_curve
from rl_lightning.analysis.stats_table import Table, interval
from rl_lightning.datasets import atari100k
from rl_lightning.errors import ResumeError, RLError
from rl_lightning.functional import score_statistics
from rl_lightning.io.score_counts import is_few

if TYPE_CHECKING:
    from rl_lightning.runs.store.run_folder import Run

METRIC = "eval/return"


def atari_tables(groups: Mapping[str, Sequence[Run]]) -> list[Table]:
    """Scores by game, and their aggregates; nothing where no run played one of the games."""
    final, best = game_scores(groups)
    return [] if not final else [by_game(final, best), aggregates(final)]


def game_scores(groups: Mapping[str, Sequence[Run]]) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """The last and the best evaluation of every run, by game, in the benchmark's order."""
    final: dict[str, list[float]] = {}
    best: dict[str, list[float]] = {}
    for run in {run.folder: run for runs in groups.values() for run in runs}.values():
        try:
            game = atari100k.game_of(str(run.read().get("env")))
            values = read_curve(run, METRIC).y if game is not None else []
        except (RLError, ResumeError, OSError, ValueError):
            continue
        if game is not None and values:
            final.setdefault(game, []).append(values[-1])
            best.setdefault(game, []).append(max(values))
    order = [game for game in atari100k.GAMES if game in final]
    return {game: final[game] for game in order}, {game: best[game] for game in order}


def by_game(final: Mapping[str, Sequence[float]], best: Mapping[str, Sequence[float]]) -> Table:
    others = {agent: atari100k.published(agent) for agent in atari100k.AGENTS}
    rows: list[list[Any]] = []
    for game, values in final.items():
        mean = score_statistics.mean(values)
        normal = float(atari100k.human_normalized(game, mean))
        row: list[Any] = [
            game,
            *atari100k.bounds(game),
            len(values),
            mean,
            score_statistics.mean(best[game]),
            normal,
        ]
        rows.append([*row, *(others[agent].get(game) for agent in atari100k.AGENTS)])
    columns = ["game", "random", "human", "runs", "ours", "ours, best", "ours, human = 1", *atari100k.AGENTS]
    notes = [
        "ours is each run's last evaluation; the best of many evaluations is not a fair score, and stands beside it",
        "published scores are means of final agents, but MBARC's: the best of about 190 evaluations of one run",
    ]
    return Table(columns, rows, "Atari 100k", notes)


def aggregates(final: Mapping[str, Sequence[float]]) -> Table:
    """Human-normalised, over the games that ours played; agents that lack one of them are marked."""
    few = is_few(min(map(len, final.values())))
    estimates = {
        name: row if not few else (row[0], None, None) for name, row in atari100k.aggregate(final).items()
    }
    rows: list[list[Any]] = [
        ["ours", len(final), *(interval(*estimates[name]) for name in ("mean", "median", "iqm"))]
    ]
    for agent in atari100k.AGENTS:
        known = atari100k.published(agent)
        normal = np.array([float(atari100k.human_normalized(g, known[g])) for g in final if g in known])
        if normal.size:
            iqm = published_iqm(agent, normal)
            rows.append(
                [agent, normal.size, score_statistics.mean(normal), score_statistics.median(normal), iqm]
            )
    notes = [
        f"over {len(final)} of the {len(atari100k.GAMES)} games; "
        + (
            "fewer than five runs of a game: no interval"
            if few
            else "95% intervals by drawing runs anew within each game"
        ),
        "IQM over runs, as papers report it; where single runs are not known it is 'derived' from games' means",
    ]
    return Table(["agent", "games", "mean", "median", "IQM"], rows, "Atari 100k, human-normalised", notes)


def published_iqm(agent: str, normal: np.ndarray) -> float | str:
    """Over runs where that was published for just these games; else over games' means, and marked so."""
    if normal.size == len(atari100k.GAMES) and agent in atari100k.IQM_OVER_RUNS:
        return atari100k.IQM_OVER_RUNS[agent]
    return f"{score_statistics.iqm(normal):.3f} (derived)"
