"""What --debug watches: inputs, outputs, gradients and weights, their norms and histograms, and where time goes."""

from __future__ import annotations

import contextlib
import cProfile
import io
import os
import pstats
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn
from torch.optim import Optimizer

from rl_lightning.algorithms.step import GradientGuard, Grads, Stepper
from rl_lightning.errors import DivergedError
from rl_lightning.loggers.media import log_histogram
from rl_lightning.trainer.access import clock_of
from rl_lightning.trainer.metrics_logger import emit


class GradientWatch(GradientGuard):
    """Keeps the newest gradient of every parameter, by its name: an optimizer may clear them when it has moved."""

    def __init__(self, names: dict[int, str] | None = None) -> None:
        super().__init__(names=names)
        self.newest: dict[str, Tensor] = {}

    def move(
        self, optimizer: Optimizer, params: list[Tensor], grads: Grads, clip: float | None
    ) -> Tensor | None:
        own = ((self.names.get(id(p)), g) for p, g in zip(params, grads, strict=True) if g is not None)
        self.newest |= {name: gradient.detach().clone() for name, gradient in own if name is not None}
        return super().move(optimizer, params, grads, clip)


class DebugMonitor(Callback):
    """Anomaly detection, finite checks of inputs, outputs, gradients and weights, norms, histograms, two profiles.

    Anomaly detection costs more than training itself, so it watches the first blocks. The block after them is traced
    (trace.json, for chrome://tracing or Perfetto), and a profile by function covers the rest (profile.txt).

    Args:
        folder: The run's folder; trace and profile go there.
        anomaly_blocks: Blocks under anomaly detection.
        seconds: CPU time after which the run ends, once there are trace and profile; null: it goes on to its budget.
    """

    def __init__(self, folder: str, anomaly_blocks: int = 1, seconds: float | None = None) -> None:
        self.folder = Path(folder)
        self.seconds, self.cut = seconds, False
        self.checked: dict[str, int] = {}  # how many of what
        self.anomaly_blocks = anomaly_blocks
        self.blocks = self.learned = 0  # of all, those that had something to learn from
        self.watch = GradientWatch()
        self.profile = cProfile.Profile()
        self.trace: torch.profiler.profile | None = None
        self._hooks: list[Any] = []
        self._began = 0.0
        self._guarded: Any = None  # the module that was given a guard

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        torch.autograd.set_detect_anomaly(True, check_nan=True)
        self._began = time.process_time()
        for name, module in pl_module.named_modules():
            if name:
                self._hooks.append(module.register_forward_hook(_check_output(name)))
        if not isinstance(pl_module.stepper, GradientGuard):  # one of the config's own names parameters too
            self.watch = GradientWatch(names={id(p): name for name, p in pl_module.named_parameters()})
            pl_module.stepper = self.watch
            pl_module.watch_backward(trainer)
            self._guarded = pl_module

    def on_train_batch_start(self, trainer: Trainer, pl_module: Any, batch: Any, batch_idx: int) -> None:
        batch.watch(check_batch)
        if self.learned == self.anomaly_blocks and self.trace is None:
            activities = [torch.profiler.ProfilerActivity.CPU]
            if torch.cuda.is_available():
                activities.append(torch.profiler.ProfilerActivity.CUDA)
            self.trace = torch.profiler.profile(activities=activities)
            with silent_stderr():
                self.trace.__enter__()

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *args: Any) -> None:
        self._end_trace()
        self.blocks += 1
        self.learned += clock_of(trainer).update > 0
        if self.learned == self.anomaly_blocks:
            torch.autograd.set_detect_anomaly(False)
        elif self.learned == self.anomaly_blocks + 1:
            self.profile.enable()  # after the trace: two profilers would watch each other
        sums = pl_module.metrics_state()["sums"]  # type: ignore[operator]
        check_all({f"metric {name}": value for name, value in sums.items()})
        weights = {name: p for name, p in pl_module.named_parameters() if p.numel()}
        check_all(weights)
        counts = {
            "layers": len(self._hooks),
            "weights": len(weights),
            "gradients": len(self.gradients(pl_module)),
        }
        self.checked = {what: max(count, self.checked.get(what, 0)) for what, count in counts.items()}
        grads = self.gradients(pl_module)
        check_all({f"the gradient of {name}": value for name, value in grads.items()})
        if grads:
            emit(
                trainer,
                {
                    "train/weight_norm": _norm(list(weights.values())),
                    "train/grad_norm_all": _norm(list(grads.values())),
                },
            )

        if self._over():
            self.cut = trainer.should_stop = True

    def _over(self) -> bool:
        """The time is up, and all that is watched for was seen."""
        spent = time.process_time() - self._began
        return self.seconds is not None and spent > self.seconds and self.learned > self.anomaly_blocks + 1

    def summary(self) -> str:
        """What was looked at, and where the files are."""
        if not self.blocks:
            return "debug: no block ended, nothing was checked"
        counts = ", ".join(f"{count} {what}" for what, count in self.checked.items())
        cut = f", stopped after {self.seconds:.0f} CPU seconds" if self.cut else ""
        files = {"trace (chrome://tracing)": "trace.json", "profile": "profile.txt"}
        there = [
            f"{what} {self.folder / name}" for what, name in files.items() if (self.folder / name).is_file()
        ]
        first = (
            f"debug: {self.blocks} blocks{cut}; batches, outputs, gradients and weights were finite ({counts}); "
            f"anomaly detection in the first {self.anomaly_blocks} that learned"
        )
        return "\n".join([first, *([f"       {' · '.join(there)}"] if there else [])])

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        step = clock_of(trainer).now
        for name, value in pl_module.named_parameters():
            log_histogram(trainer.loggers, f"weights/{name}", value, step)
        for name, gradient in self.gradients(pl_module).items():
            log_histogram(trainer.loggers, f"gradients/{name}", gradient, step)
        self._stop()

    def gradients(self, module: LightningModule) -> dict[str, Tensor]:
        """The newest gradient of every parameter that has had one, by name."""
        if self._guarded is not None:
            return dict(self.watch.newest)
        return {name: p.grad for name, p in module.named_parameters() if p.grad is not None}

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._stop()

    def _end_trace(self) -> None:
        if self.trace is not None:
            with silent_stderr():
                self.trace.__exit__(None, None, None)
            self.trace.export_chrome_trace(str(self.folder / "trace.json"))
            self.trace = None

    def _stop(self) -> None:
        torch.autograd.set_detect_anomaly(False)
        self.profile.disable()
        self._end_trace()
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        if self._guarded is not None:
            self._guarded.stepper, self._guarded = Stepper(), None
        if self.learned <= self.anomaly_blocks:
            return
        text = io.StringIO()
        pstats.Stats(self.profile, stream=text).sort_stats("cumulative").print_stats(40)
        (self.folder / "profile.txt").write_text(text.getvalue())


