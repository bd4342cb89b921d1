"""What --debug watches: anomalies, finite weights, norms and histograms of weights and gradients."""

from __future__ import annotations

import cProfile
import io
import pstats
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from rl_lightning.callbacks.media import log_histogram
from rl_lightning.callbacks.metrics import emit
from rl_lightning.errors import DivergedError


class Debug(Callback):
    """Anomaly detection, a finite check of all weights after each block, norms and histograms, and a profile.

    Anomaly detection costs more than training itself, so it watches the first blocks and the profile covers the rest.

    Args:
        folder: The run's folder; the profile goes to its profile.txt.
        anomaly_blocks: Blocks under anomaly detection.
    """

    def __init__(self, folder: str, anomaly_blocks: int = 1) -> None:
        self.folder = Path(folder)
        self.anomaly_blocks = anomaly_blocks
        self.blocks = 0
        self.profile = cProfile.Profile()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        torch.autograd.set_detect_anomaly(True, check_nan=True)

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *args: Any) -> None:
        self.blocks += 1
        if self.blocks == self.anomaly_blocks:
            torch.autograd.set_detect_anomaly(False)
            self.profile.enable()
        weights = {name: p for name, p in pl_module.named_parameters() if p.numel()}
        for name, value in weights.items():
            if not torch.isfinite(value).all():
                raise DivergedError(f"{name} is no longer finite")
        grads = [p.grad for p in weights.values() if p.grad is not None]
        if grads:
            emit(
                trainer,
                {"train/weight_norm": _norm(list(weights.values())), "train/grad_norm_all": _norm(grads)},
            )

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._stop()
        step = trainer.datamodule.schedule.now  # type: ignore[attr-defined]
        for name, value in pl_module.named_parameters():
            log_histogram(trainer.loggers, f"weights/{name}", value, step)
            if value.grad is not None:
                log_histogram(trainer.loggers, f"gradients/{name}", value.grad, step)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._stop()

    def _stop(self) -> None:
        torch.autograd.set_detect_anomaly(False)
        self.profile.disable()
        if self.blocks < self.anomaly_blocks:
            return
        text = io.StringIO()
        pstats.Stats(self.profile, stream=text).sort_stats("cumulative").print_stats(40)
        (self.folder / "profile.txt").write_text(text.getvalue())


def _norm(tensors: list[torch.Tensor]) -> float:
    return float(torch.nn.utils.get_total_norm([t.detach() for t in tensors]))
