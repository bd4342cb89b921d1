"""Envs handed over in Python: an id, settings, a class, or a function that makes one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, cast

import cloudpickle
import gymnasium
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from rl_lightning.envs.make import EnvConfig
from rl_lightning.errors import ConfigError, EnvError, RLError

Env = gymnasium.Env[Any, Any]
Factory = Callable[..., Env]

if TYPE_CHECKING:
    EnvLike = EnvConfig | str | dict[str, Any] | type[Env] | Factory
else:
    EnvLike = EnvConfig  # what a config can say

TAKEN = "an env is given as its id, a dict of EnvConfig's settings, a class, or a function that makes one"


@dataclass
class OwnEnv(EnvConfig):
    """An env that a class or function of the user's makes. No config can name it: it is handed over as an object.

    Args:
        factory: Called with `kwargs`, and with `render_mode` where it takes one and a picture is wanted.
    """

    factory: Factory | None = None

    def base(self, kwargs: dict[str, Any], render_mode: str | None) -> Env:
        assert self.factory is not None
        draws = {"render_mode": render_mode} if render_mode and takes(self.factory, "render_mode") else {}
        try:
            env = self.factory(**kwargs, **draws)
        except RLError:
            raise
        except Exception as error:
            raise EnvError(f"{self.id} cannot be made: {type(error).__name__}: {error}") from error
        if not isinstance(env, gymnasium.Env):
            raise ConfigError(f"{self.id} made a {type(env).__name__}, not a gymnasium.Env")
        if render_mode and env.render_mode != render_mode:
            raise ConfigError(f"{self.id} cannot draw: what makes it takes no render_mode")
        env = without_checks(env)
        return env if self.max_episode_steps is None else TimeLimit(env, self.max_episode_steps)

    def check_workers(self) -> None:
        try:
            cloudpickle.dumps(self.factory)
        except Exception as error:  # whatever a closure holds may refuse in its own way
            raise ConfigError(
                f"{self.id} cannot go to worker processes ({str(error).splitlines()[0]}); use vectorization='sync'"
            ) from None


def as_env_config(env: EnvLike) -> EnvConfig:
    """What a data module is given as `env`, as the settings that everything else takes."""
    value = cast(Any, env)
    if isinstance(value, EnvConfig):
        return value
    if isinstance(value, str):
        return EnvConfig(id=value)
    if isinstance(value, dict):
        known = [field.name for field in fields(EnvConfig)]
        if wrong := [name for name in value if name not in known]:
            raise ConfigError(f"env has no setting '{wrong[0]}'; it has {', '.join(known)}")
        made_by = value.get("id")
        if made_by is None or isinstance(made_by, str):
            return EnvConfig(**value)
        own = cast(OwnEnv, as_env_config(made_by))
        return OwnEnv(**{**value, "id": own.id, "factory": own.factory})
    if isinstance(value, gymnasium.Env):
        raise ConfigError(f"env is a made {type(value).__name__}, but several are needed; {TAKEN}")
    if isinstance(value, type) and not issubclass(value, gymnasium.Env):
        raise ConfigError(f"{value.__name__} is not a gymnasium.Env; {TAKEN}")
    if not callable(value):
        raise ConfigError(f"env is {value!r:.60}; {TAKEN}")
    return OwnEnv(id=id_of(value), factory=value)


def id_of(factory: Factory) -> str:
    """The id of what a function makes where Gymnasium knows it, else the name of the class or function."""
    if isinstance(factory, type):
        return factory.__name__
    name = getattr(factory, "__name__", type(factory).__name__)
    env = OwnEnv(id="env", factory=factory).base({}, None)
    try:
        known = env.spec.id if env.spec is not None else None
        return known or (type(env.unwrapped).__name__ if name == "<lambda>" else name)
    finally:
        env.close()


def takes(factory: Factory, name: str) -> bool:
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return False
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def without_checks(env: Env) -> Env:
    """Without the layers that `gymnasium.make` adds to find mistakes: they cost time at every step."""
    while isinstance(env, OrderEnforcing | PassiveEnvChecker):
        env = env.env
    if isinstance(env, gymnasium.Wrapper):
        env.env = without_checks(env.env)
    return env
