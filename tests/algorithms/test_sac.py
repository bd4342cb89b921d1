"""SAC's update through the kernels against the same update through their plain twins."""

from functools import partial

import pytest
import torch

from rl_lightning.algorithms import SAC
from rl_lightning.algorithms.step import GradientGuard
from rl_lightning.kernels import mlp
from rl_lightning.nn import MLP
from rl_lightning.types import EnvSpec, Transitions


@pytest.fixture(autouse=True)
def any_size(monkeypatch):
    """Small networks take the kernels too."""
    monkeypatch.setattr(mlp, "FEW_ROWS", 0)
    monkeypatch.setattr(mlp, "ENOUGH", 0)


SPEC = EnvSpec("e", (5,), action_kind="continuous", action_shape=(2,))
ROWS = 16


def batch(seed: int) -> Transitions:
    g = torch.Generator().manual_seed(seed)
    obs, next_obs = torch.randn(2, ROWS, 5, generator=g)
    action = torch.rand(ROWS, 2, generator=g) * 2 - 1
    reward, weight = torch.randn(ROWS, generator=g), torch.rand(ROWS, generator=g)
    ended = (torch.rand(ROWS, generator=g) < 0.2).float()
    return Transitions(
        obs, action, reward, next_obs, ended, torch.full((ROWS,), 0.9), weight, torch.arange(ROWS)
    )


def model(**options) -> SAC:
    torch.manual_seed(0)
    network = partial(MLP, hidden_dims=[16, 16], activation="relu", init="default")
    return SAC(SPEC, network, critic_hidden_dims=[16, 12], lr=1e-2, **options)


def watched(sac: SAC) -> SAC:
    """The same, but somebody waits for each layer: none of them is passed over."""
    for module in sac.modules():
        module.register_forward_hook(lambda *_: None)
    return sac


def assert_same(left: SAC, right: SAC) -> None:
    for (name, found), expected in zip(left.state_dict().items(), right.state_dict().values(), strict=True):
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-3, msg=name)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_critics": 1},
        {"num_critics": 5, "num_target_critics": 2},
        {"max_grad_norm": 0.1},
        {"alpha": 0.2},
        {"policy_delay": 2},
        {"actor_warmup_updates": 3},
        {"critic_layer_norm": True},
    ],
    ids=str,
)
def test_updates_agree_with_those_of_watched_networks(options):
    plain, hooked = model(**options), watched(model(**options))
    for k in range(6):
        told = []
        for each in (plain, hooked):
            torch.manual_seed(k)
            told.append(each.update(batch(k)))
        assert told[0].keys() == told[1].keys()
        for name in told[0]:
            torch.testing.assert_close(told[0][name], told[1][name], atol=1e-4, rtol=1e-3, msg=name)
    assert_same(plain, hooked)


def test_losses_are_those_of_the_paper():
    """Written out from the equations for one batch, before anything moves."""
    sac, rows = model(alpha=0.3), batch(1)
    torch.manual_seed(3)
    with torch.no_grad():
        next_action, next_log_prob = sac.actor.sample(rows.next_obs)
        next_value = sac.q_target(rows.next_obs, next_action).amin(0) - 0.3 * next_log_prob
        q_target = rows.reward + rows.discount * (1 - rows.terminated) * next_value
        q1, q2 = sac.q(rows.obs, rows.action)
        loss = 0.5 * (rows.weight * ((q1 - q_target) ** 2 + (q2 - q_target) ** 2)).mean()
    torch.manual_seed(3)
    metrics = sac.update(rows)
    torch.testing.assert_close(metrics["train/critic_loss"], loss)
    torch.testing.assert_close(metrics["priority"], (torch.stack((q1, q2)) - q_target).abs().mean(0))


def test_autocast_and_anomaly_mode_take_the_same_road():
    for watching in (torch.autograd.set_detect_anomaly(True), torch.autocast("cpu", torch.bfloat16)):
        sac = model()
        with watching:
            metrics = sac.update(batch(0))
        assert all(torch.isfinite(value).all() for value in metrics.values())


def test_gathered_gradients_are_not_written_over():
    """Several updates before one move: the mean of their gradients, not the last of them."""
    plain, hooked = model(), watched(model())
    for each in (plain, hooked):
        each.stepper = GradientGuard(accumulate=3)
        for k in range(3):
            torch.manual_seed(k)
            each.update(batch(k))
    assert_same(plain, hooked)
