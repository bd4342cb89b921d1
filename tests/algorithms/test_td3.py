"""TD3: target, exploration, and who waits for whom, by hand."""

import pytest
import torch
from algorithms.offline import SPEC, finite, provided, ready, rows
from contracts.cases import BY_NAME
from contracts.harness import bare, differing, weights

from rl_lightning.algorithms.online.td3 import TD3
from rl_lightning.functional.value import smoothed_action


def small(**options):
    torch.manual_seed(0)
    return ready(TD3(SPEC, [16], **options))


def test_losses_are_those_of_the_paper():
    """No half before the square, weights row by row, the lower target critic of the smoothed target action."""
    model, terminated = small(), torch.tensor([0.0, 1.0] * 8)
    with torch.no_grad():
        for weight in (*model.q_target.parameters(), *model.policy_target.parameters()):
            weight.add_(0.1 * torch.randn(weight.shape))
    batch = rows(terminated=terminated, weight=torch.rand(16))
    torch.manual_seed(1)
    noise = (0.2 * torch.randn(16, 2)).clamp(-0.5, 0.5)
    next_action = (model.policy_target(batch.next_obs) + noise).clamp(-1, 1)
    target = 1 + 0.9 * (1 - terminated) * model.q_target(batch.next_obs, next_action).amin(0)
    error = model.q(batch.obs, batch.action) - target
    torch.manual_seed(1)
    metrics = model.update(batch)
    torch.testing.assert_close(metrics["train/critic_loss"], (batch.weight * error**2).mean(-1).sum())
    torch.testing.assert_close(metrics["priority"], error.abs().mean(0))
    expected = -model.q(batch.obs, model.policy(batch.obs))[0].mean()
    torch.testing.assert_close(model.update_actor(batch)["train/actor_loss"], expected)


def test_noise_is_clipped_and_actions_stay_within_bounds():
    action, noise = torch.tensor([-0.9, 0.0, 0.9]), torch.tensor([-3.0, 0.3, 3.0])
    assert smoothed_action(action, noise, 0.5).tolist() == pytest.approx([-1.0, 0.3, 1.0])


def test_exploration_is_noise_within_the_bounds_and_evaluation_has_none():
    model, obs = small(exploration_noise=0.3), torch.randn(4000, 3)
    greedy = model.act(obs, (), None)[0]
    drawn = model.act(obs, (), torch.Generator().manual_seed(0))[0]
    inside = drawn.abs() < 1.0
    assert torch.equal(greedy, model.policy(obs)) and drawn.abs().max() <= 1.0
    assert (drawn - greedy)[inside].std().item() == pytest.approx(0.3, abs=0.03)


def test_policy_and_targets_move_every_second_update():
    model = small()
    for update in range(1, 5):
        before = weights(model)
        assert finite(model.update(rows()))
        moved = {name.split(".")[0] for name in differing(before, weights(model))}
        both = {"q", "updates", "policy", "policy_target", "q_target"}
        assert moved == (both if update % 2 == 0 else {"q", "updates"})


def test_explored_actions_are_kept_as_they_were_played():
    run = bare(BY_NAME["td3"].but(model={"exploration_noise": 2.0}))
    for _ in range(8):
        batch = run.block().batches[-1]
    assert batch.action.abs().max() <= 1.0 and (batch.action.abs() == 1.0).any()


def test_what_it_provides_acts_alike_behind_its_norm():
    for options in ({}, {"normalize_obs": True}):
        model, batch = small(**options), rows(obs=3 + torch.randn(16, 3))
        model.update(batch)
        policy = provided(model)
        chosen = policy.choose(batch.obs, torch.Generator(), True)
        assert torch.equal(chosen, model.act(batch.obs, (), None)[0])
