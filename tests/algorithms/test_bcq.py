"""BCQ: the model of actions, the target over candidates, and acting by choice, by hand."""

import pytest
import torch
from algorithms.offline import SPEC, finite, provided, ready, reloaded, rows
from contracts.harness import differing, weights

from rl_lightning.algorithms.offline.bcq import BCQ
from rl_lightning.errors import ConfigError
from rl_lightning.models.bcq_policy import LATENT_LIMIT, ActionVAE, Perturbation


def small(**options):
    torch.manual_seed(0)
    return ready(BCQ(SPEC, [16], [16], **options))


def test_the_kl_term_by_hand():
    """Encoder fixed at mean 1, log-std 0: KL of N(1, 1) to N(0, 1) is 1/2 per entry."""
    vae = ActionVAE(3, 2, [8])
    with torch.no_grad():
        head = vae.encoder[-1]
        head.weight.zero_()
        head.bias.copy_(torch.tensor([1.0] * 4 + [0.0] * 4))
    error, kl = vae.loss(rows().obs, rows().action)
    assert kl.item() == pytest.approx(0.5) and error > 0


def test_the_model_of_actions_learns_where_they_are():
    torch.manual_seed(0)
    model = small(lr=0.01)
    batch = rows(256)
    batch = batch._replace(action=torch.tanh(batch.obs[:, :2]))
    for _ in range(120):
        error, kl = model.policy.vae.loss(batch.obs, batch.action)
        optimizer = model.raw_optimizers()[0]
        optimizer.zero_grad()
        (error + 0.5 * kl).backward()
        optimizer.step()
    drawn = model.policy.sample_candidates(batch.obs)
    assert (drawn - batch.action).abs().mean() < 0.25 < (drawn - batch.action.flip(0)).abs().mean()


def test_the_perturbation_has_a_short_reach_and_keeps_the_bounds():
    torch.manual_seed(0)
    net = Perturbation(3, 2, [8], 0.05)
    batch = rows(action=torch.ones(16, 2))
    assert (net(batch.obs, 0 * batch.action)).abs().max() <= 0.05 + 1e-6
    assert net(batch.obs, batch.action).max() <= 1.0


def test_the_target_takes_the_best_candidate_between_the_critics(monkeypatch):
    model = small(num_target_samples=3, lmbda=0.75)
    terminated = torch.tensor([0.0, 1.0] * 8)
    batch = rows(terminated=terminated)
    first = torch.arange(48.0)
    monkeypatch.setattr(model.q_target, "forward", lambda obs, action: torch.stack((first, first + 4.0)))
    best = torch.arange(16.0) * 3 + 2 + 0.25 * 4.0  # the last of each three, a quarter of the way up
    torch.testing.assert_close(model._target(batch), 1 + 0.9 * (1 - terminated) * best)


def test_terminated_rows_are_worth_their_reward():
    model = small()
    batch = rows(terminated=torch.ones(16), reward=torch.arange(16.0))
    assert torch.equal(model._target(batch), batch.reward)


def test_acting_takes_the_first_critics_favourite_and_is_a_function_of_the_observation(monkeypatch):
    model = small(num_samples=20)
    obs = rows().obs
    action, _ = model.act(obs, (), None)
    assert torch.equal(action, model.act(obs, (), None)[0])
    torch.testing.assert_close(action[3:5], model.act(obs[3:5], (), None)[0])
    monkeypatch.setattr(model.policy.q, "forward", lambda obs, action: action[:, 0].expand(2, -1))
    codes = model.policy.codes
    assert codes.abs().max() <= LATENT_LIMIT
    row = obs[:1].expand(20, -1)
    every = model.policy.actor(row, model.policy.vae.decode(row, codes))
    torch.testing.assert_close(model.act(obs[:1], (), None)[0][0], every[every[:, 0].argmax()])


def test_the_generator_alone_decides_what_is_drawn():
    model, obs = small(), rows().obs
    drawn = [model.act(obs, (), torch.Generator().manual_seed(seed))[0] for seed in (1, 1, 2)]
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])


def test_one_update_moves_all_parts_and_is_finite():
    model = small(max_grad_norm=10.0)
    before = weights(model)
    assert finite(model.update(rows()))
    still = before.keys() - differing(before, weights(model))
    assert still == {"policy.codes"}


def test_reload_and_what_it_provides_act_alike():
    model = small()
    model.update(rows())
    obs = rows(seed=2).obs
    copy = reloaded(model, BCQ(SPEC, [16], [16]))
    for other in (copy.act(obs, (), None)[0], provided(model).greedy(obs)):
        assert torch.equal(other, model.act(obs, (), None)[0])


def test_wrong_options_are_refused():
    with pytest.raises(ConfigError, match="num_samples"):
        BCQ(SPEC, num_samples=0)
    with pytest.raises(ConfigError, match="lmbda"):
        BCQ(SPEC, lmbda=1.5)
