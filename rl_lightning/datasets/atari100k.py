"""Atari 100k: the games, what a random and a human player score, and what published agents reached after 100k steps.

Scores of agents are means over their runs, but for MBARC's, each the best of about 190 evaluations of a single run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from rl_lightning.functional import score_statistics

AGENTS = ("MBARC", "SimPLe", "SPR", "EfficientZero", "IRIS", "STORM", "DreamerV3", "DIAMOND", "BBF")
# game: random, human, then the agents in the order above; None where nothing was published
_TABLE: dict[str, tuple[float | None, ...]] = {
    "Alien": (227.8, 7127.7, 380.0, 616.9, 841.9, 808.5, 420.0, 983.6, 1003.2, 744.1, 1173.2),
    "Amidar": (5.8, 1719.5, 56.8, 74.3, 179.7, 148.6, 143.0, 204.8, 96.4, 225.8, 244.6),
    "Assault": (222.4, 742.0, 582.3, 527.2, 565.6, 1263.1, 1524.4, 801.0, 647.5, 1526.4, 2098.5),
    "Asterix": (210.0, 8503.3, 718.3, 1128.3, 962.5, 25558.0, 853.6, 1028.0, 979.7, 3698.5, 3946.1),
    "BankHeist": (14.2, 753.1, 40.3, 34.2, 345.4, 351.0, 53.1, 641.2, 353.4, 19.7, 732.9),
    "BattleZone": (
        2360.0,
        37187.5,
        None,
        4031.2,
        14834.0,
        13871.0,
        13074.0,
        13540.0,
        18850.0,
        4702.0,
        24460.0,
    ),
    "Boxing": (0.1, 12.1, None, 7.8, 35.7, 52.7, 70.1, 79.7, 79.7, 86.9, 85.8),
    "Breakout": (1.7, 30.5, None, 16.4, 19.6, 414.1, 83.7, 15.9, 8.9, 132.5, 370.6),
    "ChopperCommand": (811.0, 7387.8, 1020.0, 979.4, 946.3, 1117.3, 1565.0, 1888.0, 1699.3, 1369.8, 7549.3),
    "CrazyClimber": (
        10780.5,
        35829.4,
        None,
        62584.0,
        36700.0,
        83940.0,
        59324.0,
        66776.0,
        82240.0,
        99168.0,
        58432.0,
    ),
    "DemonAttack": (152.1, 1971.0, 547.7, 208.1, 517.6, 13004.0, 2034.4, 164.6, 367.4, 288.1, 13341.0),
    "Freeway": (0.0, 29.6, 23.8, 16.7, 19.3, 21.8, 31.1, 0.0, 0.0, 33.3, 25.5),
    "Frostbite": (65.2, 4334.7, 218.7, 236.9, 1170.7, 296.3, 259.1, 1316.0, 3170.9, 274.1, 2384.8),
    "Gopher": (257.6, 2412.5, 520.0, 596.8, 660.6, 3260.3, 2236.1, 8239.6, 2606.3, 5897.9, 1331.2),
    "Hero": (1027.0, 30826.4, 2323.5, 2656.6, 5858.6, 9315.9, 7037.4, 11044.0, 13377.0, 5621.8, 7818.6),
    "Jamesbond": (29.0, 302.8, 71.7, 100.5, 366.5, 517.0, 462.7, 509.0, 526.5, 427.4, 1129.6),
    "Kangaroo": (52.0, 3035.0, 380.0, 51.2, 3617.4, 724.1, 838.2, 4208.0, 2822.6, 5382.2, 6614.7),
    "Krull": (1598.0, 2665.5, 3332.4, 2204.8, 3681.6, 5663.3, 6616.4, 8412.6, 7968.3, 8610.1, 8223.4),
    "KungFuMaster": (
        258.5,
        22736.3,
        None,
        14862.0,
        14783.0,
        30945.0,
        21760.0,
        26182.0,
        23450.0,
        18714.0,
        18992.0,
    ),
    "MsPacman": (307.3, 6951.6, None, 1480.0, 1318.4, 1281.2, 999.1, 2673.5, 1433.4, 1958.2, 2008.3),
    "Pong": (-20.7, 14.6, None, 12.8, -5.4, 20.1, 14.6, 11.3, -3.6, 20.4, 16.7),
    "PrivateEye": (24.9, 69571.3, None, 35.0, 86.0, 96.7, 100.0, 7781.0, 3503.1, 114.3, 40.5),
    "Qbert": (163.9, 13455.0, 356.7, 1288.8, 866.3, 13782.0, 745.7, 4522.5, 2178.6, 4499.3, 4447.1),
    "RoadRunner": (11.5, 7845.0, None, 5640.6, 12213.0, 17751.0, 9614.6, 17564.0, 18618.0, 20673.0, 33427.0),
    "Seaquest": (68.4, 42054.7, 248.0, 683.3, 558.1, 1100.2, 661.3, 525.2, 823.7, 551.2, 1232.5),
    "UpNDown": (533.4, 11693.2, 2905.0, 3350.3, 10859.0, 17264.0, 3546.2, 7985.0, 63287.0, 3856.3, 12102.0),
}
GAMES = tuple(_TABLE)
# IQM over all runs of all 26 games, as published; an IQM over games' means is another and higher number.
IQM_OVER_RUNS = {"IRIS": 0.501, "DIAMOND": 0.641}


def game_of(env_id: str) -> str | None:
    """The game's name in these tables: ALE/Freeway-v5 and FreewayNoFrameskip-v4 are Freeway; None for any other env."""
    name = (
        env_id.removeprefix("ALE/").split("-v")[0].removesuffix("NoFrameskip").removesuffix("Deterministic")
    )
    return name if name in _TABLE and (env_id.startswith("ALE/") or "-v" in env_id) else None


