"""`rl import`."""

from __future__ import annotations

import re
from pathlib import Path

from rl_lightning.cli.flags import parse
from rl_lightning.errors import ConfigError

SOURCES = ("sb3",)


def import_agent(words: list[str]) -> int:
    """an agent that another library trained, as a run

    usage: rl import sb3 FILE.zip --env ID [--name NAME] [--episodes N]

    Takes the weights of a Stable-Baselines3 agent (PPO, A2C, SAC, TD3, DQN, and the policy of sb3-contrib's TQC; flat
    observations) and makes a run of them, which plays, records data, is exported, and starts other runs. Nothing that
    is pickled in the file is read, so the env has to be named; statistics of VecNormalize lie in another, pickled
    file and cannot be taken.

      rl import sb3 sac-HalfCheetah.zip --env HalfCheetah-v5 --episodes 10
      rl fit --config sac/halfcheetah --ckpt_path sb3-sac-HalfCheetah-1 --resume_mode warm_start

      --env ID                what it was trained on
      --import PACKAGE        a package of yours that registers the env
      --episodes N            play so many at once and tell the return (default 0)
    """
    parsed = parse(words, ("env", "episodes", "name", "import"), (), command="import")
    if len(parsed.words) != 2 or parsed.words[0] not in SOURCES:
        raise ConfigError("rl import takes a library and a file: rl import sb3 FILE.zip --env ID")
    env = parsed.get("env")
    if not env:
        raise ConfigError(
            f"which env was it trained on? rl import sb3 {parsed.words[1]} --env {_named_in(parsed.words[1]) or 'ID'}; "
            "see them with: rl list envs"
        )
    episodes = parsed.integer("episodes", 0, least=0)
    from rl_lightning.runs.imports.import_sb3 import import_sb3

    run, notes = import_sb3(Path(parsed.words[1]), env, parsed.get("name"), parsed.request(verb="import"))
    for text in notes:
        print(f"note: {text}")
    print(f"run:  {run.folder}")
    if episodes:
        from rl_lightning.cli.agent.play import play

        own = [word for package in parsed.all("import") for word in ("--import", package)]
        play([run.name, "--episodes", str(episodes), "--no_video", *own])
    print(f"next: rl play {run.name} · rl fit --config ... --ckpt_path {run.name} --resume_mode warm_start")
    return 0


def _named_in(file: str) -> str | None:
    """The env that a file's name tells, in the version of today: sac-Hopper-v3.zip is Hopper-v5."""
    from rl_lightning.analysis.env_index import environments

    stems = {name.rpartition("/")[2].rpartition("-v")[0]: name for name, *_ in environments()}
    words = re.sub(r"-v\d+$", "", Path(file).stem).split("-")
    parts = ("-".join(words[first:]) for first in range(len(words)))
    return next((stems[part] for part in parts if part in stems), None)
