"""SAC's written-out gradients against autograd's, and when they are used."""

import pytest
import torch

from rl_lightning.algorithms import SAC
from rl_lightning.algorithms.step import GradientGuard
from rl_lightning.functional.value import td_target
from rl_lightning.models.sac_gradients import WrittenOut
from rl_lightning.nn import MLP
from rl_lightning.types import EnvSpec, Transitions

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


def model(quick: bool, **options) -> SAC:
    torch.manual_seed(0)
    made = SAC(
        SPEC, MLP([16, 16], activation="relu", init="default"), critic_hidden=[16, 12], lr=1e-2, **options
    )
    assert made.plain
    made.plain = quick
    return made


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"critics": 1},
        {"critics": 5, "critic_subset": 2},
        {"max_grad_norm": 0.1},
        {"alpha": 0.2},
        {"actor_every": 2},
        {"actor_starts": 3},
    ],
    ids=str,
)
def test_updates_agree_with_autograd(options):
    quick, slow = model(True, **options), model(False, **options)
    for k in range(6):
        told = []
        for each in (quick, slow):
            torch.manual_seed(k)
            told.append(each.update(batch(k)))
        assert told[0].keys() == told[1].keys()
        for name in told[0]:
            torch.testing.assert_close(told[0][name], told[1][name].detach(), atol=1e-4, rtol=1e-3, msg=name)
    for (name, found), expected in zip(quick.state_dict().items(), slow.state_dict().values(), strict=True):
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-3, msg=name)


def test_gradients_are_autograds_to_rounding():
    made, rows = (
        model(True).double(),
        Transitions(*(f.double() if f.is_floating_point() else f for f in batch(1)[:8])),
    )
    noise = torch.randn(ROWS, 2, dtype=torch.float64)
    target = td_target(rows.reward, rows.reward, rows.terminated, rows.discount)
    written = WrittenOut(made.actor, made.q, made.q_slow)
    found = written.critic_step(rows.obs, rows.action, target, rows.weight)
    error = made.q(rows.obs, rows.action) - target
    loss = 0.5 * (rows.weight * error.square()).mean(-1).sum()
    torch.testing.assert_close(found.loss, loss.detach())
    for got, want in zip(found.grads, torch.autograd.grad(loss, list(made.q.parameters())), strict=True):
        torch.testing.assert_close(got, want)

    from rl_lightning.functional.action_distributions import squashed_sample

    for lowest in (True, False):
        twice = torch.stack((torch.randn_like(noise), noise))
        _, done = written.passes((rows.next_obs, rows.obs), twice)
        step = written.actor_step(done, torch.tensor(0.3).double(), lowest)
        action, log_prob = squashed_sample(*made.actor(rows.obs), noise)
        q = made.q(rows.obs, action)
        loss = (0.3 * log_prob - (q.amin(0) if lowest else q.mean(0))).mean()
        torch.testing.assert_close(step.loss, loss.detach())
        for got, want in zip(
            step.grads, torch.autograd.grad(loss, list(made.actor.parameters())), strict=True
        ):
            torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "network, options",
    [
        (MLP([8], activation="tanh"), {}),
        (MLP([8], activation="relu", layer_norm=True), {}),
        (MLP([8], activation="relu"), {"critic_layer_norm": True}),
    ],
    ids=["tanh", "actor's norm", "critics' norm"],
)
def test_other_networks_are_left_to_autograd(network, options):
    assert not SAC(SPEC, network, critic_hidden=[8], **options).plain


def test_autograd_is_used_where_someone_watches_it():
    made = model(True)
    assert made._quick()
    with torch.autograd.set_detect_anomaly(True):
        assert not made._quick()
    with torch.autocast("cpu", torch.bfloat16):
        assert not made._quick()


def test_networks_that_moved_in_memory_are_read_where_they_are():
    """As after `model.to(...)`: the same parameters, other memory."""
    torch.manual_seed(1)
    made, other = model(True), model(True)
    made.update(batch(0))
    for module in (made.actor, made.q, made.q_slow):
        for param in module.parameters():
            param.data = param.data.clone()
    other.load_state_dict(made.state_dict())
    for each in (made, other):
        torch.manual_seed(2)
        each._own_optimizers = None  # both begin anew
        each.update(batch(1))
    for (name, found), expected in zip(made.state_dict().items(), other.state_dict().values(), strict=True):
        assert torch.equal(found, expected), name


def test_gathered_gradients_are_not_written_over():
    """Several updates before one move: the mean of their gradients, not the last of them."""
    quick, slow = model(True), model(False)
    for each in (quick, slow):
        each.stepper = GradientGuard(accumulate=3)
        for k in range(3):
            torch.manual_seed(k)
            each.update(batch(k))
    for (name, found), expected in zip(quick.state_dict().items(), slow.state_dict().values(), strict=True):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4, msg=name)
