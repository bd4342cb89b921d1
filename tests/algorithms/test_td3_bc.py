"""TD3+BC: target, delay, and the weight that makes value and cloning comparable, by hand."""

import pytest
import torch
from algorithms.offline import SPEC, finite, fitted, provided, ready, reloaded, rows
from contracts.harness import differing, weights

from rl_lightning.algorithms.offline.td3_bc import TD3_BC


def small(**options):
    torch.manual_seed(0)
    return ready(TD3_BC(SPEC, [16], **options))


def test_the_target_is_the_lower_slow_critic_of_the_smoothed_slow_action():
    model = small(policy_noise=0.0, normalize_obs=False)
    with torch.no_grad():
        for weight in (*model.q_target.parameters(), *model.policy_target.parameters()):
            weight.add_(0.1 * torch.randn(weight.shape))
    terminated = torch.tensor([0.0, 1.0] * 8)
    batch = rows(terminated=terminated)
    slow = model.q_target(batch.next_obs, model.policy_target(batch.next_obs)).amin(0)
    torch.testing.assert_close(model._target(batch.next_obs, batch), 1 + 0.9 * (1 - terminated) * slow)


def test_noise_is_clipped_and_actions_stay_within_bounds(monkeypatch):
    model, seen = small(policy_noise=100.0, noise_clip=0.5, normalize_obs=False), []
    monkeypatch.setattr(
        model.q_target, "forward", lambda obs, action: seen.append(action) or torch.zeros(2, 16)
    )
    batch = rows()
    model._target(batch.next_obs, batch)
    clean = model.policy_target(batch.next_obs)
    assert (seen[0] - clean).abs().max() <= 0.5 + 1e-6
    assert seen[0].abs().max() <= 1.0 and (seen[0] - clean).abs().max() > 0.4


@pytest.mark.parametrize("scale", [0.01, 1.0, 1000.0])
def test_the_actor_loss_does_not_depend_on_the_size_of_the_values(scale):
    """-alpha * mean(q) / mean|q| + mse: for values of one sign the first term is -alpha exactly."""
    model = small(normalize_obs=False)
    model.q.forward = lambda obs, action: scale * (1 + action.sum(-1).square()).expand(2, -1)
    batch = rows()
    clone = (model.policy(batch.obs) - batch.action).square().mean().item()
    found = model._actor_step(batch.obs, batch.action, model.raw_optimizers()[0])
    assert found["train/actor_loss"].item() == pytest.approx(clone - 2.5, rel=1e-4)


def test_the_normaliser_of_the_values_has_no_gradient():
    """With q linear in the action the pull on the action is the same at any size of q."""
    pulls = []
    for scale in (1.0, 50.0):
        model = small(normalize_obs=False)
        model.q.forward = lambda obs, action, scale=scale: scale * (5 + action.sum(-1)).expand(2, -1)
        batch = rows()
        before = weights(model)
        model._actor_step(batch.obs, batch.action, model.raw_optimizers()[0])
        pulls.append([weights(model)[name] - before[name] for name in sorted(before)])
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(*pulls, strict=True))


def test_policy_and_slow_networks_move_every_second_update():
    model = small()
    for update in range(1, 5):
        before = weights(model)
        assert finite(model.update(rows()))
        moved = {name.split(".")[0] for name in differing(before, weights(model))}
        both = {"q", "updates", "policy", "policy_target", "q_target"}
        assert moved == (both if update % 2 == 0 else {"q", "updates"})


def test_without_value_it_clones():
    model, batch = small(alpha=0.0, lr=0.01, policy_delay=1), rows(64)
    batch = batch._replace(action=torch.tanh(batch.obs[:, :2]))
    errors = [model.update(batch)["train/bc_loss"].item() for _ in range(100)]
    assert errors[-1] < 0.02 < errors[0]


def test_value_pulls_the_policy_from_the_worse_to_the_better_action():
    """Two actions in the data, -0.5 and 0.5 with reward of the same sign: cloning alone would answer 0."""
    torch.manual_seed(0)
    side = torch.randint(2, (128, 1)).float() * 2 - 1
    batch = rows(128, action=(0.5 * side).expand(128, 2), reward=side[:, 0], terminated=torch.ones(128))
    model = small(lr=0.01)
    for _ in range(120):
        model.update(batch)
    assert model.act(batch.obs, (), None)[0].mean() > 0.4


def test_one_normaliser_for_all_and_the_same_after_a_reload():
    batch = rows(200, obs=4 + 2 * torch.randn(200, 3))
    model = fitted(small(), batch)
    assert not [name for name in model.state_dict() if name.startswith("policy_target.norm")]
    model.update(batch)
    copy = reloaded(model, TD3_BC(SPEC, [16]))
    assert torch.equal(copy.act(batch.obs, (), None)[0], model.act(batch.obs, (), None)[0])
    assert torch.equal(provided(model).greedy(batch.obs), model.act(batch.obs, (), None)[0])
