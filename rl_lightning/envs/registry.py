"""Which suite an env id belongs to, imported only when the id calls for it."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium
from gymnasium.envs.registration import EnvSpec as GymSpec

from rl_lightning.envs.suites.gl import prepare_gl
from rl_lightning.errors import ConfigError, EnvError, RLError
from rl_lightning.extras import misfit, pip_command
from rl_lightning.io import nearness
from rl_lightning.io.trust import ALLOWED_IMPORTS

Env = gymnasium.Env[Any, Any]


class Suite(NamedTuple):
    extra: str  # of this package, for the pip line
    pattern: str  # of its ids
    module: str  # has build(env_id, kwargs, max_episode_steps, render_mode) and known_ids()


_OGBENCH = r"(visual-)?(cube|scene|puzzle|pointmaze|antmaze|humanoidmaze|antsoccer|powderworld)-"
_ROBOTICS = r"(PointMaze|AntMaze|AdroitHand|Fetch|Hand|Franka)\w*-v\d+$"
SUITES = (
    Suite("", r"rl/Model-", "rl_lightning.envs.model_env"),
    Suite("", r"rl/", "rl_lightning.envs.toys"),
    Suite("dmc", r"dmc/", "rl_lightning.envs.suites.dmc"),
    Suite("minigrid", r"(MiniGrid|BabyAI)-", "rl_lightning.envs.suites.minigrid"),
    Suite("crafter", r"Crafter(No)?Reward-", "rl_lightning.envs.suites.crafter"),
    Suite("", r"MinAtar/", "rl_lightning.envs.suites.minatar"),
    Suite("box2d", r"CarRacing-", "rl_lightning.envs.suites.carracing"),
    Suite("robotics", _ROBOTICS, "rl_lightning.envs.suites.robotics"),
    Suite("ogbench", _OGBENCH, "rl_lightning.envs.suites.ogbench"),
    Suite("atari", r"ALE/|\w+(NoFrameskip|Deterministic|-ram)-v\d+$", "rl_lightning.envs.suites.atari"),
)


def suite_of(env_id: str) -> Suite | None:
    """The first suite whose ids look like this one."""
    return next((suite for suite in SUITES if re.match(suite.pattern, env_id)), None)


def load_suite(suite: Suite, env_id: str) -> Any:
    """The suite's module; what it lacks is told with the line that installs it."""
    try:
        return importlib.import_module(suite.module)
    except ImportError as error:
        raise ConfigError(f"{env_id} needs {error.name or error}: {pip_command(suite.extra)}") from error


def build_base(
    env_id: str, kwargs: dict[str, Any], max_episode_steps: int | None, render_mode: str | None
) -> Env:
    """The env of `env_id` with its time limit, before any wrapper of ours."""
    module = find_suite(env_id)
    if render_mode is not None or kwargs.get("pixels") or kwargs.get("render_mode"):
        prepare_gl()
    if module is None:
        return gym_make(env_id, kwargs, max_episode_steps, render_mode)
    env: Env = module.build(env_id, kwargs, max_episode_steps, render_mode)
    return env


def find_suite(env_id: str) -> Any:
    """The module of the suite that has this id, None for one of Gymnasium's; what nobody has is refused."""
    check_prefix(env_id)
    for suite in SUITES:
        if re.match(suite.pattern, env_id):
            module = load_suite(suite, env_id)
            if env_id in module.known_ids():
                return module
    if ":" not in env_id and env_id not in gymnasium.registry:
        raise unknown_id(env_id)
    return None


def check_prefix(env_id: str) -> None:
    """`module:Env-v0` imports the module: allow that only where the user asked for it."""
    module, colon, _ = env_id.partition(":")
    if colon and not any(module == name or module.startswith(f"{name}.") for name in ALLOWED_IMPORTS):
        raise ConfigError(
            f"env id '{env_id}' would import the module '{module}'; allow it with --import {module}"
        )


def unknown_id(env_id: str) -> ConfigError:
    ids = all_ids()
    space, slash, name = env_id.partition("/")
    is_unknown_space = bool(slash) and not any(known.startswith(f"{space}/") for known in ids)
    alike = [known for known in ids if "/" in known] if is_unknown_space else ids  # lab/Robot is not Acrobot
    near = nearest(env_id, alike) or (name if is_unknown_space and name in ids else None)
    of_user = "; if a package of yours registers it, add: --import PACKAGE" if is_unknown_space else ""
    hint = f"; did you mean '{near}'?" if near else of_user
    return ConfigError(f"unknown env id '{env_id}'{hint}")


