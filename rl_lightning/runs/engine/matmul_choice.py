"""Which library multiplies in a run: asked of the config, of the run's record, and once of the machine."""

from __future__ import annotations

import json
import os
import platform
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from rl_lightning import distributed
from rl_lightning.algorithms.rl_module import RLModule
from rl_lightning.datamodules.bases.rl_data import RLData
from rl_lightning.errors import ConfigError
from rl_lightning.io.atomic import write_json
from rl_lightning.io.lock import locked
from rl_lightning.kernels.matmul import MatmulProbe, Size, onednn_products, probe, product_sizes

Wish = Literal["auto", "default", "fast"]
ROWS = 256  # of a batch, where the data name no size
USUAL = (256, 256, 256)  # looked at for a run of small products that is to be fast all the same


class MatmulChoice(NamedTuple):
    """What the products of a run are computed by, for its record and its start-up line."""

    fast: bool
    measured: MatmulProbe | None = None

    def record(self) -> dict[str, Any]:
        measured = {} if self.measured is None else self.measured._asdict()
        return {"choice": "fast" if self.fast else "default", **measured}

    def __str__(self) -> str:
        gain = f" ({self.measured.speedup:.1f}x)" if self.measured is not None else ""
        return f"products by oneDNN{gain}" if self.fast else ""

    def inside(self) -> AbstractContextManager[None]:
        """Around everything that the run computes."""
        return onednn_products() if self.fast else nullcontext()


def choose_matmul(
    wish: Wish, recorded: dict[str, Any] | None, model: RLModule, data: RLData, device: str, precision: str
) -> MatmulChoice:
    """One answer for all ranks. A run that is continued keeps its own: another library rounds otherwise.

    Args:
        wish: What the config says.
        recorded: What run.json says of a run that was begun before.
        device: Where the run computes: elsewhere than on a CPU, or in half precision, there is nothing to choose.
    """
    if device != "cpu" or precision != "32-true":
        return MatmulChoice(False)
    if wish == "auto" and recorded is not None:
        wish = "fast" if recorded.get("choice") == "fast" else "default"
    sizes = [] if wish == "default" else product_sizes(model, rows_of(model, data))
    sizes = sizes or ([USUAL] if wish == "fast" else [])
    if not sizes:
        return MatmulChoice(False)
    measured = distributed.on_rank_zero(lambda: measure(sizes))
    if wish == "fast" and not measured.exact:
        raise ConfigError(
            f"matmul is fast, and this CPU multiplies so with an error of {measured.error:.0e}, not in full precision; "
            "use --matmul default, or --trainer.precision bf16-mixed"
        )
    return MatmulChoice(wish == "fast" or measured.pays, measured)


def rows_of(model: RLModule, data: RLData) -> int:
    """Rows that go through a network together."""
    batch = getattr(data, "batch_size", None) or getattr(model, "minibatch_size", None) or ROWS
    return int(batch) * int(getattr(data, "sequence_length", None) or 1)


def measure(sizes: list[Size]) -> MatmulProbe:
    """The machine's answer for these sizes, which is asked once: a second run of the same seed takes the same road."""
    file, key = cache_file(), f"{cpu()} · torch {torch.__version__} · {torch.get_num_threads()} · {sizes}"
    try:
        with locked(file.with_suffix(".lock")):
            known = _read(file)
            if key not in known:
                known[key] = list(probe(sizes))
                write_json(file, known)
            return MatmulProbe(*known[key])
    except OSError:  # nowhere to keep it
        return probe(sizes)


def _read(file: Path) -> dict[str, list[float]]:
    try:
        known = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    is_known = isinstance(known, dict) and all(isinstance(v, list) and len(v) == 2 for v in known.values())
    return known if is_known else {}


def cache_file() -> Path:
    if own := os.environ.get("RL_CACHE"):
        return Path(own) / "matmul.json"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rl_lightning" / "matmul.json"


def cpu() -> str:
    """The processor's own name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()
