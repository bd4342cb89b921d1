"""`rl plot`."""

from __future__ import annotations

from rl_lightning.cli.flags import parse
from rl_lightning.cli.outputs import PICTURES, output_file
from rl_lightning.errors import ConfigError
from rl_lightning.runs.store.select_runs import select_runs


def plot(words: list[str]) -> int:
    """learning curve as PNG and in the terminal

    usage: rl plot RUN... [options]

    Learning curves of runs: a PNG, and the same in the terminal. The name of a group stands for all of its seeds.

      rl plot ppo-cartpole-1
      rl plot sac-hopper-1 sac-hopper-2 --metric train/q_loss --output q.png

      --metric NAME           (default eval/return)
      --output FILE.png       (default <run>/curve.png)
    """
    parsed = parse(words, takes=("metric", "output"), command="plot")
    if not parsed.words:
        raise ConfigError("rl plot needs a run; see them with: rl list")
    from rl_lightning.analysis.plot import in_characters, read_curve, save

    metric = parsed.get("metric") or "eval/return"
    runs = [run for members in select_runs(parsed.words).values() for run in members]
    path = output_file(parsed.get("output"), runs[0].folder / "curve.png", PICTURES)
    curves = [read_curve(run, metric) for run in runs]
    print(in_characters(curves, metric))
    print(f"\n{save(curves, metric, path)}")
    return 0
