"""Callbacks and arguments of Lightning's that work: each does what its documentation promises, and not merely run."""

import csv
import logging
import math
from datetime import timedelta

import pytest
import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import DeviceStatsMonitor, LearningRateMonitor, ModelSummary, Timer
from lightning.pytorch.loggers import CSVLogger
from trainer_parts import PARTS, QUIET, SMALL, fit

from rl_lightning.algorithms import DQN, SAC
from rl_lightning.optim.schedules import Linear

EPOCHS = 3


def rows_of(folder):
    with open(next(folder.glob("**/metrics.csv"))) as file:
        return list(csv.DictReader(file))


def weights(trainer):
    return {name: value.clone() for name, value in trainer.lightning_module.state_dict().items()}


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


# ------------------------------------------------------------------------------------------------------------ callbacks
@pytest.mark.parametrize("name", ["ppo", "sac"])
def test_a_timer_measures_each_loop(name):
    timer = Timer()
    fit(name, max_epochs=2, callbacks=[timer])
    assert timer.time_elapsed("train") > timer.time_elapsed("validate") > 0
    assert timer.end_time("train") - timer.start_time("train") == timer.time_elapsed("train")


@pytest.mark.parametrize("interval", ["step", "epoch"])
def test_a_timer_stops_a_fit(interval):
    timer = Timer(timedelta(seconds=0.3), interval=interval, verbose=False)
    trainer = fit("dqn", max_epochs=-1, callbacks=[timer])
    assert trainer.should_stop and timer.time_remaining("train") <= 0
    assert 0.3 <= timer.time_elapsed("train") < 10 and trainer.global_step > 0
    clock = trainer.datamodule.clock
    assert trainer.global_step == clock.update and (interval == "step" or clock.env_step % 32 == 0)


@pytest.fixture
def told():
    """Lines that Lightning's summary prints, which go through its own logger."""
    lines, logger = [], logging.getLogger("lightning.pytorch.callbacks.model_summary")
    handler, level = logging.Handler(), logger.level
    handler.emit = lambda record: lines.extend(record.getMessage().splitlines())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield lines
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.mark.parametrize("name", list(PARTS))
def test_a_summary_names_the_modules_and_counts_their_weights(name, told):
    module = fit(name, max_epochs=1, callbacks=[ModelSummary()]).lightning_module
    table = {cells[1].strip(): cells for line in told if len(cells := line.split("|")) >= 5}
    for child, part in module.named_children():
        count = sum(p.numel() for p in part.parameters())
        assert table[child][2].strip() == type(part).__name__
        assert table[child][3].strip().split()[0] in (str(count), f"{count / 1000:.1f}"), table[child]
    total = sum(p.numel() for p in module.parameters() if p.requires_grad)
    (trainable,) = [line.split()[0] for line in told if "Trainable params" in line and "Non" not in line]
    assert trainable in (str(total), f"{total / 1000:.1f}")


@pytest.mark.parametrize("name", ["ppo", "dqn"])
def test_device_stats_reach_the_logger_with_every_block(name, tmp_path):
    blocks = []

    class Count(Callback):
        def on_train_batch_end(self, *args):
            blocks.append(1)

    watch = [DeviceStatsMonitor(cpu_stats=True), Count()]
    fit(name, max_epochs=2, callbacks=watch, logger=CSVLogger(tmp_path), log_every_n_steps=1)
    for moment in ("on_train_batch_start", "on_train_batch_end"):
        column = f"DeviceStatsMonitor.{moment}/cpu_vm_percent"
        shown = [float(row[column]) for row in rows_of(tmp_path) if row.get(column)]
        assert len(shown) == len(blocks) and all(0 < value <= 100 for value in shown)


class Scheduled(DQN):
    """A scheduler as a Lightning user gives one."""

    interval, factor = "epoch", 0.5

    def __init__(self, spec):
        super().__init__(spec, network=SMALL)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, self.factor)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": self.interval}}


class ByStep(Scheduled):
    interval, factor = "step", 0.9


