"""`rl fit --dry_run`: what would be trained, in shapes, bytes and budgets, without training it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import yaml

from rl_lightning.datamodules.sequence_data import SequenceData
from rl_lightning.errors import ConfigError
from rl_lightning.io.text import file_size, short
from rl_lightning.redaction import redact
from rl_lightning.runs.config.build import RLCLI
from rl_lightning.runs.config.compose import find


def describe(cli: RLCLI, names: list[str], probe: bool = True) -> str:
    """The resolved config, then the shapes, parameters and memory that follow from it, and how long it would take.

    Args:
        cli: Parsed.
        names: Of the configs; the first one's header is shown.
        probe: Train for a few seconds in memory, to tell the time; else the time is left out.
    """
    try:
        cli.build(meta=True)  # weights of any size, no memory
    except (NotImplementedError, RuntimeError):  # a network that computes with its weights while it is made
        cli.build()
    spec, data, model = cli.datamodule.spec, cli.datamodule, cli.model
    lines = [yaml.safe_dump(redact(cli.plain()), sort_keys=False).rstrip(), ""]
    lines.append(f"observation  {list(spec.obs_shape)} {spec.obs_dtype}")
    sizes = " x ".join(map(str, spec.action_sizes or ()))
    shape = f"{list(spec.action_shape)}" if spec.action_kind == "continuous" else f"of {sizes}"
    lines.append(f"action       {spec.action_kind.replace('_', '-')} {shape}")
    for name, child in model.named_children():
        count = sum(weight.numel() for weight in child.parameters())
        if count:
            lines.append(f"parameters   {short(count):>7}  {name}")
    total = sum(weight.numel() for weight in model.parameters())
    lines.append(f"parameters   {short(total):>7}  in all, {file_size(4 * total)} in fp32")
    lines += buffer_lines(data)
    run = cli.config.run
    lines.append(f"budget       env_steps {run.env_steps}, updates {run.updates}, max_hours {run.max_hours}")
    note = header_of(names)
    lines += [f"shipped as   {note}"] if note else []
    if probe:
        from rl_lightning.runs.engine.throughput_probe import estimate

        lines.append(f"time         {estimate(cli)}")
    return "\n".join([*lines, "nothing was trained, nothing is left behind"])


def buffer_lines(data: Any) -> list[str]:
    """Memory of the replay buffer, made for a moment: pages that are never written cost nothing."""
    factory = vars(data).get("buffer_factory")
    if factory is None:
        return []
    windows = (data.sequence_length, 0) if isinstance(data, SequenceData) else ()
    buffer = factory(data.spec, data.num_envs, *windows)
    return [f"buffer       {short(buffer.capacity)} rows, {size_of(buffer) / 2**20:.0f} MB"]


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


def header_of(names: list[str]) -> str:
    """What the first config says of itself: its point, its needs, and the time it took its author."""
    try:
        with open(find(names[0]), encoding="utf-8") as file:
            first = file.readline().strip()
    except (ConfigError, IndexError):
        return ""
    return first.lstrip("# ").strip() if first.startswith("#") else ""
