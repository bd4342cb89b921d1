"""`rl validate`, `rl test`, `rl predict`, `rl play`: a finished agent, looked at."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rl_lightning.cli.flags import Parsed, parse
from rl_lightning.cli.options import OWN_SWITCHES
from rl_lightning.cli.outputs import VIDEOS, output_file
from rl_lightning.errors import ConfigError
from rl_lightning.experiments.runs import now, resolve, write_json
from rl_lightning.experiments.select import last_stage
from rl_lightning.runs.agents.agent import Agent, load_agent
from rl_lightning.runs.agents.results import evaluated, note_result

TAKES = ("config", "import", "checkpoint", "episodes", "output", "render")
TEST_EPISODES = 20
PLAY_EPISODES = 10
PLAY_SEED = 1000


def validate(words: list[str]) -> int:
    agent = load(parse(words, TAKES, OWN_SWITCHES, config=True, command="validate"), "last", None)
    trainer = agent.cli.make_trainer([], [])
    prepare(agent)
    trainer.validate(agent.cli.model, datamodule=agent.cli.datamodule, verbose=False)
    if agent.cli.model.evaluated_on == "rows":
        print(table(agent.title, agent.cli.model.assessed))
        return 0
    print(statistics(agent.title, played(agent)))
    return 0


def prepare(agent: Agent) -> None:
    """Tells what the evaluation that follows may have to cut, before it takes its time."""
    data = agent.cli.datamodule
    if agent.cli.model.evaluated_on == "episodes" and data.spec.max_episode_steps is None:
        envs = data.eval_envs(data.schedule.run.eval_episodes)
        if envs is not None:
            tell_limit(envs, data.schedule.run.eval_max_steps)


def played(agent: Agent) -> list[Any]:
    """The episodes of the evaluation; without an env there are none to tell of."""
    evaluation = agent.cli.model.evaluation
    if evaluation is None:
        raise ConfigError(
            f"{type(agent.cli.datamodule).__name__} names no env to play in; give one: --data.env.id Hopper-v5"
        )
    return list(evaluation.episodes)


def test(words: list[str]) -> int:
    takes = (*TAKES, "noise_rates", "noise_scales")
    parsed = parse(words, takes, (*OWN_SWITCHES, "noise"), config=True, command="test")
    if not parsed.words:
        raise ConfigError("rl test needs a run; see them with: rl list")
    path = output_file(parsed.get("output"), last_stage(resolve(parsed.words[0])).folder / "test.json")
    agent = load(parsed, "best", TEST_EPISODES)
    trainer = agent.cli.make_trainer([], [])
    prepare(agent)
    trainer.test(agent.cli.model, datamodule=agent.cli.datamodule, verbose=False)
    assert agent.run is not None
    model, data = agent.cli.model, agent.cli.datamodule
    settings = evaluated(agent.run, agent.cli, parsed.request())
    result: dict[str, Any] = {"checkpoint": agent.title, "made": now(), "changed": settings.changed}
    if model.evaluated_on == "episodes":
        episodes = played(agent)
        print(statistics(agent.title, episodes))
        rows = [
            {"return": e.episode_return, "length": e.length, "seed": e.seed, **e.extra}
            | ({"cut": True} if e.cut else {})
            for e in episodes
        ]
        found = numbers(episodes)
        scores = data.scores({"eval/return": found["mean"]})
        more = {"scores": {k.removeprefix("eval/"): v for k, v in scores.items()}} if scores else {}
        more |= data.examine(model)
        show_dream(data, agent.run.folder)
        if more:
            print(table("", more))
        result |= {**found, **more, "episodes": rows}
        which = agent.title.split(" · ")[1]
        note_result(agent.run, agent.cli, settings, which, found["mean"], found["length"], len(episodes))
        if parsed.has("noise"):
            result["noise"] = noise_grid(parsed, agent, len(episodes))
    else:
        print(table(agent.title, model.assessed))
        result |= model.assessed
        if caution := model.caution():
            print(f"note: {caution}", file=sys.stderr, flush=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, result)
    print(path)
    return 0


def show_dream(data: Any, folder: Path) -> None:
    """Of a world model that was examined: what was, what it saw and what it dreamed, beside the run."""
    found = getattr(data, "foresight", None)
    if found is not None:
        from rl_lightning.rollout.dream_pictures import show

        for path in show(found, folder):
            print(path)


def noise_grid(parsed: Parsed, agent: Agent, episodes: int) -> list[dict[str, Any]]:
    """The same policy behind noisy sensors and actuators; scales are shares of the data's spread, if there are data."""
    from rl_lightning.rollout.robustness import RATES, SCALES, noise_table, robustness

    data = agent.cli.datamodule
    if getattr(data, "env", None) is None:
        raise ConfigError("--noise needs an env to play in; give one: --data.env.id Hopper-v5")
    rows = getattr(data, "dataset", None)
    stds = None if rows is None else rows.obs.std(0).tolist()
    rates, scales = parsed.numbers("noise_rates", RATES), parsed.numbers("noise_scales", SCALES)
    found = robustness(
        agent.cli.model, data.env, rates, scales, episodes=episodes, stds=stds,
        max_steps=data.schedule.run.eval_max_steps,
    )  # fmt: skip
    print(noise_table(found))
    return [row._asdict() for row in found]


