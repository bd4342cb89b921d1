"""`rl play`."""

from __future__ import annotations

from pathlib import Path

from rl_lightning.cli.agent.named_agent import IN_MODEL, TAKES, in_model, named_agent, named_run
from rl_lightning.cli.flags import ParsedArgs, parse
from rl_lightning.cli.outputs import VIDEOS, note, output_file
from rl_lightning.errors import ConfigError
from rl_lightning.runs.store.hub import introduction
from rl_lightning.runs.store.run_folder import Run

OWN_MODEL = "model"  # in place of the name of another run's
HORIZON = 15
PLAY_EPISODES = 10
PLAY_SEED = 1000


def play(words: list[str]) -> int:
    """episodes, statistics and an mp4

    usage: rl play RUN|FOLDER|hub:USER/NAME [options]

    Plays a run's best checkpoint: mean, IQM and 95% interval of the return; writes an mp4 of the first episode.

      rl play ppo-cartpole-1 --episodes 10
      rl play ppo-cartpole-1 --render human
      rl play hub:me/sac-hopper
      rl play dreamer-cartpole-1 --in model

      --checkpoint best|last|PATH   (default best)
      --episodes N                  (default 10)
      --in model                    what the run's own world model imagines from real starts, beside what came:
                                    an error for each step, and a film
      --horizon N                   steps to imagine (default 15)
      --in DYNAMICS                 in a learned model, as rl test --in; its signals are drawn
      --density ARTIFACT            --termination NAME  for --in
      --seed N                      first seed of the episodes (default 1000)
      --render human                show it, where there is a display, instead of writing an mp4
      --output FILE.mp4             (default <run>/videos/play.mp4; of a shared agent ./play.mp4)
      --no_video                    statistics only
    """
    takes = (*TAKES, *IN_MODEL, "seed", "horizon")
    parsed = parse(words, takes, ("no_video",), config=True, command="play")
    run, render = named_run(parsed, "play"), parsed.get("render")
    if parsed.get("in") == OWN_MODEL:
        return imagine(parsed, run)
    if parsed.get("horizon") is not None:
        raise ConfigError(f"--horizon belongs to --in {OWN_MODEL}")
    if render:
        from rl_lightning.runs.engine.fit import check_display

        check_display(render)
    about = introduction(run.read())
    usual = (
        Path("play.mp4") if about else run.folder / "videos" / "play.mp4"
    )  # others' folders stay as they are
    path = output_file(parsed.get("output"), usual, VIDEOS)
    episodes, seed = parsed.integer("episodes", PLAY_EPISODES), parsed.integer("seed", PLAY_SEED, least=0)
    from rl_lightning.analysis.evaluation.play_agent import check_acts, film_episode, play_episodes
    from rl_lightning.runs.agents.episode_statistics import statistics_text

    agent = in_model(named_agent(parsed, "best", episodes), parsed)
    check_acts(agent, parsed.words[0])
    if about:
        print(about)
    played = play_episodes(agent.cli.model, agent.cli.datamodule, episodes, seed, render, note)
    print(statistics_text(agent.title, played))
    if agent.cli.datamodule.eval_model is not None:
        from rl_lightning.runs.agents.in_model import model_text

        print(model_text(agent.cli.datamodule, played))
    if not render and not parsed.has("no_video"):
        print(film_episode(agent, seed, path))
    return 0


def imagine(parsed: ParsedArgs, run: Run) -> int:
    """What the run's own world model makes of real starts, beside what came."""
    unused = next(
        (name for name in ("density", "termination", "render") if parsed.get(name) is not None), None
    )
    if unused is not None:
        raise ConfigError(f"--{unused} does not go with --in {OWN_MODEL}")
    path = output_file(parsed.get("output"), run.folder / "videos" / "imagined.mp4", VIDEOS)
    horizon = parsed.integer("horizon", HORIZON)
    from rl_lightning.analysis.evaluation.imagined_film import imagine_windows, imagined_film, imagined_table

    agent = named_agent(parsed, "best", None)
    windows = imagine_windows(agent, horizon)
    print(f"{agent.title}\n{imagined_table(windows)}")
    if not parsed.has("no_video"):
        print(imagined_film(windows, path))
    return 0
