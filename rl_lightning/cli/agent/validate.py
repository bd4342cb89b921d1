"""`rl validate`."""

from __future__ import annotations

from rl_lightning.cli.agent.named_agent import TAKES, named_agent
from rl_lightning.cli.flags import parse
from rl_lightning.cli.options import OWN_SWITCHES
from rl_lightning.cli.outputs import note


def validate(words: list[str]) -> int:
    """evaluate as in training

    usage: rl validate RUN | --config NAME [options]

    Evaluates a run's last checkpoint as training does (same seeds), or a config's untrained agent.

      rl validate ppo-cartpole-1 --episodes 50

      --checkpoint best|last|PATH   (default last)
      --episodes N                  (default: the run's eval_episodes)

    [CONFIG]
    """
    agent = named_agent(parse(words, TAKES, OWN_SWITCHES, config=True, command="validate"), "last", None)
    from rl_lightning.runs.agents.evaluate_agent import validate_agent

    print(validate_agent(agent, note))
    return 0
