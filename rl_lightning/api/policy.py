"""A trained policy that acts."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl_lightning.api.spelling import spoken_in_python
from rl_lightning.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from rl_lightning.runs.store.run_folder import Run


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
        self._own_draw: Any = None
        self._seen: Tensor | None = None  # the newest observations
        self._encode: Any = None

    def __repr__(self) -> str:
        run = "" if self.run is None else f" of {self.run.name}"
        return f"<{type(self.model).__name__} policy{run} on {self.spec.env_id}>"

    def reset(self, seed: int | None = None) -> None:
        """Forgets: the next observation is the first of an episode.

        Args:
            seed: Of the actions of a policy that draws them; null: they go on from where they are.
        """
        self._carry = self._seen = None
        if seed is not None:
            self._draw = self.model.evaluation_draw(seed)

    def act(
        self, obs: Any, action_mask: Any = None, deterministic: bool | None = None, reward: Any = None
    ) -> Any:
        """The action for one observation or a batch of them, as the env itself takes it.

        Args:
            obs: As the run's env gives it: [O] or [B, O], or a dict of one observation or of a batch.
            action_mask: Which discrete actions are legal, where the env says so.
            deterministic: False draws the action, True takes the likeliest; null: as evaluation plays. A policy that
                can only be drawn from (diffusion) always draws.
            reward: What the last action earned, a number or [B]; a policy that is asked for a return must be told.
        """
        import numpy as np
        import torch

        from rl_lightning.rollout.collect import add_reward

        rows, single = self._tensor(obs)
        legal = None if action_mask is None else torch.as_tensor(np.atleast_2d(action_mask).astype(bool))
        if self._carry is None or (self._carry and len(self._carry[0]) != len(rows)):
            self._carry = self.model.initial_carry(len(rows))
        elif self.model.reward_carry is not None:
            if reward is None:
                raise ConfigError(
                    f"{type(self.model).__name__} counts what it has earned: act(obs, reward=...), or reset() where an "
                    "episode begins"
                )
            self._carry = add_reward(self._carry, self.model.reward_carry, np.broadcast_to(reward, len(rows)))
        with torch.no_grad():
            action, self._carry = self.model.act(rows, self._carry, self._generator(deterministic), legal)
        self._seen = rows
        chosen = action.cpu().numpy()
        decoded = self._codec.decode_batch(chosen)
        return (
            decoded[0] if single else decoded if isinstance(decoded[0], dict | tuple) else np.asarray(decoded)
        )

    def _tensor(self, obs: Any) -> tuple[Tensor, bool]:
        """Observations as the model takes them, and whether it was a single one."""
        import numpy as np
        import torch

        spec = self.spec
        if isinstance(obs, Mapping):
            obs = self._rows(obs)
        rows = np.asarray(obs, np.uint8 if spec.obs_dtype == "uint8" else np.float32)
        single = rows.shape == tuple(spec.obs_shape)
        rows = rows[None] if single else rows
        if rows.shape[1:] != tuple(spec.obs_shape):
            raise ConfigError(
                f"obs is {list(np.shape(obs))}, expected {list(spec.obs_shape)} or a batch of it"
            )
        return torch.from_numpy(rows.copy()), single

    def _rows(self, obs: Mapping[str, Any]) -> np.ndarray:
        """A dict of one observation as a row, one of a batch as rows."""
        import numpy as np

        from rl_lightning.runs.agents.prediction import obs_encoder

        if self._encode is None:
            self._encode = obs_encoder(self.data)
        space = self._encode.space
        missing = [key for key in getattr(space, "spaces", {}) if key not in obs]
        if missing or not hasattr(space, "spaces"):
            raise ConfigError(
                f"obs has no {missing[0]!r}"
                if missing
                else f"obs is a dict; expected {list(self.spec.obs_shape)}"
            )
        key, part = next((k, p) for k, p in space.spaces.items())
        if np.ndim(obs[key]) == len(part.shape or ()):
            return np.asarray(self._encode(obs))
        return np.stack([self._encode({k: obs[k][i] for k in space.spaces}) for i in range(len(obs[key]))])

    def _generator(self, deterministic: bool | None) -> Any:
        """Where an action is drawn from; None for the likeliest."""
        by_nature = not type(self.model).deterministic_eval  # a policy that has no likeliest action
        if deterministic is None or (deterministic and by_nature):
            return self._draw
        if deterministic:
            return None
        if self._own_draw is None:
            import torch

            self._own_draw = torch.Generator().manual_seed(self.data.seed)
        return self._draw if self._draw is not None else self._own_draw

    @spoken_in_python()
    def evaluate(self, episodes: int = 20, seed: int = 1000) -> np.ndarray:
        """Returns of whole episodes in the run's own env, played as evaluation plays.

        Args:
            episodes: How many.
            seed: Of the envs, and of the actions of a policy that draws them.
        """
        import numpy as np

        from rl_lightning.analysis.evaluation.play_agent import play_episodes

        played = play_episodes(self.model, self.data, episodes, seed)
        return np.array([episode.episode_return for episode in played])

    @spoken_in_python()
    def imagine(self, horizon: int = 15, actions: Any = None, obs: Any = None) -> Any:
        """What a world model expects: obs, action, reward and continuation, each [B, H, ...]; of TD-MPC the latents.

        Args:
            horizon: Steps to imagine.
            actions: What is done, [B, H, ...] as the model takes it; null: what the policy would do.
            obs: Where it begins, as `act` takes it, the first of an episode; null: after the last `act`.
        """
        import torch

        given = None if actions is None else torch.as_tensor(actions)
        start = self._seen if obs is None else self._tensor(obs)[0]
        with torch.no_grad():
            if hasattr(self.model, "imagine_from") and start is not None:
                return self.model.imagine_from(start, horizon, given)
            carry = self._carry
            if obs is not None and start is not None:
                begin = self.model.initial_carry(len(start))
                carry = self.model.act(start, begin, self._generator(None))[1]
            if not hasattr(self.model, "imagine") or not carry:
                raise ConfigError(
                    "imagine needs a policy with a world model (Dreamer, PlaNet, TD-MPC), after its first act() or "
                    "with obs=..."
                )
            return self.model.imagine(carry, horizon, given)


@spoken_in_python()
def load(
    run: Any,
    checkpoint: str | None = None,
    imports: Sequence[str] = (),
    given: Mapping[str, Any] | None = None,
) -> LoadedPolicy:
    """The policy of a run, on the CPU.

    Args:
        run: Its name, its folder, one of its checkpoints (.ckpt), or what `fit` returned.
        checkpoint: best, last, a milestone (step-20000) or a path; null: best, or the file that `run` is.
        imports: Packages of yours that the run was made with. Those that you have imported already need not be named.
        given: The objects that the run was made with, by their dotted names. What `fit` returned still has them.
    """
    from rl_lightning.runs.agents.agent import load_agent
    from rl_lightning.runs.process import unchanged_process
    from rl_lightning.runs.request import Request
    from rl_lightning.runs.store.run_folder import resolve
    from rl_lightning.runs.store.select_runs import last_stage

    place = Path(str(getattr(run, "folder", run)))
    if place.suffix == ".ckpt" and place.is_file():
        checkpoint, place = checkpoint or str(place), run_folder(place)
    whole = resolve(str(place))
    run_stage = last_stage(whole)
    objects = {**getattr(run, "given", {}), **(given or {})}
    if run_stage.folder != whole.folder:
        from rl_lightning.runs.engine.stage_objects import of_stage

        objects = of_stage(objects, run_stage.folder.name, run_stage.read().get("given") or [])
    request = Request(checkpoint=checkpoint or "best", imports=trusted(run_stage, imports), given=objects)
    with unchanged_process():
        agent = load_agent(run_stage, request)
    if agent.cli.model.evaluated_on == "rows":
        raise ConfigError(f"'{run}' is a {type(agent.cli.model).__name__}: it predicts, and does not act")
    return LoadedPolicy(agent)


def run_folder(checkpoint: Path) -> Path:
    """The run that a checkpoint lies in."""
    for folder in checkpoint.resolve().parents:
        if (folder / "run.json").is_file():
            return folder
    raise ConfigError(f"{checkpoint}: lies in no run's folder, so nothing says what its weights belong to")


def trusted(run: Run, imports: Sequence[str]) -> list[str]:
    """Packages that the caller names, and those of the run's record that this process has imported already."""
    recorded = [str(name) for name in run.read().get("imports") or []]
    return [*imports, *(name for name in recorded if name in sys.modules and name not in imports)]
