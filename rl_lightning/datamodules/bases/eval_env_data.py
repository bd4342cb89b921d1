"""What DataModules share whose env serves evaluation alone."""

from __future__ import annotations

from typing import Any

from rl_lightning.datamodules.bases.env_data import MOST_EVAL_ENVS
from rl_lightning.datamodules.bases.rl_data import RLData
from rl_lightning.envs.make import EnvConfig, make_envs, probe_spec
from rl_lightning.envs.own_envs import EnvLike, as_env_config


class EvaluatedData(RLData):
    """Owns a vector of evaluation envs, where there is an env at all."""

    env: EnvConfig | None
    _eval_envs: Any = None

    def eval_envs(self, episodes: int) -> Any:
        """Sync envs without what is meant for training only; the same ones serve every evaluation."""
        count = min(episodes, MOST_EVAL_ENVS)
        if self._eval_envs is None or self._eval_envs.num_envs != count:
            self._close()
            if self.eval_model is not None:
                self._eval_envs = self.model_envs(count)
            elif self.env is not None:
                self._eval_envs = make_envs(self.env, count, "sync", training=False)
        return self._eval_envs

    def render_env(self) -> Any:
        if self.eval_model is not None:
            return self.filmed_model()
        if self.env is None:
            return super().render_env()
        return make_envs(self.env, 1, "sync", render_mode="rgb_array", training=False)

    def _close(self) -> None:
        if self._eval_envs is not None:
            self._eval_envs.close()
            self._eval_envs = None

    def teardown(self, stage: str) -> None:
        self._close()


class EvalEnvData(EvaluatedData):
    """Owns a vector of evaluation envs.

    Args:
        env: The environment and all that is wrapped around it.
    """

    env: EnvConfig

    def __init__(self, env: EnvLike) -> None:
        super().__init__()
        self.env = as_env_config(env)
        self.spec = probe_spec(self.env)
