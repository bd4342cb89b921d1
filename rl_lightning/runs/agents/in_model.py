"""An agent that is evaluated in a learned model: which one, and how far each of its returns is to be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rl_lightning.envs.model_env.learned_env import artifact_name, rule_named
from rl_lightning.errors import ConfigError
from rl_lightning.io.text import number
from rl_lightning.runs.agents.agent import LoadedAgent

PERCENTILE = 1.0
COLUMNS = ("return", "length", "below threshold", "disagreement")


class ModelChoice(NamedTuple):
    """What the command line says of the model.

    Args:
        dynamics: Artifact of a dynamics stage.
        density: Artifact of a density stage; null: the run's own, if it has one.
        termination: Class of the rule that ends an episode; null: the run's own, or by the data.
    """

    dynamics: str
    density: str | None = None
    termination: str | None = None


def act_in_model(agent: LoadedAgent, choice: ModelChoice) -> None:
    """From here on the agent's data evaluate in the model."""
    data = agent.cli.datamodule
    if agent.cli.model.evaluated_on == "rows":
        raise ConfigError(f"{type(agent.cli.model).__name__} does not act: --in is for policies")
    rule = (
        getattr(data, "termination", None) if choice.termination is None else rule_named(choice.termination)
    )
    data.evaluate_in(choice.dynamics, choice.density or density_of(data), rule, percentile_of(data))


def density_of(data: Any) -> str | None:
    """The density that a run was penalised by, or evaluated with."""
    named = getattr(getattr(data, "penalty", None), "density", None)
    if named is None and data.eval_model is not None:
        named = data.eval_model.density
    return None if named is None else str(named)


def percentile_of(data: Any) -> float:
    return float(getattr(getattr(data, "penalty", None), "percentile", PERCENTILE))


def model_text(data: Any, episodes: Sequence[Any]) -> str:
    """Where the episodes were played, and beside each return how far it is to be trusted."""
    world = data.learned_env()
    head = (
        f"in the model {artifact_name(data.eval_model.dynamics)}: {world.horizon} steps at most, from "
        f"{len(world.starts)} held-out starts"
    )
    if world.recorded_return is not None:
        head += f"; recorded there: {world.recorded_return:.2f}"
    columns = COLUMNS if world.density is not None else (*COLUMNS[:2], COLUMNS[3])
    rows = [columns, *(cells(episode, world.density is not None) for episode in episodes)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(columns))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    if world.density is not None:
        lines.append(
            f"below threshold: less likely than all but {world.percentile:g}% of recorded held-out rows"
        )
    lines.append(
        "disagreement: how far the members' predictions lie apart; 1 is the spread of the data themselves"
    )
    return "\n".join([head, *lines])


def cells(episode: Any, has_density: bool) -> tuple[str, ...]:
    below = (f"{episode.extra.get('ood_fraction', 0.0):.1%}",) if has_density else ()
    apart = number(episode.extra.get("disagreement", 0.0))
    return f"{episode.episode_return:.2f}", str(episode.length), *below, apart


def model_values(data: Any) -> dict[str, Any]:
    """The same for test.json."""
    world = data.learned_env()
    return {
        "evaluated_in": artifact_name(data.eval_model.dynamics),
        "density": data.eval_model.density,
        "percentile": world.percentile,
        "horizon": world.horizon,
        "starts": len(world.starts),
        "recorded_return": world.recorded_return,
    }
