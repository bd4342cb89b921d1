"""Behaviour cloning recovers what it is shown."""

import math

import pytest
import torch
from algorithms.offline import SPEC, finite, fitted, provided, ready, reloaded, rows
from contracts.harness import differing, weights

from rl_lightning.algorithms.offline.bc import BC
from rl_lightning.errors import ConfigError
from rl_lightning.models.imitation_losses import MeanSquaredError, NegativeLogLikelihood
from rl_lightning.models.policies import ObsNormalizer
from rl_lightning.types import EnvSpec

DISCRETE = EnvSpec("e", (3,), action_kind="discrete", action_sizes=(4,))
LINEAR = torch.tensor([[0.4, -0.3], [0.2, 0.5], [-0.5, 0.1]])


def learned(model, batch, updates: int = 300):
    model = fitted(ready(model), batch)
    torch.manual_seed(0)
    for _ in range(updates):
        pick = torch.randint(len(batch.reward), (128,))
        model.update(type(batch)(*(None if field is None else field[pick] for field in batch)))
    return model


@pytest.mark.parametrize("loss", [MeanSquaredError(), NegativeLogLikelihood()])
def test_a_linear_policy_is_recovered(loss):
    torch.manual_seed(0)
    batch = rows(2000)
    batch = batch._replace(action=torch.tanh(batch.obs @ LINEAR))
    unseen = rows(500, seed=1).obs
    model = learned(BC(SPEC, [64, 64], loss=loss, lr=3e-3), batch)
    error = (model.act(unseen, (), None)[0] - torch.tanh(unseen @ LINEAR)).abs().mean()
    assert error < 0.05


def test_the_mean_of_a_noisy_policy_is_cloned():
    torch.manual_seed(0)
    batch = rows(4000)
    batch = batch._replace(action=0.3 * torch.randn(4000, 2).clamp(-2, 2) + 0.2)
    action = learned(BC(SPEC, [32], lr=3e-3), batch).act(rows(200, seed=1).obs, (), None)[0]
    assert action.mean().item() == pytest.approx(0.2, abs=0.04)


def test_nll_learns_the_spread_and_a_draw_has_it():
    torch.manual_seed(0)
    batch = rows(4000)
    batch = batch._replace(action=torch.tanh(0.5 * torch.randn(4000, 2)))
    model = learned(BC(SPEC, [32], loss=NegativeLogLikelihood(), lr=3e-3), batch)
    _, log_std = model.policy(model.policy.norm(batch.obs))
    assert log_std.exp().mean().item() == pytest.approx(0.5, rel=0.1)
    drawn, _ = model.act(batch.obs, (), torch.Generator().manual_seed(0))
    assert drawn.atanh().std().item() == pytest.approx(0.5, rel=0.1)


def test_nll_is_finite_for_actions_at_their_bounds():
    model = ready(BC(SPEC, [8], loss=NegativeLogLikelihood()))
    assert finite(model.update(rows(action=torch.tensor([1.0, -1.0]).expand(16, 2))))
    assert all(torch.isfinite(p).all() for p in model.parameters())


def test_the_loss_is_the_mean_square_by_hand():
    model = ready(BC(SPEC, [8], normalize_obs=False))
    batch = rows()
    expected = (model.policy(batch.obs) - batch.action).square().mean().item()
    assert model.update(batch)["train/loss"].item() == pytest.approx(expected)


def test_discrete_actions_are_cloned():
    torch.manual_seed(0)
    batch = rows(2000)
    best = (batch.obs @ torch.randn(3, 4)).argmax(-1)
    model = learned(BC(DISCRETE, [32], lr=5e-3), batch._replace(action=best))
    assert (model.act(batch.obs, (), None)[0] == best).float().mean() > 0.95


def test_discrete_loss_of_a_uniform_policy_and_masks():
    model = ready(BC(DISCRETE, [8]))
    with torch.no_grad():
        model.policy.linear.weight.zero_()
        model.policy.linear.bias.zero_()
    legal = torch.tensor([True, True, False, False]).expand(16, 4)
    batch = rows(action=torch.zeros(16, dtype=torch.int64))
    for mask, legal_actions in ((None, 4), (legal, 2)):
        cost = model.loss(model.policy, batch.obs, batch._replace(mask=mask))
        assert cost.tolist() == pytest.approx([math.log(legal_actions)] * 16)
    for explore in (None, torch.Generator().manual_seed(0)):
        assert (model.act(batch.obs, (), explore, legal)[0] < 2).all()


def test_the_normaliser_is_fitted_once_saved_and_not_trained():
    batch = rows(200, obs=5 + 3 * torch.randn(200, 3))
    model = fitted(ready(BC(SPEC, [8])), batch)
    scaled = model.policy.norm(batch.obs)
    assert scaled.mean().abs() < 1e-4 and scaled.std() == pytest.approx(1, abs=0.01)
    before = weights(model)
    fitted(model, rows(50))
    assert not differing(before, weights(model)), "a checkpoint's statistics are kept"
    copy = reloaded(model, BC(SPEC, [8]))
    assert torch.equal(copy.act(batch.obs, (), None)[0], model.act(batch.obs, (), None)[0])
    assert isinstance(copy.policy.norm, ObsNormalizer) and copy.policy.norm.fitted


def test_a_constant_feature_does_not_explode():
    norm = ObsNormalizer(3)
    norm.fit(torch.ones(10, 3))
    assert torch.isfinite(norm(torch.ones(1, 3) + 1e-3)).all() and norm(torch.ones(1, 3)).abs().max() == 0


@pytest.mark.parametrize("loss", [MeanSquaredError(), NegativeLogLikelihood()])
def test_what_it_provides_acts_alike(loss):
    model = fitted(ready(BC(SPEC, [8], loss=loss)), rows(50))
    obs = rows(seed=3).obs
    assert torch.equal(provided(model).greedy(obs), model.act(obs, (), None)[0])


def test_wrong_options_are_refused():
    with pytest.raises(ConfigError, match=r"loss is .l1.; it must be an object: ImitationLoss"):
        BC(SPEC, loss="l1")
    with pytest.raises(ConfigError, match="continuous"):
        BC(DISCRETE, loss=MeanSquaredError())
    with pytest.raises(ConfigError, match="flat"):
        BC(SPEC._replace(obs_shape=(3, 8, 8)))
    model = ready(BC(SPEC, [8]))
    model.data_source = object()
    with pytest.raises(ConfigError, match="normalize_obs"):
        model.on_fit_start()
