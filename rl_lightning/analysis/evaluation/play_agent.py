"""Episodes of an agent in its run's own env, as evaluation plays them, and a video of one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rl_lightning.errors import ConfigError
from rl_lightning.rollout.video import record_episode, write_video
from rl_lightning.runs.agents.agent import LoadedAgent
from rl_lightning.runs.agents.evaluate_agent import step_limit


def play_episodes(
    model: Any,
    data: Any,
    episodes: int,
    seed: int,
    render: str | None = None,
    tell: Callable[[str], None] | None = None,
) -> list[Any]:
    """Plays whole episodes.

    Args:
        model: A policy.
        data: Its data, which know the env.
        episodes: How many.
        seed: Of the envs, and of the actions of a policy that draws them.
        render: human: one env, shown on the screen.
        tell: Is called with where episodes that may never end are cut.
    """
    if render:
        from rl_lightning.envs.make import make_envs

        envs = make_envs(data.env, 1, "sync", render_mode=render, training=False)
    else:
        envs = data.eval_envs(episodes)
    if envs is None:
        raise ConfigError(
            f"{type(data).__name__} names no env to play in; give a learned model: --in RUN/dynamics"
        )
    try:
        limit = data.clock.run.eval_max_steps
        if tell is not None and (note := step_limit(envs, limit)):
            tell(note)
        return list(model.run_episodes(envs, episodes, seed, limit))
    finally:
        envs.close()


def check_acts(agent: LoadedAgent, name: str) -> None:
    """Refuses a model of rows, which has no actions."""
    if agent.cli.model.evaluated_on == "rows":
        model = type(agent.cli.model).__name__
        raise ConfigError(f"{model} does not act; for its scores: rl test {name}")


def film_episode(agent: LoadedAgent, seed: int, path: Path) -> str:
    """A video of one episode; an env that cannot draw is no reason to fail."""
    try:
        env = agent.cli.datamodule.render_env()
        try:
            frames, fps = record_episode(agent.cli.model, env, seed)
        finally:
            env.close()
    except Exception as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        if "unexpected keyword argument 'render_mode'" in first:
            return f"no video: {agent.cli.datamodule.spec.env_id} cannot draw: its constructor takes no render_mode"
        return f"no video: this env cannot draw here ({first}); rl doctor says what is missing"
    return str(write_video(frames, path, fps))