@contextlib.contextmanager
def silent_stderr() -> Iterator[None]:
    """Without what the profiler's own C++ code writes there whenever it starts and stops."""
    sys.stderr.flush()
    own_stderr = os.dup(2)
    try:
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), 2)
        yield
    finally:
        os.dup2(own_stderr, 2)
        os.close(own_stderr)


def check_batch(batch: Any) -> None:
    """Every field of what the update rule is about to see."""
    if isinstance(batch, tuple) and hasattr(batch, "_asdict"):
        tensors = {f"{name} of the batch": v for name, v in batch._asdict().items() if isinstance(v, Tensor)}
        check_all(tensors)


def check_all(tensors: dict[str, Any]) -> None:
    for name, value in tensors.items():
        if value.is_floating_point() and not torch.isfinite(value).all():
            bad = int((~torch.isfinite(value)).sum())
            raise DivergedError(f"{name} is not finite in {bad} of {value.numel()} values")


def _check_output(name: str) -> Any:
    def check(module: nn.Module, inputs: Any, output: Any) -> None:
        values = output if isinstance(output, tuple) else (output,)
        check_all({f"the output of {name}": v for v in values if isinstance(v, Tensor)})

    return check


def _norm(tensors: list[Tensor]) -> float:
    return float(torch.nn.utils.get_total_norm([t.detach() for t in tensors]))
