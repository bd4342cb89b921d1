"""`rl predict`."""

from __future__ import annotations

from pathlib import Path

from rl_lightning.cli.agent.named_agent import TAKES, named_agent, named_run
from rl_lightning.cli.flags import parse
from rl_lightning.cli.options import OWN_SWITCHES
from rl_lightning.errors import ConfigError


def predict(words: list[str]) -> int:
    """write a run's actions to .npz or .csv

    usage: rl predict RUN (--data FILE | --episodes N) [--output OUT.npz|OUT.csv]

    Writes the run's actions as evaluation plays them, in the env's own scale: for the array `obs` of an .npz file,
    for a data set (local/hopper-medium, an .hdf5 file, a table), or along episodes. Rows need no env. Beside each of
    their actions stands how far its draws spread (action_std; of discrete ones action_probability) and, where a density
    is known, how likely it is (score, below_threshold); what was recorded is judged alike.

      rl predict ppo-cartpole-1 --data states.npz --output actions.npz
      rl predict gormpo-clinic-1 --data patients.csv --output advice.csv
      rl predict ppo-cartpole-1 --episodes 5

      --checkpoint best|last|PATH   (default best)
      --density ARTIFACT            (default the density that the run was penalised by)
      --dynamics ARTIFACT           what follows an action, where the density asks for it (default the run's own)
      --columns TEXT                of a CSV, which are what: "observations=s_* actions=level episode=stay"
      --draws N                     of each action, for its spread (default 32; 0 none)
      --output OUT.npz|OUT.csv      (default <run>/predictions.npz)
    """
    parsed = parse(
        words,
        (*TAKES, "data", "density", "dynamics", "draws", "columns"),
        OWN_SWITCHES,
        config=True,
        command="predict",
    )
    run, source = named_run(parsed, "predict"), parsed.get("data")
    if (source is None) == (parsed.get("episodes") is None):
        raise ConfigError("rl predict takes either --data FILE.npz or --episodes N")
    from rl_lightning.runs.agents.confidence import DRAWS, summary
    from rl_lightning.runs.agents.prediction import (
        Confidence,
        predict_actions,
        read_observations,
        write_predictions,
    )

    episodes, rows = parsed.integer("episodes", 1), read_observations(source)
    draws = parsed.integer("draws", DRAWS, least=0)
    asked = Confidence(parsed.get("density"), parsed.get("dynamics"), draws, parsed.get("columns"))
    arrays = predict_actions(named_agent(parsed, "best", episodes), source, rows, episodes, asked)
    path = write_predictions(arrays, Path(parsed.get("output") or run.folder / "predictions.npz"))
    if line := summary(arrays):
        print(line)
    print(f"{len(arrays['action'])} actions -> {path}" if "action" in arrays else str(path))
    return 0
