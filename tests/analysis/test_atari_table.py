"""Atari 100k's table: constants, aggregates by hand and as published, and the page that `rl report` makes of runs."""

import json
from pathlib import Path

import numpy as np
import pytest

from rl_lightning.analysis.atari_table import aggregates, atari_tables
from rl_lightning.datasets import atari100k
from rl_lightning.runs.store.select_runs import select_runs

DIAMOND = Path(__file__).parents[3] / "shared" / "data" / "anchors" / "atari100k-diamond.json"


def test_games_by_any_of_their_ids():
    assert len(atari100k.GAMES) == 26
    for env_id in ("ALE/Freeway-v5", "FreewayNoFrameskip-v4", "FreewayDeterministic-v4"):
        assert atari100k.game_of(env_id) == "Freeway"
    assert atari100k.game_of("CartPole-v1") is None and atari100k.game_of("Freeway") is None


def test_random_is_zero_and_a_human_one():
    for game in atari100k.GAMES:
        assert atari100k.human_normalized(game, atari100k.bounds(game)).tolist() == pytest.approx([0.0, 1.0])


@pytest.mark.parametrize(
    ("agent", "games", "mean", "median"),
    [
        ("MBARC", 17, 0.248, 0.061),
        ("SimPLe", 26, 0.332, 0.134),
        ("SPR", 26, 0.616, 0.396),
        ("BBF", 26, 2.247, 0.917),
    ],
)
def test_published_aggregates(agent, games, mean, median):
    """What the tables give is what was published: each score is in its place."""
    known = atari100k.published(agent)
    assert len(known) == games
    found = atari100k.aggregate({game: [score] for game, score in known.items()})
    assert found["mean"][0] == pytest.approx(mean, abs=0.002)
    assert found["median"][0] == pytest.approx(median, abs=0.002)
    assert found["mean"][1] == found["mean"][2], "one run each: there is nothing to draw anew"


def test_published_iqms_are_over_runs_and_derived_ones_say_so():
    """DIAMOND's paper has 0.641; over its games' means the same scores would give 0.757."""
    everything = {game: [0.0] for game in atari100k.GAMES}
    table = aggregates(everything)
    iqm = {row[0]: row[table.columns.index("IQM")] for row in table.rows}
    assert iqm["DIAMOND"] == 0.641 and iqm["IRIS"] == 0.501
    assert all("derived" in value for agent, value in iqm.items() if agent not in ("ours", "DIAMOND", "IRIS"))
    few = aggregates({game: [0.0] for game in atari100k.GAMES[:5]})
    assert all("derived" in row[-1] for row in few.rows[1:]), "published over all games, not over these"


@pytest.mark.skipif(
    not DIAMOND.exists(), reason="the published scores of single runs are not part of the project"
)
def test_an_iqm_over_published_runs_is_the_papers():
    runs = json.loads(DIAMOND.read_text())
    assert atari100k.aggregate(runs)["iqm"][0] == pytest.approx(atari100k.IQM_OVER_RUNS["DIAMOND"], abs=5e-4)


def test_intervals_come_from_runs_within_games():
    found = atari100k.aggregate({"Freeway": [0.0, 29.6], "Pong": [14.6, 14.6]})
    assert found["mean"][0] == pytest.approx(0.75) and found["mean"][1:] == pytest.approx((0.5, 1.0))
    assert found["iqm"][0] == pytest.approx(np.mean([1.0, 1.0]))  # of 0, 1, 1, 1 the middle two


def test_report_over_games_has_the_table(add, rl, logs):
    for seed, scores in enumerate(([3, 20.0], [5, 24.0])):
        add(f"mbarc-freeway-s{seed}", scores, group="mbarc-freeway", env="ALE/Freeway-v5", seed=seed)
    add("mbarc-pong", [-20.0, 10.0, -3.05], env="ALE/Pong-v5")
    games, all_games = atari_tables(select_runs(["mbarc-freeway", "mbarc-pong"]))
    assert [row[0] for row in games.rows] == ["Freeway", "Pong"]
    freeway = dict(zip(games.columns, games.rows[0], strict=True))
    assert freeway["ours"] == 22.0 and freeway["runs"] == 2 and freeway["MBARC"] == 23.8
    assert freeway["ours, human = 1"] == pytest.approx(22.0 / 29.6)
    pong = dict(zip(games.columns, games.rows[1], strict=True))
    assert pong["ours"] == -3.05 and pong["ours, best"] == 10.0 and pong["MBARC"] is None
    assert all_games.rows[0][:2] == ["ours", 2] and all_games.rows[1][:2] == ["MBARC", 1]
    done = rl("report", "mbarc-freeway", "mbarc-pong", "--output", "page.html")
    assert done.code == 0, done.err
    text = (logs.parent / "page.html").read_text()
    assert "Atari 100k, human-normalised" in text and "EfficientZero" in text
    add("cartpole", [1, 2])
    assert atari_tables(select_runs(["cartpole"])) == []
