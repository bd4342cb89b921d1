"""`rl push`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rl_lightning.cli.flags import parse
from rl_lightning.cli.options import OWN_SWITCHES
from rl_lightning.errors import ConfigError
from rl_lightning.runs.store.hub import check_login, checked, send


def push(words: list[str]) -> int:
    """share an agent on the Hugging Face Hub

    usage: rl push RUN|FOLDER USER/NAME [--private]

    Sends the folder that `rl export RUN --format hub` writes: card, film, config, weights as safetensors, metrics. You
    must be logged in (hf auth login). Others play it with: rl play hub:USER/NAME

      rl push sac-hopper-1 me/sac-hopper

      --private               nobody else sees it
      --checkpoint NAME       best (default), last, a milestone
      --episodes N            played for the return on the card (default 20)
    """
    parsed = parse(
        words,
        ("config", "import", "checkpoint", "episodes"),
        (*OWN_SWITCHES, "private"),
        config=True,
        command="push",
    )
    if len(parsed.words) != 2:
        raise ConfigError("rl push takes a run and a name: rl push RUN USER/NAME")
    source, name = parsed.words[0], checked(parsed.words[1])
    if (Path(source) / "model.safetensors").is_file():
        print(send(Path(source), name, parsed.has("private")))
        return 0
    from rl_lightning.analysis.export.hub_folder import EPISODES, export_hub
    from rl_lightning.runs.agents.agent import load_agent
    from rl_lightning.runs.store.run_folder import resolve
    from rl_lightning.runs.store.select_runs import last_stage

    check_login()  # before minutes of playing for the card
    agent = load_agent(last_stage(resolve(source)), parsed.request(), "best")
    with tempfile.TemporaryDirectory() as work:
        print(
            export_hub(agent, Path(work) / "agent", parsed.integer("episodes", EPISODES)).rpartition("\n")[0]
        )
        print(send(Path(work) / "agent", name, parsed.has("private")))
    return 0
