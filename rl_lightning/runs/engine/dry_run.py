"""`rl fit --dry_run`: what would be trained, in shapes, bytes and budgets, without training it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from rl_lightning.datamodules.sequence_data import SequenceData
from rl_lightning.errors import ConfigError
from rl_lightning.io.text import clock_time, file_size, short
from rl_lightning.runs.config.build import RLCLI
from rl_lightning.runs.config.compose import find, shipped
from rl_lightning.runs.engine.own_settings import own_lines
from rl_lightning.runs.engine.throughput_probe import estimate


def describe(cli: RLCLI, names: list[str]) -> str:
    """What differs from the defaults, the shapes, parameters and memory that follow, and how long it would take.

    Args:
        cli: Parsed.
        names: Of the configs; the first one's header is shown.
    """
    lines = ["settings that differ from the defaults (all of them: --print_config)"]
    lines += [f"  {line}" for line in own_lines(cli)] + [""]
    build_shapes(cli)
    spec, model = cli.datamodule.spec, cli.model
    lines.append(f"observation  {observation_of(spec)}")
    lines.append(f"action       {action_of(spec)}")
    for name, child in model.named_children():
        count = sum(weight.numel() for weight in child.parameters())
        if count:
            lines.append(f"parameters   {short(count):>7}  {name}")
    total = sum(weight.numel() for weight in model.parameters())
    lines.append(f"parameters   {short(total):>7}  in all, {file_size(4 * total)} in fp32")
    rows = buffer_rows(cli.datamodule)
    lines += [f"buffer       {short(rows.capacity)} rows, {file_size(rows.size)}"] if rows else []
    lines.append(f"budget       {budget_of(cli)}")
    note = header_of(names)
    lines += [f"{heading_of(names):<11}  {note}"] if note else []
    lines.append(f"time         {estimate(cli).line}")
    return "\n".join([*lines, "nothing was trained, nothing is left behind"])


def build_shapes(cli: RLCLI) -> None:
    """Data and model; weights of any size take no memory."""
    try:
        cli.build(meta=True)
    except (NotImplementedError, RuntimeError):  # a network that computes with its weights while it is made
        cli.build()


def observation_of(spec: Any) -> str:
    """[11] float32; of several parts each by its name."""
    if not spec.obs_parts:
        return f"{list(spec.obs_shape)} {spec.obs_dtype}"
    return ", ".join(f"{name}: {kind} {list(shape)}" for name, kind, shape in spec.obs_parts)


def action_of(spec: Any) -> str:
    """continuous [2], discrete of 4, multi-discrete of 3 x 2."""
    sizes = " x ".join(map(str, spec.action_sizes or ()))
    shape = f"{list(spec.action_shape)}" if spec.action_kind == "continuous" else f"of {sizes}"
    return f"{spec.action_kind.replace('_', '-')} {shape}"


def budget_of(cli: RLCLI) -> str:
    """200k env steps, 5000 updates, at most 2:00:00; whichever is spent first."""
    run = cli.config.run
    counts = [(run.env_steps, "env steps"), (run.updates, "updates")]
    parts = [f"{short(amount)} {unit}" for amount, unit in counts if amount]
    parts += [f"at most {clock_time(3600 * run.max_hours)}"] if run.max_hours is not None else []
    return " or ".join(parts) or "until its phases end"


class BufferSize(NamedTuple):
    """What a replay buffer holds, and its bytes."""

    capacity: int
    size: int


def buffer_rows(data: Any) -> BufferSize | None:
    """Of the replay buffer, made for a moment: pages that are never written cost nothing."""
    factory = vars(data).get("buffer_factory")
    if factory is None:
        return None
    windows = (data.sequence_length, 0) if isinstance(data, SequenceData) else ()
    buffer = factory(data.spec, data.num_envs, *windows)
    return BufferSize(buffer.capacity, size_of(buffer))


def size_of(value: Any) -> int:
    """Bytes of all tensors and arrays that hang on an object; memory that two of them share is counted once."""
    blocks: dict[int, int] = {}
    _gather_blocks(value, blocks, set())
    return sum(blocks.values())


def _gather_blocks(value: Any, blocks: dict[int, int], seen: set[int], depth: int = 5) -> None:
    """Notes every block of memory below `value`, by its address."""
    if depth == 0 or id(value) in seen or isinstance(value, type):
        return
    seen.add(id(value))
    while isinstance(value, np.ndarray) and isinstance(value.base, np.ndarray):
        value = value.base
    if isinstance(value, np.ndarray):
        blocks[value.ctypes.data] = max(value.nbytes, blocks.get(value.ctypes.data, 0))
    elif isinstance(value, torch.Tensor):
        storage = value.untyped_storage()
        blocks[storage.data_ptr()] = max(storage.nbytes(), blocks.get(storage.data_ptr(), 0))
    else:
        inside = (
            value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
        )
        for item in (*inside, *getattr(value, "__dict__", {}).values()):
            _gather_blocks(item, blocks, seen, depth - 1)


def heading_of(names: list[str]) -> str:
    """Whose words the first config's header are."""
    return "shipped as" if names[0] in shipped() else "described as"


def header_of(names: list[str]) -> str:
    """What the first config says of itself: its point, its needs, and the time it took its author."""
    try:
        with open(find(names[0]), encoding="utf-8") as file:
            first = file.readline().strip()
    except (ConfigError, IndexError):
        return ""
    return first.lstrip("# ").strip() if first.startswith("#") else ""
