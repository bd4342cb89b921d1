"""CQL: the conservative term at its fixed point, who it moves, its multiplier, by hand."""

import math

import pytest
import torch
from algorithms.offline import SPEC, finite, fitted, provided, ready, reloaded, rows
from contracts.harness import differing, weights

from rl_lightning.algorithms.offline import cql
from rl_lightning.algorithms.offline.cql import CQL
from rl_lightning.models.action_values import q_of_each
from rl_lightning.types import EnvSpec


def small(spec=SPEC, **options):
    torch.manual_seed(0)
    return ready(CQL(spec, [16], **options))


def test_losses_are_those_of_the_paper():
    """Written out for one batch, before anything moves: no half before the square, 3 N actions at each state."""
    model, terminated = small(cql_alpha=2.0, cql_n_actions=4), torch.tensor([0.0, 1.0] * 8)
    batch = fitted(model, rows())._scaled(rows(terminated=terminated))
    torch.manual_seed(3)
    action, log_density = cql.drawn_actions(model.policy, batch.obs, batch.next_obs, 4)
    next_action, _ = model.policy.sample_with_log_prob(batch.next_obs)
    target = 1 + 0.9 * (1 - terminated) * model.q_target(batch.next_obs, next_action).amin(0)
    q = model.q(batch.obs, batch.action)
    soft = (q_of_each(model.q, batch.obs, action) - log_density).exp().sum(-1).log()
    bellman, gap = ((q - target) ** 2).mean(-1).sum(), (soft - q).mean(-1)
    torch.manual_seed(3)
    losses = []
    model.step = lambda optimizer, loss, clip=None: losses.append(loss.item())
    metrics = model.update(rows(terminated=terminated))
    assert losses[0] == pytest.approx((bellman + 2.0 * gap.sum()).item(), rel=1e-4)
    assert metrics["train/conservative_gap"].item() == pytest.approx(gap.mean().item(), rel=1e-4)
    assert metrics["train/critic_loss"].item() == pytest.approx(bellman.item(), rel=1e-4)


def test_the_fixed_point_keeps_the_datas_mean():
    """One state, actions -0.5 (0.2 of the data, reward 0) and 0.5 (0.8, reward 1): pushed down where there are no
    data, and as much pushed up where there are, the data's mean value is its mean reward, at any weight."""
    count = 128
    better = (torch.arange(count) % 5 != 0).float()[:, None]
    batch = rows(count, obs=torch.ones(count, 3), reward=better[:, 0], terminated=torch.ones(count))
    batch = batch._replace(action=(better - 0.5).expand(count, 2))
    grid = torch.stack(torch.meshgrid(*[torch.linspace(-0.98, 0.98, 25)] * 2, indexing="ij"), -1).flatten(
        0, 1
    )
    above = []
    for weight in (0.0, 0.5):
        model = small(cql_alpha=weight, critic_lr=0.01, normalize_obs=False, cql_n_actions=4)
        for _ in range(250):
            model.update(batch)
        q = model.q(batch.obs, batch.action)
        assert q.mean().item() == pytest.approx(better.mean().item(), abs=0.06)
        above.append((model.q(torch.ones(len(grid), 3), grid).mean() - q.mean()).item())
    assert above[1] < above[0] - 0.3


def test_the_term_moves_the_critics_alone():
    model = small(alpha=0.1)
    model.raw_optimizers()
    before, moved = weights(model), []
    inner = model._critic_step
    model._critic_step = lambda loss: (inner(loss), moved.append(differing(before, weights(model))))
    model.update(rows())
    assert moved[0] and all(name.startswith("q.") for name in moved[0])


@pytest.mark.parametrize(("gap", "rises"), [(-50.0, True), (50.0, False)])
def test_the_multiplier_rises_where_the_term_is_above_its_aim(gap, rises):
    model = small(cql_target_action_gap=gap)
    assert finite(model.update(rows()))
    assert (model.log_multiplier.item() > 0.0) is rises


def test_the_multiplier_weighs_the_excess():
    model = small(cql_target_action_gap=2.0, cql_alpha=3.0, lr=0.0, critic_lr=1e-12)
    with torch.no_grad():
        model.log_multiplier.fill_(math.log(0.5))
    gap = torch.tensor([4.0, 7.0])
    assert model._multiplied(gap).item() == pytest.approx(0.5 * 3.0 * (2.0 + 5.0))


def test_rows_count_no_less_than_the_clip():
    model = small(cql_clip_diff_min=1000.0)
    assert model.update(rows())["train/conservative_gap"] == 1000.0


def test_the_best_of_several_actions_may_be_backed_up():
    model = small(max_target_backup=True, cql_n_actions=6)
    batch = rows()
    torch.manual_seed(1)
    action, _ = model.policy.sample_with_log_prob(batch.next_obs, 6)
    expected = 1 + 0.9 * q_of_each(model.q_target, batch.next_obs, action).amin(0).amax(-1)
    torch.manual_seed(1)
    torch.testing.assert_close(model._target(batch), expected)


def test_the_entropy_is_backed_up_if_asked():
    plain, soft, batch = small(), small(backup_entropy=True), rows()
    torch.manual_seed(1)
    first = plain._target(batch)
    torch.manual_seed(1)
    second = soft._target(batch)
    torch.manual_seed(1)
    _, log_prob = soft.policy.sample_with_log_prob(batch.next_obs)
    torch.testing.assert_close(second, first - 0.9 * log_prob)


def test_reload_and_what_it_provides_act_alike():
    batch = rows(200, obs=4 + 2 * torch.randn(200, 3))
    model = fitted(small(), batch)
    model.update(batch)
    copy = reloaded(model, CQL(SPEC, [16]))
    expected = model.act(batch.obs, (), None)[0]
    assert torch.equal(copy.act(batch.obs, (), None)[0], expected)
    assert torch.equal(provided(model).greedy(batch.obs), expected)


def test_the_first_policy_is_as_wide_as_asked():
    model = small(EnvSpec("e", (3,), action_kind="continuous", action_shape=(6,)), log_std_init=0.0)
    assert model.policy(torch.randn(64, 3))[1].mean().item() == pytest.approx(0.0, abs=0.3)
