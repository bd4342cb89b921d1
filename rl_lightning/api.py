"""The same from Python: `load` a run's policy, `find` runs, `compare` them. torch is imported by `load` alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl_lightning.errors import ConfigError

if TYPE_CHECKING:
    from rl_lightning.experiments.compare import Comparison
    from rl_lightning.experiments.index import Listed


class LoadedPolicy:
    """A trained policy that acts. One with memory remembers until `reset`.

    Args:
        agent: A built agent with its weights, from `load`.
    """

    def __init__(self, agent: Any) -> None:
        from rl_lightning.runs.agents.prediction import action_codec

        self.model, self.data, self.run = agent.cli.model, agent.cli.datamodule, agent.run
        self.spec = self.data.spec
        self.model.eval()
        self._codec, self._carry = action_codec(self.data), None
        self._draw = self.model.evaluation_draw(self.data.seed)

    def reset(self, seed: int | None = None) -> None:
        """Forgets: the next observation is the first of an episode.

        Args:
            seed: Of the actions of a policy that draws them; null: they go on from where they are.
        """
        self._carry = None
        if seed is not None:
            self._draw = self.model.evaluation_draw(seed)

    def act(self, obs: Any, action_mask: Any = None) -> Any:
        """The action for one observation or a batch of them, as evaluation plays it and the env itself takes it.

        Args:
            obs: As the run's env gives it: [O] or [B, O].
            action_mask: Which discrete actions are legal, where the env says so.
        """
        import numpy as np
        import torch

        spec = self.spec
        rows = np.asarray(obs, np.uint8 if spec.obs_dtype == "uint8" else np.float32)
        single = rows.shape == tuple(spec.obs_shape)
        rows = rows[None] if single else rows
        if rows.shape[1:] != tuple(spec.obs_shape):
            raise ConfigError(
                f"obs is {list(np.shape(obs))}, expected {list(spec.obs_shape)} or a batch of it"
            )
        legal = None if action_mask is None else torch.as_tensor(np.atleast_2d(action_mask).astype(bool))
        if self._carry is None or (self._carry and len(self._carry[0]) != len(rows)):
            self._carry = self.model.initial_carry(len(rows))
        with torch.no_grad():
            action, self._carry = self.model.act(
                torch.from_numpy(rows.copy()), self._carry, self._draw, legal
            )
        chosen = action.cpu().numpy()
        decoded = self._codec.decode_batch(chosen)
        return (
            decoded[0] if single else decoded if isinstance(decoded[0], dict | tuple) else np.asarray(decoded)
        )

    def imagine(self, horizon: int = 15, actions: Any = None) -> Any:
        """What a world model expects after the last `act`: obs, action, reward and live, each [B, H, ...].

        Args:
            horizon: Steps to imagine.
            actions: What is done, [B, H, ...] as the model takes it; null: what the policy would do.
        """
        import torch

        if not hasattr(self.model, "imagine") or not self._carry:
            raise ConfigError(
                "imagine needs a policy with a world model (Dreamer, PlaNet), after its first act()"
            )
        given = None if actions is None else torch.as_tensor(actions)
        with torch.no_grad():
            return self.model.imagine(self._carry, horizon, given)


def load(run: str | Path, checkpoint: str = "best", imports: Sequence[str] = ()) -> LoadedPolicy:
    """The policy of a run, by name or folder, on the CPU.

    Args:
        run: Its name or folder.
        checkpoint: best, last, a milestone (step-20000) or a path.
        imports: Packages of yours that the run was made with, as for --import.
    """
    from rl_lightning.experiments.runs import resolve
    from rl_lightning.experiments.select import last_stage
    from rl_lightning.runs.agents.agent import load_agent
    from rl_lightning.runs.request import Request

    request = Request(checkpoint=checkpoint, imports=list(imports))
    agent = load_agent(last_stage(resolve(str(run))), request)
    if not getattr(agent.cli.model, "acts", True):
        raise ConfigError(f"'{run}' is a {type(agent.cli.model).__name__}: it predicts, and does not act")
    return LoadedPolicy(agent)


def find(
    *conditions: str,
    sort: str | None = None,
    reverse: bool = False,
    limit: int | None = None,
    root: str | Path | None = None,
    **fields: Any,
) -> list[Listed]:
    """Runs, like `rl list`: each with name, folder, record, status, config and metrics.

    Args:
        conditions: As for --filter: "model.lr=3e-4", "eval/return>400".
        sort: As for --sort.
        reverse: The other way round.
        limit: At most so many.
        root: Where runs live; null: RL_LOGS or lightning_logs.
        fields: Fields of the record: algorithm="SAC", env="Hopper-v5".
    """
    from rl_lightning.experiments.filters import Condition, keep, order, parse_condition
    from rl_lightning.experiments.index import Index

    wanted = [parse_condition(text) for text in conditions]
    wanted += [Condition(key, "=", str(value)) for key, value in fields.items()]
    with Index(None if root is None else Path(root)) as index:
        found = keep([run for run in index.runs() if not run.is_stage], wanted)
        found = order(found, sort, reverse) if sort else found[::-1] if reverse else found
    return found[:limit]


def compare(
    *names: str | Path,
    metrics: str | Sequence[str] = "reward",
    threshold: float | None = None,
    optimal: float | None = None,
    against: str | None = None,
) -> Comparison:
    """Runs or groups of seeds side by side, like `rl compare`.

    Args:
        names: Runs, groups or folders.
        metrics: One metric or several.
        threshold: Score that counts as reached.
        optimal: Score that the optimality gap is measured from.
        against: env_step, update or time.
    """
    from rl_lightning.experiments.compare import compare as compare_groups
    from rl_lightning.experiments.index import Index
    from rl_lightning.experiments.select import choose, several

    several([str(name) for name in names], "compare")
    with Index() as index:
        groups = choose([str(name) for name in names], index)
    chosen = [metrics] if isinstance(metrics, str) else list(metrics)
    return compare_groups(groups, chosen, threshold, optimal, against)