def rates(name, tmp_path, model=None, interval=None, **more):
    """Learning rates that the monitor wrote, and updates that were made when it did."""
    updates = []

    class Note(Callback):
        def on_train_batch_start(self, trainer, *args):
            updates.append(trainer.global_step)

    watch = [LearningRateMonitor(interval), Note()]
    fit(
        name,
        model,
        max_epochs=EPOCHS,
        callbacks=watch,
        logger=CSVLogger(tmp_path),
        log_every_n_steps=1,
        **more,
    )
    rows = rows_of(tmp_path)
    columns = [column for column in rows[0] if column.startswith("lr-")]
    return {column: [float(row[column]) for row in rows if row[column]] for column in columns}, updates


def test_the_monitor_follows_a_scheduler_by_epochs(tmp_path):
    shown, _ = rates("dqn", tmp_path, Scheduled)
    assert shown == {"lr-SGD": pytest.approx([0.1, 0.05, 0.025])}


def test_the_monitor_follows_a_scheduler_by_updates(tmp_path):
    shown, updates = rates("dqn", tmp_path, ByStep, "step")
    assert shown == {"lr-SGD": pytest.approx([0.1 * 0.9**made for made in updates])} and updates[-1] > 10


def test_the_monitor_follows_a_schedule_of_ours(tmp_path):
    part, budget = PARTS["dqn"], {"env_steps": 32 * EPOCHS}
    shown, _ = rates(
        "dqn", tmp_path, lambda spec: part.model(spec, lr_schedule=Linear()), "step", data=budget
    )
    (values,) = shown.values()
    assert values[0] == pytest.approx(1e-4) and values == sorted(values, reverse=True) and values[-1] < 5e-5


def test_the_monitor_shows_every_optimizer(tmp_path):
    shown, _ = rates(
        "sac", tmp_path, lambda spec: SAC(spec, network=SMALL, lr=1e-3, critic_lr=2e-3, alpha_lr=3e-3)
    )
    assert sorted(values[0] for values in shown.values()) == pytest.approx([1e-3, 2e-3, 3e-3])


# ------------------------------------------------------------------------------------------------------------ arguments
class Watch(Callback):
    """What holds while a module learns and while it is evaluated."""

    def __init__(self, look):
        self.look, self.learning, self.evaluating = look, [], []

    def on_before_optimizer_step(self, *args):
        self.learning.append(self.look())

    def on_validation_batch_start(self, *args):
        self.evaluating.append(self.look())


@pytest.mark.parametrize("name", list(PARTS))
def test_deterministic_holds_while_it_learns_and_repeats(name):
    watch = Watch(torch.are_deterministic_algorithms_enabled)
    try:
        first = weights(fit(name, max_epochs=2, deterministic=True, callbacks=[watch]))
        again = weights(fit(name, max_epochs=2, deterministic=True, callbacks=[watch]))
    finally:
        torch.use_deterministic_algorithms(False)
    assert same(first, again) and all(watch.learning) and all(watch.evaluating) and watch.learning


def test_a_profile_has_a_row_for_what_was_done():
    trainer = fit("ppo", max_epochs=2, profiler="simple")
    durations = trainer.profiler.recorded_durations
    blocks = len(durations["run_training_batch"])
    assert blocks == 4 and len(durations["run_training_epoch"]) == 2
    steps = [key for key in durations if key.endswith(".training_step")]
    assert steps and all(len(durations[key]) == blocks for key in steps)
    summary = trainer.profiler.summary()
    for row in ("run_training_epoch", "training_step", "validation_step", "OnPolicyData.train_dataloader"):
        assert row in summary
    inside = sum(durations["run_training_batch"])
    assert 0 < inside <= sum(durations["run_training_epoch"])


class Broken(DQN):
    """Its loss is a number and has no gradient: sqrt at 0."""

    def __init__(self, spec):
        super().__init__(spec, network=SMALL)

    def _penalty(self, error):
        return (error * 0.0).sqrt() + error.square()


class BrokenActor(SAC):
    """The same in an algorithm whose networks have gradients of their own."""

    def __init__(self, spec):
        super().__init__(spec, network=SMALL, critic_hidden_dims=[16])

    def _actor_loss(self, batch):
        loss, entropy = super()._actor_loss(batch)
        return loss + (loss * 0.0).sqrt(), entropy