def table(title: str, groups: dict[str, Any]) -> str:
    """Numbers by name, groups indented below their own."""
    lines = [title] if title else []
    plain = {key: value for key, value in groups.items() if not isinstance(value, dict)}
    width = max((len(key) for key in plain), default=0)
    lines += [f"{key.removeprefix('eval/'):<{width}}  {_number(value)}" for key, value in plain.items()]
    for key, value in groups.items():
        if isinstance(value, dict):
            lines += [f"{key}:", *(f"  {line}" for line in table("", value).splitlines())]
    return "\n".join(lines)


def _number(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "  ".join(_number(item) for item in value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def play(words: list[str]) -> int:
    parsed = parse(words, (*TAKES, "seed"), ("no_video",), config=True, command="play")
    if not parsed.words:
        raise ConfigError("rl play needs a run; see them with: rl list")
    if parsed.get("render"):
        from rl_lightning.runs.engine.fit import check_display

        check_display(parsed.get("render") or "")
    folder = last_stage(resolve(parsed.words[0])).folder
    path = output_file(parsed.get("output"), folder / "videos" / "play.mp4", VIDEOS)
    count, seed = parsed.integer("episodes", PLAY_EPISODES), parsed.integer("seed", PLAY_SEED, least=0)
    agent = load(parsed, "best", count)
    data, model = agent.cli.datamodule, agent.cli.model
    if model.evaluated_on == "rows":
        raise ConfigError(
            f"{type(model).__name__} does not act; what it is worth says: rl test {parsed.words[0]}"
        )
    if parsed.get("render"):
        from rl_lightning.envs.make import make_envs

        envs = make_envs(data.env, 1, "sync", render_mode="human", training=False)
    else:
        envs = data.eval_envs(count)
    if envs is None:
        raise ConfigError(f"{type(data).__name__} has no env to play in")
    try:
        most = data.schedule.run.eval_max_steps
        tell_limit(envs, most)
        print(statistics(agent.title, model.play(envs, count, seed, most)))
    finally:
        envs.close()
    if not parsed.get("render") and not parsed.has("no_video"):
        print(film(agent, seed, path))
    return 0


def tell_limit(envs: Any, given: int | None) -> None:
    """Of an env that may never end an episode: where it is cut."""
    from rl_lightning.rollout.evaluate import StepCap

    if note := StepCap(envs, given).note:
        print(note, file=sys.stderr, flush=True)


def film(agent: Agent, seed: int, path: Path) -> str:
    """A video of one episode; an env that cannot draw is no reason to fail."""
    from rl_lightning.rollout.video import record_episode, write_video

    try:
        env = agent.cli.datamodule.render_env()
        try:
            frames, fps = record_episode(agent.cli.model, env, seed)
        finally:
            env.close()
    except Exception as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        return f"no video: this env cannot draw here ({first}); rl doctor says what is missing"
    return str(write_video(frames, path, fps))


def predict(words: list[str]) -> int:
    parsed = parse(words, (*TAKES, "data"), OWN_SWITCHES, config=True, command="predict")
    if not parsed.words:
        raise ConfigError("rl predict needs a run; see them with: rl list")
    source = parsed.get("data")
    if (source is None) == (parsed.get("episodes") is None):
        raise ConfigError("rl predict takes either --data FILE.npz or --episodes N")
    from rl_lightning.runs.agents import prediction

    plain = source is not None and Path(source).suffix in (".npz", ".npy")
    observations = prediction.read(source) if source is not None and plain else None
    count = parsed.integer("episodes", 1)
    agent = load(parsed, "best", count)
    if agent.cli.model.evaluated_on == "rows":
        arrays = predicted_rows(agent, str(source))
    elif source is not None:
        found = recorded_rows(agent, source) if observations is None else observations
        arrays = prediction.for_rows(agent.cli.model, agent.cli.datamodule, found, source)
    else:
        arrays = prediction.along_episodes(agent.cli.model, agent.cli.datamodule, count)
    assert agent.run is not None
    path = prediction.write(arrays, Path(parsed.get("output") or agent.run.folder / "predictions.npz"))
    print(f"{len(arrays['action'])} actions -> {path}" if "action" in arrays else str(path))
    return 0


def recorded_rows(agent: Agent, source: str) -> dict[str, Any]:
    """Observations of a data set, and where its episodes begin."""
    from rl_lightning.datasets import check_env, load_dataset

    rows = load_dataset(source)
    check_env(source, rows.spec, agent.cli.datamodule.spec)
    is_first = rows.recording.diff(prepend=rows.recording[:1] - 1) != 0
    return {"obs": rows.obs.numpy(), "is_first": is_first.numpy()}


def predicted_rows(agent: Agent, source: str) -> dict[str, Any]:
    """What a module that does not act says of every row of a data set: scores, or predictions."""
    import torch

    from rl_lightning.datasets import check_env, load_dataset
    from rl_lightning.types import Transitions

    if source == "None":
        raise ConfigError(f"{type(agent.cli.model).__name__} does not act; give rows: --data NAME or FILE")
    rows = load_dataset(source)
    check_env(source, rows.spec, agent.cli.datamodule.spec)
    if agent.cli.model.models_next_obs:
        rows = rows.with_next()
    ones = torch.ones_like(rows.reward)
    terminated, index = rows.terminated.float(), torch.arange(len(ones))
    batch = Transitions(rows.obs, rows.action, rows.reward, rows.next_obs, terminated, ones, ones, index)
    return agent.cli.model.eval().predict_rows(batch)  # type: ignore[no-any-return]


def load(parsed: Parsed, which: str, episodes: int | None) -> Agent:
    """The agent that a command line asks for."""
    if len(parsed.words) > 1:
        raise ConfigError(f"one run at a time, not {len(parsed.words)}")
    if not parsed.words and not parsed.all("config"):
        raise ConfigError("which agent? Give a run or --config NAME")
    run = last_stage(resolve(parsed.words[0])) if parsed.words else None
    if parsed.get("episodes"):
        episodes = parsed.integer("episodes", 1)
    return load_agent(run, parsed.request(), which, episodes)


def numbers(episodes: Sequence[Any]) -> dict[str, Any]:
    from rl_lightning.functional.scores import bootstrap_interval, iqm, mean, std
    from rl_lightning.rollout.evaluate import extra_means

    returns = [episode.episode_return for episode in episodes]
    low, high = bootstrap_interval(returns, statistic=mean)
    found = {"mean": mean(returns), "std": std(returns), "iqm": iqm(returns), "low": low, "high": high}
    if cut := sum(episode.cut for episode in episodes):
        found["cut"] = cut
    found |= {
        "min": min(returns),
        "max": max(returns),
        "length": mean([episode.length for episode in episodes]),
    }
    return found | extra_means(episodes)


def statistics(title: str, episodes: Sequence[Any]) -> str:
    """Mean, IQM and 95 % interval of the returns, and the means of what else was tracked."""
    from rl_lightning.rollout.evaluate import extra_means

    found = numbers(episodes)
    interval = f"{found['low']:.2f} to {found['high']:.2f}"
    extra = [f"{key} {value:.3g}" for key, value in extra_means(episodes).items()]
    if "cut" in found:
        extra.append(f"{found['cut']} of {len(episodes)} episodes cut (--eval_max_steps)")
    return "\n".join(
        [
            f"{title} · {len(episodes)} episodes",
            f"return  mean {found['mean']:.2f}  IQM {found['iqm']:.2f}  95 % interval {interval}",
            f"        std {found['std']:.2f}  min {found['min']:.2f}  max {found['max']:.2f}",
            "length  " + "  ".join([f"mean {found['length']:.1f}", *extra]),
        ]
    )
