"""What a run was trained on, written into its record."""

from __future__ import annotations

from collections.abc import Callable

from lightning.pytorch import Callback, LightningModule, Trainer

from rl_lightning.trainer.access import data_of


class DatasetProvenance(Callback):
    """Notes the data set's name and checksum in run.json.

    Args:
        update_record: Called with fields of the run's record.
    """

    def __init__(self, update_record: Callable[..., None] | None = None) -> None:
        self.update_record = update_record or (lambda **fields: None)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        several = getattr(data_of(trainer), "learned_from", [])
        if several:
            names, hashes = (", ".join(str(one[key]) for one in several) for key in ("name", "sha256"))
            rows = sum(one["rows"] for one in several)
            self.update_record(data={"name": names, "sha256": hashes, "rows": rows})
            return
        dataset = getattr(data_of(trainer), "dataset", None)  # of offline data only
        if dataset is not None and hasattr(dataset, "sha256"):
            self.update_record(
                data={"name": str(dataset.name), "sha256": str(dataset.sha256), "rows": len(dataset.reward)}
            )
