"""What --debug watches: inputs, outputs, gradients and weights, their norms and histograms, and where time goes."""

from __future__ import annotations

import cProfile
import io
import pstats
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn

from rl_lightning.algorithms.step import GradientGuard, Stepper
from rl_lightning.errors import DivergedError
from rl_lightning.loggers.media import log_histogram
from rl_lightning.trainer.access import clock_of
from rl_lightning.trainer.metrics_logger import emit


class DebugMonitor(Callback):
    """Anomaly detection, finite checks of inputs, outputs, gradients and weights, norms, histograms, two profiles.

    Anomaly detection costs more than training itself, so it watches the first blocks. The block after them is traced
    (trace.json, for chrome://tracing or Perfetto), and a profile by function covers the rest (profile.txt).

    Args:
        folder: The run's folder; trace and profile go there.
        anomaly_blocks: Blocks under anomaly detection.
    """

    def __init__(self, folder: str, anomaly_blocks: int = 1) -> None:
        self.folder = Path(folder)
        self.anomaly_blocks = anomaly_blocks
        self.blocks = 0
        self.profile = cProfile.Profile()
        self.trace: torch.profiler.profile | None = None
        self._hooks: list[Any] = []
        self._guarded: Any = None  # the module that was given a guard

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        torch.autograd.set_detect_anomaly(True, check_nan=True)
        for name, module in pl_module.named_modules():
            if name:
                self._hooks.append(module.register_forward_hook(_check_output(name)))
        if not isinstance(pl_module.stepper, GradientGuard):  # one of the config's own names parameters too
            pl_module.stepper = GradientGuard(names={id(p): name for name, p in pl_module.named_parameters()})
            pl_module.watch_backward(trainer)
            self._guarded = pl_module

    def on_train_batch_start(self, trainer: Trainer, pl_module: Any, batch: Any, batch_idx: int) -> None:
        batch.watch(check_batch)
        if self.blocks == self.anomaly_blocks and pl_module.clock.update:
            activities = [torch.profiler.ProfilerActivity.CPU]
            if torch.cuda.is_available():
                activities.append(torch.profiler.ProfilerActivity.CUDA)
            self.trace = torch.profiler.profile(activities=activities)
            self.trace.__enter__()

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *args: Any) -> None:
        self._end_trace()
        self.blocks += 1
        if self.blocks == self.anomaly_blocks:
            torch.autograd.set_detect_anomaly(False)
        elif self.blocks == self.anomaly_blocks + 1:
            self.profile.enable()  # after the trace: two profilers would watch each other
        sums = pl_module.metrics_state()["sums"]  # type: ignore[operator]
        check_all({f"metric {name}": value for name, value in sums.items()})
        weights = {name: p for name, p in pl_module.named_parameters() if p.numel()}
        check_all(weights)
        grads = {f"the gradient of {n}": p.grad for n, p in weights.items() if p.grad is not None}
        check_all(grads)
        if grads:
            emit(
                trainer,
                {
                    "train/weight_norm": _norm(list(weights.values())),
                    "train/grad_norm_all": _norm(list(grads.values())),
                },
            )

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._stop()
        step = clock_of(trainer).now
        for name, value in pl_module.named_parameters():
            log_histogram(trainer.loggers, f"weights/{name}", value, step)
            if value.grad is not None:
                log_histogram(trainer.loggers, f"gradients/{name}", value.grad, step)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._stop()

    def _end_trace(self) -> None:
        if self.trace is not None:
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
        if self.blocks <= self.anomaly_blocks:
            return
        text = io.StringIO()
        pstats.Stats(self.profile, stream=text).sort_stats("cumulative").print_stats(40)
        (self.folder / "profile.txt").write_text(text.getvalue())


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
