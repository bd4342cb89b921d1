"""The state of simulators that keep it in memory of their own: MuJoCo and the Atari emulator."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from rl_lightning.envs.snapshot.codec import MismatchError, UnsaveableError

# Shapes and pictures: large, and constant once a model is made.
_BULK = ("mesh_", "tex_", "skin_", "flex", "bvh_", "oct_", "key_")


def _data_fields(data: Any) -> list[tuple[str, np.ndarray]]:
    """Every float of MjData that lives as long as it does: the state, and all that is derived from it.

    Derived fields count, too: rewards of Ant, Humanoid and others read those of the step before. Fields in
    the arena (contacts, constraints) are made anew by each step, and integers follow from the positions.
    """
    start, fields = data.qpos.ctypes.data, []
    for name in dir(data):
        value = None if name.startswith("_") else getattr(data, name)
        if not isinstance(value, np.ndarray) or not value.size:
            continue
        inside = 0 <= value.ctypes.data - start < data.nbuffer
        if name == "energy" or (inside and (value.dtype == np.float64 or name == "eq_active")):
            fields.append((name, value))
    return fields


def _model_fields(model: Any) -> list[tuple[str, np.ndarray]]:
    """Every float of MjModel that a task may change at a reset: sizes, places, masses, colours, heights."""
    fields = []
    for name in dir(model):
        value = None if name.startswith(("_", *_BULK)) else getattr(model, name)
        if isinstance(value, np.ndarray) and value.size and value.dtype.kind == "f":
            fields.append((name, value))
    return fields


def _layout(fields: Iterable[tuple[str, np.ndarray]]) -> int:
    return zlib.crc32(";".join(f"{name}:{value.dtype.str}{value.shape}" for name, value in fields).encode())


def _pack(fields: list[tuple[str, np.ndarray]]) -> list[Any]:
    joined = b"".join(np.ascontiguousarray(value).tobytes() for _, value in fields)
    return [_layout(fields), zlib.compress(joined, 1)]


def _unpack(fields: list[tuple[str, np.ndarray]], node: list[Any]) -> list[np.ndarray]:
    layout, packed = node
    size = sum(value.nbytes for _, value in fields)
    joined = zlib.decompressobj().decompress(packed, size + 1)
    if layout != _layout(fields) or len(joined) != size:
        raise MismatchError("the state of another MuJoCo model or version")
    values, at = [], 0
    for _, value in fields:
        part = np.frombuffer(joined, value.dtype, value.size, at)
        values.append(part.reshape(value.shape))
        at += value.nbytes
    return values


def save_mj_model(model: Any) -> list[Any]:
    options = {name: getattr(model.opt, name) for name in _OPTIONS}
    plain = {name: v.tolist() if isinstance(v, np.ndarray) else float(v) for name, v in options.items()}
    return [_pack(_model_fields(model)), plain]


_OPTIONS = ("timestep", "density", "viscosity", "gravity", "wind", "magnetic")


def load_mj_model(model: Any, node: list[Any]) -> None:
    packed, options = node
    fields = _model_fields(model)
    for (_, field), value in zip(fields, _unpack(fields, packed), strict=True):
        field[...] = value
    for name in _OPTIONS:
        if isinstance(options[name], list):
            getattr(model.opt, name)[:] = [float(number) for number in options[name]]
        else:
            setattr(model.opt, name, float(options[name]))


def save_mj_data(data: Any) -> list[Any]:
    import mujoco

    model = data.model
    if model.nplugin or model.opt.enableflags & int(mujoco.mjtEnableBit.mjENBL_SLEEP):
        raise UnsaveableError("a MuJoCo model with plugins or sleeping bodies")
    return [float(data.time), _pack(_data_fields(data))]


def load_mj_data(data: Any, node: list[Any]) -> None:
    """Put the state back, let MuJoCo derive contacts from it, then put back what was derived earlier."""
    import mujoco

    time, packed = node
    fields = _data_fields(data)
    values = _unpack(fields, packed)
    for derive in (True, False):
        data.time = float(time)
        for (_, field), value in zip(fields, values, strict=True):
            field[...] = value
        if derive:
            mujoco.mj_step1(data.model, data)


def save_ale(ale: Any) -> bytes:
    state: bytes = ale.cloneState(include_rng=True).serialize()
    return state


def load_ale(ale: Any, state: bytes) -> None:
    import ale_py

    try:
        ale.restoreState(ale_py.ALEState(state))
    except (SystemError, RuntimeError) as error:  # what its C++ throws comes through as either
        raise MismatchError("a damaged state of the Atari emulator") from error
