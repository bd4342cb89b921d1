"""`rl doctor --deep`: really imports, steps and renders one env of each suite."""

from __future__ import annotations

import warnings

from rl_lightning.analysis.doctor import Finding, installed
from rl_lightning.extras import pip_command

# suite -> (extra, a module it needs, an env of it)
SUITES = {
    "classic control": ("", "pygame", "CartPole-v1"),
    "box2d": ("box2d", "Box2D", "LunarLander-v3"),
    "mujoco": ("mujoco", "mujoco", "Hopper-v5"),
    "atari": ("atari", "ale_py", "ALE/Pong-v5"),
    "dm_control": ("dmc", "dm_control", "dmc/cartpole-swingup"),
    "minigrid": ("minigrid", "minigrid", "MiniGrid-Empty-5x5-v0"),
    "crafter": ("crafter", "crafter", "CrafterReward-v1"),
    "robotics, mazes": ("robotics", "gymnasium_robotics", "PointMaze_UMaze-v3"),
    "robotics, arms and hands": ("robotics", "gymnasium_robotics", "FetchReach-v4"),
    "robotics, kitchen": ("robotics", "gymnasium_robotics", "FrankaKitchen-v1"),
    "ogbench": ("ogbench", "ogbench", "cube-single-singletask-task1-v0"),
}


def deep_report() -> list[Finding]:
    findings = []
    for suite, (extra, module, env_id) in SUITES.items():
        if not installed(module):
            findings.append(Finding("note", f"{suite}: not installed", pip_command(extra)))
            continue
        findings.append(_step(suite, env_id, extra))
        if findings[-1].level == "ok":
            findings.append(_render(suite, env_id))
    return findings


def _step(suite: str, env_id: str, extra: str) -> Finding:
    from rl_lightning.envs.make import EnvConfig, make_env

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            env = make_env(EnvConfig(id=env_id))
            env.reset(seed=0)
            for _ in range(5):
                env.step(env.action_space.sample())
            env.close()
    except Exception as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        return Finding(
            "bad", f"{suite}: {env_id} does not step ({first})", pip_command(extra) if extra else ""
        )
    return Finding("ok", f"{suite}: {env_id} steps")


def _render(suite: str, env_id: str) -> Finding:
    from rl_lightning.envs.make import EnvConfig, make_env

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            env = make_env(EnvConfig(id=env_id), render_mode="rgb_array")
            env.reset(seed=0)
            frame = env.render()
            env.close()
        shape = getattr(frame, "shape", None)
    except Exception as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        repair = "apt-get install libegl1 libgl1-mesa-dri, then export MUJOCO_GL=egl"
        return Finding("note", f"{suite}: {env_id} does not draw ({first})", repair)
    return (
        Finding("ok", f"{suite}: {env_id} draws {shape}")
        if shape
        else Finding("note", f"{suite}: no frame came")
    )
