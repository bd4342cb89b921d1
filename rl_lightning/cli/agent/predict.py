"""`rl predict`."""

from __future__ import annotations

from pathlib import Path

from rl_lightning.cli.agent.named_agent import TAKES, named_agent, named_run
from rl_lightning.cli.flags import parse
from rl_lightning.cli.options import OWN_SWITCHES
from rl_lightning.errors import ConfigError


def predict(words: list[str]) -> int:
    """write a run's actions to .npz

    usage: rl predict RUN (--data FILE | --episodes N) [--output OUT.npz]

    Writes the run's actions as evaluation plays them, in the env's own scale: for the array `obs` of an .npz file,
    for a data set (local/hopper-medium, an .hdf5 file), or along episodes.

      rl predict ppo-cartpole-1 --data states.npz --output actions.npz
      rl predict ppo-cartpole-1 --episodes 5

      --checkpoint best|last|PATH   (default best)
      --output OUT.npz              (default <run>/predictions.npz)
    """
    parsed = parse(words, (*TAKES, "data"), OWN_SWITCHES, config=True, command="predict")
    run, source = named_run(parsed, "predict"), parsed.get("data")
    if (source is None) == (parsed.get("episodes") is None):
        raise ConfigError("rl predict takes either --data FILE.npz or --episodes N")
    from rl_lightning.runs.agents.prediction import predict_actions, read_observations, write_predictions

    episodes, rows = parsed.integer("episodes", 1), read_observations(source)
    arrays = predict_actions(named_agent(parsed, "best", episodes), source, rows, episodes)
    path = write_predictions(arrays, Path(parsed.get("output") or run.folder / "predictions.npz"))
    print(f"{len(arrays['action'])} actions -> {path}" if "action" in arrays else str(path))
    return 0
