"""TensorBoard with one event per row: Lightning's logger writes one per metric, at ten times the cost."""

from __future__ import annotations

from collections.abc import Mapping

from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.utilities import rank_zero_only


class TensorBoardRows(TensorBoardLogger):
    """Lightning's TensorBoardLogger, quicker where all values of a row are numbers."""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary

        writer = self.experiment.file_writer
        if writer is None or not all(isinstance(value, int | float) for value in metrics.values()):
            super().log_metrics(metrics, step)
            return
        values = [Summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
        writer.add_summary(Summary(value=values), step)