@pytest.mark.parametrize(("name", "model"), [("dqn", Broken), ("sac", BrokenActor)])
def test_an_anomaly_is_named_where_it_arises(name, model):
    with pytest.raises(RuntimeError, match="returned nan values in its 0th output"):
        fit(name, model, max_epochs=2, detect_anomaly=True)
    assert not torch.is_anomaly_enabled(), "and is no more looked for afterwards"


@pytest.mark.parametrize("name", ["ppo", "sac", "iql"])
def test_looking_for_anomalies_changes_nothing_else(name):
    watch = Watch(torch.is_anomaly_enabled)
    trainer = fit(name, max_epochs=2, detect_anomaly=True, callbacks=[watch])
    plain = weights(fit(name, max_epochs=2))
    assert all(watch.learning) and watch.learning
    for key, value in weights(trainer).items():
        torch.testing.assert_close(value, plain[key], atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("inference", [True, False])
@pytest.mark.parametrize("name", ["ppo", "sac"])
def test_inference_mode_is_a_choice_outside_of_a_fit(name, inference):
    watch, slopes = Watch(torch.is_inference_mode_enabled), []

    class Slope(Callback):
        def on_validation_batch_end(self, trainer, pl_module, *args):
            with torch.enable_grad():  # counts for nothing in that mode
                weight = next(p for p in pl_module.parameters() if p.requires_grad)
                slopes.append((2 * weight).requires_grad)

    trainer = fit(name, max_epochs=1, inference_mode=inference, callbacks=[watch])
    assert not any(watch.learning + watch.evaluating), "in a fit Lightning uses no_grad"
    watch = Watch(torch.is_inference_mode_enabled)
    engine = Trainer(**QUIET, inference_mode=inference, callbacks=[watch, Slope()])
    (scores,) = engine.validate(trainer.lightning_module, datamodule=trainer.datamodule, verbose=False)
    assert set(watch.evaluating) == {inference} and set(slopes) == {not inference}
    assert math.isfinite(scores["eval/return"])


def test_mixed_precision_computes_in_bfloat16_and_keeps_float32():
    seen = []

    class Dtypes(Callback):
        def on_train_start(self, trainer, pl_module):
            pl_module.torso.register_forward_hook(lambda part, inputs, out: seen.append(out.dtype))

    trainer = fit("ppo", max_epochs=2, precision="bf16-mixed", callbacks=[Dtypes()])
    assert torch.bfloat16 in seen
    assert {p.dtype for p in trainer.lightning_module.parameters()} == {torch.float32}
    assert all(torch.isfinite(p).all() for p in trainer.lightning_module.parameters())


def test_benchmark_is_torchs_own_switch(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)
    watch = Watch(lambda: torch.backends.cudnn.benchmark)
    fit("ppo", max_epochs=1, benchmark=True, callbacks=[watch])
    assert watch.learning and all(watch.learning)


def test_no_rounds_of_validation_are_no_evaluations():
    trainer = fit("ppo", max_epochs=2, limit_val_batches=0)
    assert "eval/return" not in trainer.callback_metrics and trainer.global_step == 4


def test_barebones_learns_the_same_with_nothing_around(tmp_path, monkeypatch, told):
    monkeypatch.chdir(tmp_path)
    watch, settings = Watch(lambda: True), {"max_epochs": 2, "accelerator": "cpu"}

    def fitted(**more):
        torch.manual_seed(0)
        data = PARTS["ppo"].data()
        trainer = Trainer(**settings, **more)
        trainer.fit(PARTS["ppo"].model(data.spec), datamodule=data)
        return trainer

    bare = fitted(barebones=True, callbacks=[watch])
    assert bare.loggers == [] and bare.checkpoint_callback is None and bare.progress_bar_callback is None
    assert list(tmp_path.iterdir()) == [] and told == [], "nothing is written, nothing told"
    assert bare.global_step == 4 and watch.learning and len(watch.evaluating) == 2, "no sanity check"
    assert math.isfinite(float(bare.callback_metrics["eval/return"]))
    quiet = {key: value for key, value in QUIET.items() if key not in settings}
    assert same(weights(bare), weights(fitted(**quiet)))
