"""Fitted-Q evaluation: the values of chains that can be summed by hand, and nothing learned by the policy."""

from types import SimpleNamespace

import pytest
import torch
from algorithms.offline import SPEC, finite, fitted, ready, reloaded, rows

from rl_lightning.algorithms import fqe
from rl_lightning.algorithms.fqe import FQE, first_rows
from rl_lightning.errors import ConfigError
from rl_lightning.models.policy import DeterministicPolicy, SquashedGaussianPolicy

GAMMA, LENGTH = 0.8, 5


def small(policy=None, **options):
    torch.manual_seed(0)
    model = ready(FQE(SPEC, "nowhere", hidden=[32], gamma=GAMMA, **options))
    model.__dict__["valued"] = policy or DeterministicPolicy(3, 2, [8]).requires_grad_(False)
    return model


def chain(ends: bool):
    """LENGTH steps with reward 1, the place told by the observation; then an end, or a cut."""
    place = torch.arange(LENGTH).repeat(20)
    obs = torch.stack((place / LENGTH, (place == 0).float(), torch.ones(len(place))), -1)
    if not ends:
        obs = torch.ones_like(obs)  # one state for ever
    batch = rows(len(place), gamma=GAMMA, obs=obs, next_obs=obs.roll(-1, 0))
    return batch._replace(terminated=(place == LENGTH - 1).float() * ends)


def data_of(batch, held_out):
    episode = torch.arange(len(batch.reward)) // LENGTH
    dataset = SimpleNamespace(recording=episode, obs=batch.obs)
    rows_of = type(batch)(*(None if field is None else field[held_out] for field in batch))
    return SimpleNamespace(dataset=dataset, holdout_rows=lambda: rows_of)


@pytest.mark.parametrize(
    ("ends", "value"), [(True, (1 - GAMMA**LENGTH) / (1 - GAMMA)), (False, 1 / (1 - GAMMA))]
)
def test_a_chain_is_worth_the_sum_of_its_rewards(ends, value):
    batch = chain(ends)
    model = fitted(small(lr=0.01, target_rate=0.1), batch)
    for _ in range(200):
        model.update(batch)
    found = model.report(data_of(batch, torch.arange(10)))
    assert found["value"] == pytest.approx(value, rel=0.05)
    assert found["spread"] < 0.1 * value and len(found["members"]) == 4
    assert found["episodes"] == 20 and found["held_out"]["episodes"] == 2
    metrics = model.assess(data_of(batch, torch.arange(10)))
    assert metrics["eval/value"] == metrics["eval/value"] == found["value"]


def test_the_policys_own_next_action_is_valued_by_each_critics_own_slow_copy(monkeypatch):
    model, found = small(), []
    inner = fqe.td_target
    monkeypatch.setattr(fqe, "td_target", lambda *args: found.append(inner(*args)) or found[-1])
    batch = rows(gamma=GAMMA)
    slow = model.q_slow(batch.next_obs, model.valued.greedy(batch.next_obs))
    model.update(batch)
    torch.testing.assert_close(found[0], 1 + GAMMA * slow)
    assert found[0].shape == (4, 16)


def test_each_critic_may_have_rows_of_its_own():
    model = small()
    batch = rows(64, gamma=GAMMA)
    own = type(batch)(*(None if field is None else field.unflatten(0, (4, 16)) for field in batch))
    assert finite(model.update(own))


def test_a_policy_that_draws_is_valued_by_its_draws():
    net = SquashedGaussianPolicy(3, 2, [8]).requires_grad_(False)
    obs = rows().obs
    assert torch.equal(small(net).choose(obs), net.greedy(obs))
    assert not torch.equal(small(net, stochastic=True).choose(obs), net.greedy(obs))


def test_the_policy_is_neither_saved_nor_trained():
    model = small()
    before = [p.clone() for p in model.valued.parameters()]
    model.update(rows())
    assert all(torch.equal(a, b) for a, b in zip(before, model.valued.parameters(), strict=True))
    assert not [name for name in model.state_dict() if "valued" in name or "policy" in name]
    copy = reloaded(model, FQE(SPEC, "nowhere", hidden=[32]))
    copy.__dict__["valued"] = model.valued
    assert torch.equal(copy.values(rows().obs), model.values(rows().obs))


def test_predictions_of_rows():
    batch = rows()
    found = small().predict_rows(batch)
    assert set(found) == {"q", "q_spread", "value", "value_spread"}
    assert all(column.shape == (16,) for column in found.values()) and (found["q_spread"] > 0).all()


def test_a_policy_of_another_task_is_refused_before_training():
    with pytest.raises(ConfigError, match="5 observations"):
        small(DeterministicPolicy(5, 2, [8])).setup("fit")
    small().setup("fit")


def test_first_rows():
    assert first_rows(torch.tensor([4, 4, 7, 8, 8, 8])).tolist() == [0, 2, 3]
