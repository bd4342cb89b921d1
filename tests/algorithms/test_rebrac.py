"""ReBRAC: its two penalties at hand-computed values, and TD3+BC as a case of it."""

import pytest
import torch
from algorithms.offline import SPEC, finite, fitted, provided, ready, reloaded, rows
from contracts.harness import differing, weights
from torch import nn

from rl_lightning.algorithms.offline.rebrac import ReBRAC
from rl_lightning.algorithms.offline.td3_bc import TD3_BC
from rl_lightning.nn.ensemble import EnsembleLinear, EnsembleNorm
from rl_lightning.types import EnvSpec

WIDE = EnvSpec("e", (3,), action_kind="continuous", action_shape=(3,))


def small(spec=SPEC, **options):
    torch.manual_seed(0)
    return ready(ReBRAC(spec, [16], **options))


def with_next(batch, **fields):
    return batch._replace(next_action=batch.action.flip(0), **fields)


def constant(net: nn.Module, value: float) -> None:
    """Makes it give the same whatever it sees."""
    with torch.no_grad():
        for p in net.parameters():
            p.zero_()
        last = [m for m in net.modules() if isinstance(m, nn.Linear | EnsembleLinear)][-1]
        last.bias.fill_(value)


def test_the_critics_penalty_is_summed_over_the_action_inside_the_discount():
    """The target policy says 0, the data did 0.5 in all three dimensions: 10 - 2 (3 x 0.25) = 8.5 is the next value."""
    model = small(WIDE, policy_noise=0.0, critic_bc_coef=2.0)
    constant(model.policy_target, 0.0)
    constant(model.q_target, 10.0)
    terminated = torch.tensor([0.0, 1.0] * 8)
    batch = rows(terminated=terminated, action=torch.full((16, 3), 0.5))
    target = model._target(with_next(batch))
    torch.testing.assert_close(target, 1 + 0.9 * (1 - terminated) * 8.5)


def test_the_policys_penalty_is_summed_over_the_action():
    """Unit errors in three dimensions: 0.1 x 3, less 1 for values of one sign."""
    model = small(WIDE, actor_bc_coef=0.1)
    constant(model.policy, 0.0)
    model.q.forward = lambda obs, action: 7.0 + 0.0 * action.sum(-1).expand(2, -1)
    metrics = model._actor_step(with_next(rows(action=torch.ones(16, 3))))
    assert metrics["train/bc_loss"].item() == pytest.approx(3.0)
    assert metrics["train/actor_loss"].item() == pytest.approx(0.3 - 1.0)


def test_td3_bc_is_a_case_of_it():
    """beta_1 = 1 / (alpha A), beta_2 = 0, one critic that counts: the gradients differ by the factor alpha alone."""
    plain = {"normalize_obs": False, "policy_noise": 0.0}
    ours = small(actor_bc_coef=1 / (2.5 * 2), critic_bc_coef=0.0, critic_layer_norm=False, **plain)
    theirs = ready(TD3_BC(SPEC, [16], alpha=2.5, **plain))
    with torch.no_grad():
        for p in ours.q.parameters():
            p[1] = p[0]  # the lowest is the first
    theirs.load_state_dict(ours.state_dict())
    batch, losses = with_next(rows()), []
    for model in (ours, theirs):
        model.step = lambda optimizer, loss, clip=None: losses.append(loss)
    ours._actor_step(batch)
    theirs._actor_step(batch.obs, batch.action, theirs.raw_optimizers()[0])
    torch.testing.assert_close(2.5 * losses[0], losses[1], rtol=1e-5, atol=1e-6)


def test_only_critics_are_normalised_behind_their_activation():
    model = ReBRAC(SPEC, [16, 16])
    assert [type(layer) for layer in model.q.layers] == [
        EnsembleLinear, nn.ReLU, EnsembleNorm, EnsembleLinear, nn.ReLU, EnsembleNorm, EnsembleLinear,
    ]  # fmt: skip
    assert not any(isinstance(m, nn.LayerNorm | EnsembleNorm) for m in model.policy.modules())


def test_policy_and_targets_move_every_second_update():
    model = small()
    for update in range(1, 5):
        before = weights(model)
        assert finite(model.update(with_next(rows())))
        moved = {name.split(".")[0] for name in differing(before, weights(model))}
        both = {"q", "updates", "policy", "policy_target", "q_target"}
        assert moved == (both if update % 2 == 0 else {"q", "updates"})


def test_one_normaliser_for_all_and_the_same_after_a_reload():
    batch = with_next(rows(200, obs=4 + 2 * torch.randn(200, 3)))
    model = fitted(small(normalize_obs=True), batch)
    model.update(batch)
    copy = reloaded(model, ReBRAC(SPEC, [16], normalize_obs=True))
    assert torch.equal(copy.act(batch.obs, (), None)[0], model.act(batch.obs, (), None)[0])
    assert torch.equal(provided(model).greedy(batch.obs), model.act(batch.obs, (), None)[0])
