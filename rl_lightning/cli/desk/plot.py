"""`rl plot`."""

from __future__ import annotations

from rl_lightning.cli.agent.named_agent import named_agent, named_run
from rl_lightning.cli.flags import ParsedArgs, parse
from rl_lightning.cli.outputs import PICTURES, output_file
from rl_lightning.errors import ConfigError
from rl_lightning.runs.store.names import slug
from rl_lightning.runs.store.run_folder import logs_root
from rl_lightning.runs.store.select_runs import select_runs

METRIC_GROUPS = ("collect/", "train/", "world_model/", "controller/", "imagine/", "eval/", "time/")
OF_ACTIONS = ("data", "density", "dynamics")


def plot(words: list[str]) -> int:
    """learning curve as PNG and in the terminal

    usage: rl plot NAME... [options]

    Learning curves of runs: a PNG, and the same in the terminal. A group of seeds is one curve, its mean with its
    spread; a pipeline alone stands for its stages that have the metrics.

      rl plot ppo-cartpole-1
      rl plot sac-hopper base --metric eval/return,train/critic_loss
      rl plot sac-hopper-1 sac-hopper-2 --metric train/critic_loss --output q.png

      --metric A,B            (default eval/return, of runs without returns their score or loss; reward and loss stand
                              for each run's own) one above the other
      --actions               instead: what a policy recommends against what was recorded
      --data NAME|FILE        for --actions: the rows (default the run's own data)
      --density ARTIFACT      --dynamics ARTIFACT  for --actions, as rl predict takes them
      --output FILE.png       (default <run>/<metric>.png)
    """
    takes = ("metric", "metrics", "output", *OF_ACTIONS, "import", "checkpoint")
    parsed = parse(words, takes=takes, switches=("actions",), command="plot")
    if not parsed.words:
        raise ConfigError("rl plot needs a run; see them with: rl list")
    if parsed.has("actions"):
        return plot_actions(parsed)
    if given := next((name for name in OF_ACTIONS if parsed.get(name) is not None), None):
        raise ConfigError(f"--{given} belongs to --actions")
    from rl_lightning.analysis.compare import curves_of
    from rl_lightning.analysis.plot import in_characters, save_all, usual_metric

    text = parsed.get("metric") or parsed.get("metrics") or usual_metric(parsed.words)
    metrics = [word.strip() for word in text.split(",") if word.strip()]
    if not metrics:
        raise ConfigError("--metric takes names with commas between, e.g. eval/return,train/loss")
    others = [
        word for word in parsed.words if word.startswith(METRIC_GROUPS) and not (logs_root() / word).exists()
    ]
    if others:
        raise ConfigError(f"several metrics have commas between: --metric {','.join([*metrics, *others])}")
    groups = select_runs(parsed.words, metrics=metrics)
    first = next(iter(groups.values()))
    names = [slug(metric) for metric in metrics]
    names = (
        [slug(next(iter(groups))), *names] if len(first) > 1 else names
    )  # a group's lies with its first seed
    path = output_file(parsed.get("output"), first[0].folder / f"{'-'.join(names)}.png", PICTURES)
    pictures = [(metric, curves_of(groups, metric)) for metric in metrics]
    for metric, curves in pictures:
        print(in_characters(curves, metric), end="\n\n")
    print(save_all(pictures, path))
    return 0


def plot_actions(parsed: ParsedArgs) -> int:
    """What a policy recommends against what was recorded."""
    folder = named_run(parsed, "plot").folder
    path = output_file(parsed.get("output"), folder / "actions.png", PICTURES)
    from rl_lightning.analysis.evaluation.action_plot import comparison_text, draw_actions, recommended_rows
    from rl_lightning.runs.agents.prediction import Confidence

    asked = Confidence(parsed.get("density"), parsed.get("dynamics"))
    columns = recommended_rows(named_agent(parsed, "best", None), parsed.get("data"), asked)
    print(comparison_text(columns))
    print(draw_actions(columns, path))
    return 0
