"""How long a Trainer fits: epochs are evaluations, steps are updates, batches are blocks."""

import time

import pytest
from lightning.pytorch import Callback
from trainer_parts import PARTS, fit

NAMES = list(PARTS)


class Clocks(Callback):
    """Notes the clocks of evaluations and blocks."""

    def __init__(self):
        self.evaluations, self.blocks, self.epochs = [], [], 0

    def on_validation_end(self, trainer, pl_module):
        if not trainer.sanity_checking:
            clock = trainer.datamodule.clock
            self.evaluations.append((clock.env_step, clock.update))

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.blocks.append((outputs["env_step"], outputs["update"]))
        assert outputs["update"] == trainer.global_step and "loss" in outputs

    def on_train_epoch_end(self, trainer, pl_module):
        self.epochs += 1


@pytest.mark.parametrize("name", NAMES)
def test_max_epochs_is_a_number_of_evaluations(name):
    clocks = Clocks()
    trainer = fit(name, max_epochs=3, callbacks=[clocks])
    clock = trainer.datamodule.clock
    assert trainer.current_epoch == 3 and clocks.epochs == 3 and len(clocks.evaluations) == 3
    axis = clock.clock_name == "update"
    assert [pair[axis] // 32 for pair in clocks.evaluations] == [1, 2, 3]
    assert trainer.global_step == clock.update > 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("steps", [7, 40])
def test_max_steps_is_a_number_of_updates(name, steps):
    trainer = fit(name, max_steps=steps)
    assert trainer.global_step == trainer.datamodule.clock.update == steps


def test_max_steps_cuts_a_gather_and_a_block_of_turns():
    """DQN with 8 updates after every 16 steps, and with one after each: blocks of 8 and 16 end where they must."""
    many = {"train_every": 16, "utd_ratio": 0.5}
    assert fit("dqn", data=many, max_steps=13).global_step == 13
    assert fit("dqn", max_steps=13).global_step == 13


def test_max_time_and_the_least_number_of_epochs_and_steps():
    began = time.monotonic()
    trainer = fit("dqn", max_epochs=-1, max_time={"seconds": 1})
    assert 0.5 < time.monotonic() - began < 20 and trainer.global_step > 0
    assert fit("dqn", max_epochs=-1, min_epochs=2, max_time={"seconds": 0}).current_epoch >= 2
    assert fit("dqn", max_epochs=-1, min_steps=60, max_time={"seconds": 0}).global_step >= 60


@pytest.mark.parametrize("name", NAMES)
def test_fast_dev_run_is_one_block_and_one_round(name):
    clocks = Clocks()
    fit(name, fast_dev_run=True, callbacks=[clocks])
    assert len(clocks.blocks) == 1 and len(clocks.evaluations) == 1


def test_limited_batches_are_blocks_and_rounds():
    clocks, rounds = Clocks(), []

    class Rounds(Callback):
        def on_validation_batch_end(self, trainer, *args):
            if not trainer.sanity_checking:
                rounds.append(trainer.current_epoch)

    data = {"eval_every": 10_000, "eval_episodes": 40}
    fit(
        "ppo",
        data=data,
        max_epochs=2,
        limit_train_batches=5,
        limit_val_batches=2,
        callbacks=[clocks, Rounds()],
    )
    assert len(clocks.blocks) == 10 and rounds == [0, 0, 1, 1]
    assert fit("dqn", max_epochs=1, limit_train_batches=3, fast_dev_run=3).global_step <= 48


def test_every_second_epoch_is_evaluated():
    clocks = Clocks()
    trainer = fit("ppo", max_epochs=4, check_val_every_n_epoch=2, callbacks=[clocks])
    assert trainer.current_epoch == 4 and [step for step, _ in clocks.evaluations] == [64, 128]


@pytest.mark.parametrize("name", NAMES)
def test_the_sanity_check_is_cheap_and_leaves_no_trace(name):
    played = []

    class Rounds(Callback):
        def on_validation_batch_end(self, trainer, pl_module, outputs, batch, *args):
            played.append((trainer.sanity_checking, batch.episodes, batch.max_steps))

    with_check, without = (
        fit(name, data={"eval_episodes": 20}, max_epochs=2, num_sanity_val_steps=n, callbacks=[Rounds()])
        for n in (2, 0)
    )
    checks = [(episodes, steps) for sanity, episodes, steps in played if sanity]
    assert 1 <= len(checks) <= 2 and all(check == (1, 200) for check in checks)
    weights = [dict(t.lightning_module.state_dict()) for t in (with_check, without)]
    assert all((weights[0][key] == weights[1][key]).all() for key in weights[0])
    values = [
        {k: v for k, v in t.callback_metrics.items() if not k.startswith("time/")}
        for t in (with_check, without)
    ]
    assert values[0] == values[1]


def test_a_budget_of_env_steps_ends_a_fit_of_its_own():
    trainer = fit("sac", data={"env_steps": 50}, max_epochs=-1)
    assert trainer.datamodule.clock.env_step == 50


def test_two_trainers_in_turn_and_one_twice():
    from lightning.pytorch import Trainer
    from trainer_parts import QUIET

    first = fit("dqn", max_epochs=1)
    model, data = first.lightning_module, first.datamodule
    other = PARTS["dqn"].data()
    second = Trainer(**QUIET, max_epochs=1)
    second.fit(model, datamodule=other)  # another DataModule of the same spec
    assert second.global_step == other.clock.update == first.global_step
    third = Trainer(**QUIET, max_epochs=1)
    third.fit(model, datamodule=data)  # a new Trainer begins anew
    assert third.global_step == data.clock.update == first.global_step
    third.fit_loop.max_epochs = 2
    third.fit(model, datamodule=data)  # the same one goes on
    assert third.current_epoch == 2 and third.global_step == data.clock.update > first.global_step
