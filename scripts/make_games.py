"""Writes configs/mbarc/<game>.yaml for the 26 games of Atari 100k: one template, one table.

Run it after changing either; tests/test_configs.py compares the files with what it would write.
"""

from __future__ import annotations

import re
from pathlib import Path

from rl_lightning.datasets.atari100k import GAMES

FOLDER = Path(__file__).parents[1] / "configs" / "mbarc"
TEMPLATE = """\
# pipeline: MBARC on {game}, Atari 100k, no sticky actions · needs the atari extra · hours on a GPU, weeks on a CPU
extends: mbarc/stages/pipeline
name: mbarc-{name}
shared: {{data.env.id: ALE/{game}-v5}}
"""
# Games where uniform actions at every step meet no reward: the first frames come from actions that are held.
HELD = ("Freeway",)
HOLD = """\
stages:
  - {name: explore, overrides: {model.max_action_repeat: 16}}
"""


def slug(game: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", game).lower()


def files() -> dict[str, str]:
    """The text of each game's config, by its file's name."""
    return {
        f"{slug(game)}.yaml": TEMPLATE.format(game=game, name=slug(game)) + (HOLD if game in HELD else "")
        for game in GAMES
    }


if __name__ == "__main__":
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
