"""IQL: expectile value, weighted cloning, target without a policy, by hand."""

import pytest
import torch
from algorithms.offline import SPEC, finite, fitted, provided, ready, reloaded, rows

from rl_lightning.algorithms.offline import iql
from rl_lightning.algorithms.offline.iql import IQL
from rl_lightning.errors import ConfigError
from rl_lightning.optim.schedules import Cosine


def small(**options):
    torch.manual_seed(0)
    return ready(IQL(SPEC, [16], **options))


def spy(monkeypatch, name: str) -> list:
    """What a function of the rule returned, call by call."""
    found, inner = [], getattr(iql, name)

    def watched(*args):
        found.append((args, inner(*args)))
        return found[-1][1]

    monkeypatch.setattr(iql, name, watched)
    return found


def test_the_target_is_the_new_state_value_and_nothing_after_an_end(monkeypatch):
    model, seen = small(), spy(monkeypatch, "td_target")
    terminated = torch.tensor([0.0, 1.0] * 8)
    batch = rows(terminated=terminated)
    model.update(batch)
    expected = 1 + 0.9 * (1 - terminated) * model.value(batch.next_obs).squeeze(
        -1
    )  # value moves first, and once
    torch.testing.assert_close(seen[0][1], expected)


def test_the_policy_is_cloned_with_clipped_weights_of_the_lower_slow_critic(monkeypatch):
    model, seen = small(beta=3.0), spy(monkeypatch, "exp_advantage_weight")
    batch = rows()
    q = model.q_target(batch.obs, batch.action).amin(0).detach()
    model.update(batch)
    (advantage, temperature, limit), weight = seen[0]
    torch.testing.assert_close(advantage, q - model.value(batch.obs).squeeze(-1))
    assert (temperature, limit) == (3.0, 100.0)
    torch.testing.assert_close(weight, (3.0 * advantage).exp())


def test_huge_advantages_neither_overflow_nor_pass_the_clip():
    model = small()
    with torch.no_grad():
        model.q_target.layers[-1].bias.fill_(1e4)
    metrics = model.update(rows())
    assert finite(metrics) and metrics["train/weight_clip_fraction"] == 1.0


def test_the_value_is_the_expectile_of_the_rewards():
    """One state, rewards 0 and 1 alike: expectile t of a fair coin is t."""
    reward = torch.tensor([0.0, 1.0]).repeat(64)
    batch = rows(128, obs=torch.ones(128, 3), reward=reward, terminated=torch.ones(128))
    batch = batch._replace(action=(reward[:, None] - 0.5).expand(128, 2))
    for level in (0.5, 0.9):
        model = small(expectile=level, lr=0.02, tau=0.2)
        for _ in range(150):
            model.update(batch)
        assert model.value(batch.obs[:1]).item() == pytest.approx(level, abs=0.05)


def test_better_actions_are_preferred_more_at_a_higher_temperature():
    side = torch.tensor([-1.0, 1.0]).repeat(64)
    batch = rows(128, obs=torch.ones(128, 3), reward=side, terminated=torch.ones(128))
    batch = batch._replace(action=(0.5 * side[:, None]).expand(128, 2))
    means = []
    for temperature in (0.0, 3.0):
        model = small(beta=temperature, lr=0.02, tau=0.2)
        for _ in range(120):
            model.update(batch)
        means.append(model.act(batch.obs[:1], (), None)[0].mean().item())
    assert means[0] == pytest.approx(0.0, abs=0.1) and means[1] > 0.35


def test_the_schedule_moves_the_policys_rate_alone():
    model = small(lr_schedule=Cosine())
    model.clock.progress = 0.5
    model.update(rows())
    rates = [optimizer.param_groups[0]["lr"] for optimizer in model.raw_optimizers()]
    assert rates == pytest.approx([1.5e-4, 3e-4, 3e-4])


def test_draws_stay_within_bounds_and_the_greedy_action_is_the_mean():
    model, batch = small(), rows(200)
    drawn = model.act(batch.obs, (), torch.Generator().manual_seed(0))[0]
    assert drawn.abs().max() <= 1.0 and (drawn == 1.0).any(), "a spread of 1 reaches the bounds"
    assert torch.equal(model.act(batch.obs, (), None)[0], model.policy(batch.obs)[0])


def test_reload_and_what_it_provides_act_alike():
    model = fitted(small(normalize_obs=True), rows(100))
    model.update(rows())
    obs = rows(seed=2).obs
    copy = reloaded(model, IQL(SPEC, [16], normalize_obs=True))
    for other in (copy.act(obs, (), None)[0], provided(model).greedy(obs)):
        assert torch.equal(other, model.act(obs, (), None)[0])


def test_an_expectile_outside_its_range_is_refused():
    with pytest.raises(ConfigError, match="expectile"):
        IQL(SPEC, expectile=1.0)
