"""Lightning's callbacks, a user's own, and what is refused by name."""

import pytest
import torch
from lightning.pytorch import Callback
from lightning.pytorch.callbacks import (
    BackboneFinetuning,
    BatchSizeFinder,
    GradientAccumulationScheduler,
    LambdaCallback,
    LearningRateFinder,
    ModelCheckpoint,
    RichProgressBar,
    StochasticWeightAveraging,
    TQDMProgressBar,
)
from lightning.pytorch.loggers import CSVLogger
from trainer_parts import PARTS, fit

from rl_lightning.algorithms import DQN, PPO, SAC
from rl_lightning.datamodules import OnPolicyData
from rl_lightning.errors import ConfigError

NAMES = list(PARTS)


@pytest.mark.parametrize("bar", [RichProgressBar, TQDMProgressBar], ids=lambda kind: kind.__name__)
def test_bars_show_the_return(bar, capsys):
    trainer = fit("ppo", max_epochs=2, callbacks=[bar()], enable_progress_bar=True)
    assert "eval/return" in trainer.progress_bar_metrics
    capsys.readouterr()


def test_a_torso_can_be_frozen():
    class Freeze(Callback):
        def on_fit_start(self, trainer, pl_module):
            self.before = {k: v.clone() for k, v in pl_module.torso.state_dict().items()}
            pl_module.torso.requires_grad_(False)

    freeze = Freeze()
    module = fit("ppo", max_epochs=2, callbacks=[freeze]).lightning_module
    assert all(torch.equal(v, freeze.before[k]) for k, v in module.torso.state_dict().items())
    assert any(p.requires_grad for p in module.parameters())


def test_backbone_finetuning_works():
    class Tuned(PPO):
        @property
        def backbone(self):
            return self.torso

    trainer = fit(
        "ppo", lambda spec: Tuned(spec, minibatch_size=16), max_epochs=3,
        callbacks=[BackboneFinetuning(unfreeze_backbone_at_epoch=1, verbose=False)],
    )  # fmt: skip
    assert trainer.current_epoch == 3 and all(
        p.requires_grad for p in trainer.lightning_module.torso.parameters()
    )


HOOKS = [
    "setup", "teardown", "on_fit_start", "on_fit_end", "on_sanity_check_start", "on_sanity_check_end",
    "on_train_batch_start", "on_train_batch_end", "on_train_epoch_start", "on_train_epoch_end",
    "on_validation_epoch_start",
    "on_validation_epoch_end", "on_validation_batch_start", "on_validation_batch_end", "on_train_start", "on_train_end",
    "on_validation_start", "on_validation_end", "on_before_backward", "on_after_backward",
    "on_before_optimizer_step",
    "on_before_zero_grad",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_every_hook_is_called(name):
    called = {}

    def note(hook):
        return lambda *args, **kwargs: called.__setitem__(hook, called.get(hook, 0) + 1)

    fit(name, max_epochs=2, callbacks=[LambdaCallback(**{hook: note(hook) for hook in HOOKS})])
    assert set(called) == set(HOOKS)
    assert (
        called["on_after_backward"] == called["on_before_optimizer_step"] == called["on_before_zero_grad"] > 1
    )


def test_a_callback_sees_and_may_change_the_gradients():
    norms = []

    class Zero(Callback):
        def on_before_optimizer_step(self, trainer, pl_module, optimizer):
            grads = [p.grad for p in pl_module.parameters() if p.grad is not None]
            norms.append(float(torch.stack([g.norm() for g in grads]).norm()))
            for grad in grads:
                grad.zero_()

    class Start(Callback):
        def on_train_start(self, trainer, pl_module):
            self.weights = {k: v.clone() for k, v in pl_module.torso.state_dict().items()}

    start = Start()
    module = fit("ppo", max_epochs=1, callbacks=[Zero(), start]).lightning_module
    assert max(norms) > 0 and all(
        torch.equal(v, start.weights[k]) for k, v in module.torso.state_dict().items()
    )


@pytest.mark.parametrize("name", NAMES)
def test_metrics_reach_callbacks(name, tmp_path):
    seen = {}

    class Look(Callback):
        def on_train_epoch_end(self, trainer, pl_module):
            seen.update({key: list(values) for key, values in {
                "callback": trainer.callback_metrics, "logged": trainer.logged_metrics
            }.items()})  # fmt: skip

    fit(name, max_epochs=2, callbacks=[Look()], logger=CSVLogger(tmp_path))
    for names in seen.values():
        groups = {key.split("/")[0] for key in names}
        assert {"collect", "eval", "time"} <= groups and groups & {"train", "world_model"}, names


REFUSED = [
    (StochasticWeightAveraging(1e-3), "StochasticWeightAveraging"),
    (GradientAccumulationScheduler({0: 2}), "NonFiniteGuard"),
    (BatchSizeFinder(), "batch_size"),
    (LearningRateFinder(), "LearningRateFinder"),
    (ModelCheckpoint(train_time_interval=__import__("datetime").timedelta(minutes=1)), "train_time_interval"),
]


@pytest.mark.parametrize(("callback", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_cannot_work_is_refused_by_name(callback, said):
    with pytest.raises(ConfigError, match=said) as caught:
        fit("ppo", max_epochs=1, callbacks=[callback], enable_checkpointing=True)
    assert len(str(caught.value).splitlines()) == 1


ARGUMENTS = [
    ({"gradient_clip_val": 1.0}, "max_grad_norm=1.0"),
    ({"accumulate_grad_batches": 4}, r"NonFiniteGuard\(accumulate_grad_batches=4\)"),
    ({"overfit_batches": 2}, "limit_train_batches"),
    ({"val_check_interval": 0.5}, "eval_every"),
    ({"val_check_interval": 10}, "eval_every"),
    ({"precision": "64-true"}, "bf16-mixed"),
    ({"precision": "16-true"}, "bf16-mixed"),
]


@pytest.mark.parametrize(("arguments", "said"), ARGUMENTS, ids=[str(a) for a, _ in ARGUMENTS])
def test_arguments_that_cannot_hold_are_refused_at_once(arguments, said):
    with pytest.raises(ConfigError, match=said) as caught:
        fit("ppo", max_epochs=1, **arguments)
    assert len(str(caught.value).splitlines()) == 1


def test_partners_that_do_not_belong_together_are_refused():
    from trainer_parts import LAKE, TARGET, online

    with pytest.raises(
        ConfigError, match=r"DQN learns from Transitions .*OnlineData.*OnPolicyData yields Rollout"
    ):
        fit("ppo", lambda spec: DQN(spec), max_epochs=1)
    with pytest.raises(ConfigError, match=r"PPO learns from Rollout .*OnPolicyData"):
        fit("dqn", lambda spec: PPO(spec), max_epochs=1)
    assert OnPolicyData(LAKE).spec != online(TARGET).spec and SAC is not None


def test_a_loader_in_place_of_a_data_module_is_told_what_to_do():
    from lightning.pytorch import Trainer

    spec = PARTS["ppo"].data().spec
    with pytest.raises(ConfigError, match="datamodule="):
        Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, max_epochs=1).fit(
            PPO(spec), [1, 2]
        )
