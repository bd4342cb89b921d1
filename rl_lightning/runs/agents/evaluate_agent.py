"""`rl validate` and `rl test`: an agent in Lightning's own loops, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from rl_lightning.errors import ConfigError
from rl_lightning.io.atomic import write_json
from rl_lightning.io.text import score
from rl_lightning.rollout.evaluate import StepCap
from rl_lightning.runs.agents.agent import LoadedAgent, load_agent
from rl_lightning.runs.agents.episode_statistics import (
    episode_statistics,
    statistics_text,
    values_text,
)
from rl_lightning.runs.agents.in_model import model_text, model_values
from rl_lightning.runs.agents.result_row import evaluated, note_result
from rl_lightning.runs.request import Request
from rl_lightning.runs.store.run_folder import Run, now


class Tested(NamedTuple):
    """What a test yielded.

    Args:
        text: For people.
        values: For test.json.
        caution: What a reader must know of them; null: nothing.
        episodes: How many were played; of a model that does not act none.
    """

    text: str
    values: dict[str, Any]
    caution: str | None
    episodes: int

    def write(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, self.values, default=str)
        return path


def validate_agent(agent: LoadedAgent, tell: Callable[[str], None]) -> str:
    """Evaluates as training does, on the same seeds; the result as text.

    Args:
        agent: The agent.
        tell: Is called, before it takes its time, with what the evaluation may have to cut.
    """
    trainer = agent.cli.make_trainer([], [])
    tell_limit(agent, tell)
    trainer.validate(agent.cli.model, datamodule=agent.cli.datamodule, verbose=False)
    if agent.cli.model.evaluated_on == "rows":
        return values_text(agent.title, agent.cli.model.assessed)
    return statistics_text(agent.title, evaluated_episodes(agent))


def test_agent(
    agent: LoadedAgent, request: Request, tell: Callable[[str], None], always: bool = False
) -> Tested:
    """Evaluates on fresh seeds, and adds a row to results.csv where the policy was learned from data.

    Args:
        agent: The agent of a run.
        request: What it was loaded with: settings that differ from the run's are noted.
        tell: Is called, before it takes its time, with what the evaluation may have to cut.
        always: A row for results.csv whatever the policy was learned from.
    """
    assert agent.run is not None
    trainer = agent.cli.make_trainer([], [])
    tell_limit(agent, tell)
    trainer.test(agent.cli.model, datamodule=agent.cli.datamodule, verbose=False)
    model, data = agent.cli.model, agent.cli.datamodule
    settings = evaluated(agent.run, agent.cli, request)
    about = {"checkpoint": agent.title, "made": now(), "changed": settings.changed}
    if model.evaluated_on == "rows":
        text = values_text(agent.title, model.assessed)
        return Tested(text, about | model.assessed, model.caution(), 0)
    episodes = evaluated_episodes(agent)
    numbers = episode_statistics(episodes)
    scores = data.scores({"eval/return": numbers["mean"]})
    more = {"scores": {k.removeprefix("eval/"): v for k, v in scores.items()}} if scores else {}
    more |= data.diagnostics(model)
    parts = [statistics_text(agent.title, episodes), *open_loop_files(data, agent.run.folder)]
    if data.eval_model is not None:
        parts.append(model_text(data, episodes))
        about |= model_values(data)
        settings = settings._replace(changed=[*settings.changed, f"in the model {about['evaluated_in']}"])
    if more:
        parts.append(values_text("", more))
    which = agent.title.split(" · ")[1]
    if always or getattr(data, "dataset", None) is not None:  # only data sets have all that such a row tells
        note_result(agent.run, agent.cli, settings, which, numbers | {"episodes": len(episodes)})
    rows = [_row(episode) for episode in episodes]
    return Tested("\n".join(parts), {**about, **numbers, **more, "episodes": rows}, None, len(episodes))


def _row(episode: Any) -> dict[str, Any]:
    row = {"return": episode.episode_return, "length": episode.length, "seed": episode.seed, **episode.extra}
    return row | ({"cut": True} if episode.cut else {})


def tell_limit(agent: LoadedAgent, tell: Callable[[str], None]) -> None:
    """Where the episodes of an env that may never end one are cut."""
    data = agent.cli.datamodule
    if agent.cli.model.evaluated_on == "episodes" and data.spec.max_episode_steps is None:
        envs = data.eval_envs(data.clock.run.eval_episodes)
        if envs is not None and (note := step_limit(envs, data.clock.run.eval_max_steps)):
            tell(note)


def step_limit(envs: Any, given: int | None) -> str | None:
    """Of an env that may never end an episode: where it is cut."""
    return StepCap(envs, given).note


def final_evaluation(run: Run, request: Request, which: str = "last") -> str:
    """The closing evaluation of a policy, on `final_episodes` fresh seeds: a row of results.csv, and its scores in
    the run's record. Returns a line about it, empty where none is asked for.

    Args:
        run: The finished run or stage.
        request: What it was made with.
        which: The checkpoint that is evaluated.
    """
    plain = replace(request, overlays=[], checkpoint=which, small=False)
    agent = load_agent(run, plain)
    episodes = agent.cli.config.run.final_episodes
    if episodes is None or agent.cli.model.evaluated_on != "episodes":
        return ""
    if agent.cli.datamodule.eval_envs(1) is None:
        return f"no final evaluation: {type(agent.cli.datamodule).__name__} names no env to play in"
    agent.cli.datamodule.clock.run.eval_episodes = episodes
    tested = test_agent(agent, plain, lambda note: None, always=True)
    tested.write(run.folder / "test.json")
    values = tested.values
    final = {key: values[key] for key in ("mean", "std", "iqm", "low", "high")}
    final |= {"episodes": tested.episodes, "checkpoint": which, **values.get("scores", {})}
    in_model = values.get("evaluated_in")
    final |= {} if in_model is None else {"evaluated_in": in_model}
    run.update(final=final)
    normalized = final.get("normalized_score")
    shown = "" if normalized is None else f", normalized score {normalized:.1f}"
    scale = abs(final["mean"])
    spread = f"{score(final['mean'], scale)} ± {score(final['std'], scale)}"
    return f"final evaluation ({which}): {spread} over {tested.episodes} episodes{shown}" + (
        "" if in_model is None else f" in the model {in_model}"
    )


def evaluated_episodes(agent: LoadedAgent) -> list[Any]:
    """The episodes of the evaluation; without an env there are none to tell of."""
    evaluation = agent.cli.model.evaluation
    if evaluation is None:
        raise ConfigError(
            f"{type(agent.cli.datamodule).__name__} names no env to play in; give one: --data.env.id Hopper-v5, or a "
            "learned model: --in RUN/dynamics"
        )
    return list(evaluation.episodes)


def open_loop_files(data: Any, folder: Path) -> list[str]:
    """Of a world model that was examined: what was, what it saw and what it imagined, drawn beside the run."""
    foresight = getattr(data, "foresight", None)
    if foresight is None:
        return []
    from rl_lightning.rollout.open_loop_images import save_open_loop_images

    return [str(path) for path in save_open_loop_images(foresight, folder)]