def bounds(game: str) -> tuple[float, float]:
    """Scores of a random and of a human player."""
    low, high = _TABLE[game][:2]
    assert low is not None and high is not None
    return low, high


def human_normalized(game: str, score: ArrayLike) -> np.ndarray:
    """0 for a random player, 1 for a human one."""
    return score_statistics.normalized(score, *bounds(game)) / 100.0


def published(agent: str) -> dict[str, float]:
    """An agent's scores by game, where they were published."""
    place = 2 + AGENTS.index(agent)
    return {game: row[place] for game, row in _TABLE.items() if row[place] is not None}  # type: ignore[misc]


def aggregate(scores: Mapping[str, Sequence[float]], seed: int = 0) -> dict[str, tuple[float, float, float]]:
    """Mean, median and IQM of human-normalised scores over games, each with its bootstrap interval.

    Mean and median are over the games' means, the IQM over all runs; runs are drawn anew within each game.

    Args:
        scores: Raw scores of the runs of each game.
        seed: Of the bootstrap.
    """
    strata = [human_normalized(game, values) for game, values in scores.items()]
    draw = np.random.default_rng(seed)
    resamples = [[rows[draw.integers(len(rows), size=len(rows))] for rows in strata] for _ in range(2000)]

    def over_games(rows: Sequence[np.ndarray]) -> np.ndarray:
        return np.array([row.mean() for row in rows])

    statistics: dict[str, Callable[[Sequence[np.ndarray]], float]] = {
        "mean": lambda rows: score_statistics.mean(over_games(rows)),
        "median": lambda rows: score_statistics.median(over_games(rows)),
        "iqm": lambda rows: score_statistics.iqm(np.concatenate(rows)),
    }
    result = {}
    for name, statistic in statistics.items():
        low, high = np.quantile([statistic(rows) for rows in resamples], [0.025, 0.975])
        result[name] = (float(statistic(strata)), float(low), float(high))
    return result