def all_ids() -> list[str]:
    """Every id of Gymnasium and of each suite that is installed."""
    ids = set(gymnasium.registry)
    for suite in SUITES:
        try:
            with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
                ids.update(
                    importlib.import_module(suite.module).known_ids()
                )  # some suites greet when imported
        except ImportError:
            continue  # a suite that is not installed has no ids to offer
    return sorted(ids)


def nearest(env_id: str, ids: list[str]) -> str | None:
    """The id meant most likely: the newest version of the same name, else the most similar spelling."""

    def version(name: str) -> int:
        return int(name.rpartition("-v")[2]) if re.search(r"-v\d+$", name) else 0

    stem = re.sub(r"-v\d+$", "", env_id).lower()
    same = [name for name in ids if re.sub(r"-v\d+$", "", name).lower() == stem]
    exact = [name for name in ids if name.rpartition("/")[2].lower() == env_id.lower()]
    for candidates in (exact, same):
        if candidates:
            return max(candidates, key=version)
    # Names without their versions: -v4 makes no two ids alike.
    names: dict[str, list[str]] = {}
    for name in ids:
        names.setdefault(re.sub(r"-v\d+$", "", name).lower(), []).append(name)
    near = [name for name in nearness.nearest(stem, names) if nearness.share_an_end(stem, name)]
    return max(names[near[0]], key=version) if near else None


def gym_make(
    env_id: str, kwargs: dict[str, Any], max_episode_steps: int | None = None, render_mode: str | None = None
) -> Env:
    """`gymnasium.make` without its checkers, and with errors that say what to do."""
    if ":" in env_id:
        module, _, env_id = env_id.partition(":")
        importlib.import_module(module)
    spec = gymnasium.registry.get(env_id)
    if spec is None:
        raise unknown_id(env_id)
    lean = GymSpec(**{**_fields(spec), "order_enforce": False, "disable_env_checker": True})
    options = {**kwargs, **({"render_mode": render_mode} if render_mode else {})}
    try:
        with quiet_mujoco(str(spec.entry_point)):
            return gymnasium.make(lean, max_episode_steps=max_episode_steps, **options)
    except RLError:
        raise
    except Exception as error:
        raise _refusal(env_id, spec, options, error) from error


def _refusal(env_id: str, spec: Any, options: dict[str, Any], error: Exception) -> RLError:
    """Why an env cannot be made, and what to do."""
    if isinstance(error, ImportError | gymnasium.error.DependencyNotInstalled):
        if "mujoco_py" in str(error) or "mujoco v2 and v3" in str(error):
            newer = nearest(env_id, [name for name in gymnasium.registry if name != env_id])
            return ConfigError(f"{env_id} needs mujoco_py, which is no longer made; use {newer}")
        extra = next((name for name in ("mujoco", "box2d", "atari") if name in str(spec.entry_point)), "all")
        return ConfigError(f"{env_id}: {error}. Install it with: {pip_command(extra)}")
    entry = spec.entry_point
    module = entry if isinstance(entry, str) else str(getattr(entry, "__module__", ""))
    if wrong := misfit(module.split(".")[0]):
        return EnvError(f"{env_id} cannot be made: {wrong}")
    if isinstance(error, TypeError | ValueError | gymnasium.error.Error):
        return ConfigError(f"{env_id} cannot be made with {options}: {error}")
    return EnvError(f"{env_id} cannot be made: {type(error).__name__}: {error}")


@contextlib.contextmanager
def quiet_mujoco(entry_point: str) -> Iterator[None]:
    """Without what MuJoCo prints of the models that Gymnasium ships; its warnings of a simulation stay."""
    mujoco = importlib.import_module("mujoco") if "mujoco" in entry_point else sys.modules.get("mujoco")
    if mujoco is None:
        yield
        return
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(None)


def _fields(spec: GymSpec) -> dict[str, Any]:
    names = ("id", "entry_point", "reward_threshold", "nondeterministic", "max_episode_steps")
    more = ("additional_wrappers", "vector_entry_point")
    return {name: getattr(spec, name) for name in (*names, *more)} | {"kwargs": dict(spec.kwargs)}
