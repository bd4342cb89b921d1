"""The agent that a command line names."""

from __future__ import annotations

from rl_lightning.cli.flags import ParsedArgs
from rl_lightning.errors import ConfigError
from rl_lightning.runs.agents.agent import LoadedAgent, load_agent
from rl_lightning.runs.store.run_folder import Run, resolve
from rl_lightning.runs.store.select_runs import last_stage

IN_MODEL = ("in", "density", "termination")
TAKES = ("config", "import", "checkpoint", "episodes", "output", "render")


def named_run(parsed: ParsedArgs, command: str) -> Run:
    """The run; of a pipeline its last stage."""
    if not parsed.words:
        raise ConfigError(f"rl {command} needs a run; see them with: rl list")
    return last_stage(resolve(parsed.words[0]))


def named_agent(parsed: ParsedArgs, which: str, episodes: int | None) -> LoadedAgent:
    """A run's agent, or the untrained one of a config.

    Args:
        parsed: The command line.
        which: The checkpoint where it names none.
        episodes: Of each evaluation where it says nothing; null: as the run has it.
    """
    if len(parsed.words) > 1:
        raise ConfigError(f"one run at a time, not {len(parsed.words)}")
    if not parsed.words and not parsed.all("config"):
        raise ConfigError("which agent? Give a run or --config NAME")
    run = last_stage(resolve(parsed.words[0])) if parsed.words else None
    if parsed.get("episodes"):
        episodes = parsed.integer("episodes", 1)
    return load_agent(run, parsed.request(), which, episodes)


def in_model(agent: LoadedAgent, parsed: ParsedArgs) -> LoadedAgent:
    """The same agent, to be played in the learned model that `--in` names; as it is where nothing names one."""
    if parsed.get("in") is None:
        given = next((name for name in IN_MODEL if parsed.get(name) is not None), None)
        if given is not None:
            raise ConfigError(f"--{given} belongs to --in DYNAMICS")
        return agent
    from rl_lightning.runs.agents.in_model import ModelChoice, act_in_model

    act_in_model(agent, ModelChoice(str(parsed.get("in")), parsed.get("density"), parsed.get("termination")))
    return agent
