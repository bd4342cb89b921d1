"""A user's own module over one of ours, and the loops beside fit: validate, test, predict."""

import csv

import numpy as np
import pytest
import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from torchmetrics import MeanMetric
from trainer_parts import PARTS, QUIET, SMALL, fit
from wandb_file import history

from rl_lightning.algorithms import DQN, PPO

NAMES = list(PARTS)


class Own(PPO):
    """Overrides what a Lightning user would."""

    def __init__(self, spec):
        super().__init__(spec, network=SMALL, minibatch_size=16)
        self.rounds = MeanMetric()
        self.ended, self.steps = 0, 0

    def training_step(self, batch, batch_idx):
        self.steps += 1
        self.log("mine/idx", float(batch_idx), on_step=True)
        return super().training_step(batch, batch_idx)

    def validation_step(self, batch, batch_idx):
        super().validation_step(batch, batch_idx)
        self.rounds.update(float(batch.episodes))
        self.log("mine/rounds", self.rounds)

    def on_train_epoch_end(self):
        self.ended += 1

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        step = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": step, "interval": "step", "frequency": 2},
        }


class Rate(Callback):
    """The learning rate that a fit ended with."""

    def on_train_end(self, trainer, pl_module):
        self.value = trainer.optimizers[0].param_groups[0]["lr"]


def test_an_own_module_works(tmp_path):
    rate = Rate()
    trainer = fit("ppo", Own, max_epochs=3, logger=CSVLogger(tmp_path), log_every_n_steps=1, callbacks=[rate])
    module = trainer.lightning_module
    assert module.ended == 3 and module.steps == trainer.global_step == 6
    assert {"mine/idx", "mine/rounds"} <= trainer.callback_metrics.keys()
    assert rate.value == pytest.approx(0.1 * 0.5**3)


def test_schedulers_are_saved_and_step_by_epoch_or_by_plateau(tmp_path):
    class Epochs(Own):
        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
            return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)]

    class Plateau(Own):
        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
            scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
                optimizer, mode="max", patience=0, threshold=1e9
            )
            return {
                "optimizer": optimizer,
                "lr_scheduler": {"scheduler": scheduler, "monitor": "eval/return"},
            }

    rate, files = Rate(), ModelCheckpoint(tmp_path, "{epoch}", save_top_k=-1)
    fit("ppo", Epochs, max_epochs=2, callbacks=[rate, files], enable_checkpointing=True)
    assert rate.value == pytest.approx(0.1 * 0.25)
    path = tmp_path / "epoch=0.ckpt"
    assert torch.load(path, weights_only=True)["lr_schedulers"]
    fit("ppo", Epochs, max_epochs=2, callbacks=[rate], ckpt_path=path)
    assert rate.value == pytest.approx(0.1 * 0.25)
    fit("ppo", Plateau, max_epochs=3, callbacks=[rate])
    assert rate.value < 0.1


def test_a_rule_of_ones_own():
    class Twice(DQN):
        def update(self, batch):
            return super().update(batch) | {"train/mine": torch.tensor(2.0)}

    trainer = fit("dqn", lambda spec: Twice(spec, network=SMALL), max_epochs=2)
    assert float(trainer.callback_metrics["train/mine"]) == 2.0


@pytest.mark.parametrize("name", NAMES)
def test_loggers_have_every_metric_at_the_runs_clock(name, tmp_path):
    trainer = fit(name, max_epochs=3, logger=[CSVLogger(tmp_path, "csv"), TensorBoardLogger(tmp_path, "tb")])
    clock = trainer.datamodule.clock
    with open(next(tmp_path.glob("csv/*/metrics.csv"))) as file:
        rows = list(csv.DictReader(file))
    evaluated = [row for row in rows if row.get("eval/return")]
    assert len(evaluated) == 3 and int(float(evaluated[-1]["step"])) == clock.now
    assert all(
        int(float(row["step"])) == int(float(row[clock.clock_name]))
        for row in rows
        if row.get(clock.clock_name)
    )
    assert any(row.get("time/updates_per_s") for row in rows)

    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(next(tmp_path.glob("tb/*")))).Reload()
    assert [event.step for event in events.Scalars("eval/return")][-1] == clock.now


def test_wandb_has_every_metric_at_the_runs_clock(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    from lightning.pytorch.loggers import WandbLogger

    monkeypatch.chdir(tmp_path)
    logger = WandbLogger(offline=True, save_dir=tmp_path, settings=wandb.Settings(silent=True, console="off"))
    trainer = fit("dqn", max_epochs=2, logger=logger)
    wandb.finish()
    rows = history(tmp_path)
    evaluated = [row for row in rows if "eval/return" in row]
    assert [(row["trainer/global_step"], row["env_step"]) for row in evaluated] == [(32, 32), (64, 64)]
    assert evaluated[-1]["update"] == trainer.global_step and trainer.datamodule.clock.now == 64
    assert evaluated[-1]["eval/return"] == pytest.approx(float(trainer.callback_metrics["eval/return"]))
    trained = [row for row in rows if "train/loss" in row]
    assert trained and all(row["trainer/global_step"] == row["env_step"] for row in trained)
    assert all(np.isfinite(row["train/loss"]) for row in trained)
    assert {"train", "collect", "eval", "time"} <= {key.split("/")[0] for row in rows for key in row}


@pytest.mark.parametrize("name", NAMES)
def test_validate_test_and_predict(name):
    trainer = fit(name, max_epochs=1)
    module, data = trainer.lightning_module, trainer.datamodule
    for loop in ("validate", "test"):
        engine = Trainer(**QUIET)
        (found,) = getattr(engine, loop)(module, datamodule=data, verbose=False)
        assert {"eval/return", "eval/length", "eval/episodes"} <= found.keys() and found["eval/episodes"] == 2
    episodes = Trainer(**QUIET).predict(module, datamodule=data)
    assert len(episodes) == 2
    for episode in episodes:
        assert set(episode) == {"obs", "action", "reward", "terminated", "truncated"}
        length = len(episode["reward"])
        assert all(len(column) == length for column in episode.values()) and length > 0
        assert bool(episode["terminated"][-1] or episode["truncated"][-1])
        assert isinstance(episode["obs"], np.ndarray)


def test_ranges_hold_in_python():
    from rl_lightning.errors import ConfigError

    with pytest.raises(ConfigError, match=r"gamma is 1\.5"):
        PPO(PARTS["ppo"].data().spec, gamma=1.5)
