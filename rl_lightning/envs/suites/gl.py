"""Off-screen OpenGL for MuJoCo frames. State-based work never comes here."""

from __future__ import annotations

import ctypes
import importlib
import os
from typing import Any

from rl_lightning.errors import EnvError

APT_LINE = "apt-get install libegl1 libgl1-mesa-dri"


def prepare_gl() -> None:
    """Choose EGL where nothing was chosen, no display is there and EGL works."""
    if "MUJOCO_GL" in os.environ or "DISPLAY" in os.environ:
        return
    try:
        ctypes.CDLL("libEGL.so.1")
        importlib.import_module("mujoco.egl")  # opens a display, or raises
    except (OSError, ImportError, AttributeError, RuntimeError):
        return  # the first frame will say what is missing
    os.environ["MUJOCO_GL"] = "egl"


def choose_renderer() -> None:
    """Let `mujoco.Renderer` draw by what was chosen: it binds its GL when mujoco is imported, which may be earlier."""
    if os.environ.get("MUJOCO_GL") == "egl":
        context: Any = importlib.import_module("mujoco.rendering.classic.gl_context")
        context.GLContext = importlib.import_module("mujoco.egl").GLContext


def gl_error(env_id: str, error: Exception) -> EnvError:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return EnvError(
        f"{env_id} cannot render: {reason}\n"
        f"Install off-screen OpenGL ({APT_LINE}) and start with MUJOCO_GL=egl in the environment"
    )
