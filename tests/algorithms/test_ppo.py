"""PPO: the ratio, the advantage, the anneal, the bounds."""

import pytest
import torch
from contracts.case import Case, env
from contracts.cases import BY_NAME
from contracts.harness import Bare, bare

from rl_lightning.algorithms import PPO
from rl_lightning.algorithms.online import ppo as ppo_file
from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.errors import ConfigError
from rl_lightning.functional.advantage_estimators import LambdaReturn
from rl_lightning.optim.schedules import Linear
from rl_lightning.types import Rollout

PPO_CASES = [case for name, case in BY_NAME.items() if name.startswith("ppo") and "simulated" not in name]
DISCRETE = BY_NAME["ppo-discrete"]


def spied(monkeypatch, run: Bare, blocks: int = 1) -> list[tuple[torch.Tensor, ...]]:
    """What the loss is given, minibatch by minibatch."""
    calls = []
    inner = ppo_file.ppo_loss

    def loss(log_prob, old_log_prob, advantage, clip):
        calls.append((log_prob.detach().clone(), old_log_prob.clone(), advantage.clone(), clip))
        return inner(log_prob, old_log_prob, advantage, clip)

    monkeypatch.setattr(ppo_file, "ppo_loss", loss)
    for _ in range(blocks):
        run.learn(run.data.next_block())
    return calls


@pytest.mark.parametrize("case", PPO_CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("size", [50, 10**6], ids=["minibatches", "whole"])
def test_the_first_ratio_is_exactly_one(case, size, monkeypatch):
    run = bare(case.but(model={"minibatch_size": size, "normalize_obs": case.name == "ppo-continuous"}))
    for block in range(2):
        log_prob, old_log_prob, _, _ = spied(monkeypatch, run)[0]
        assert torch.equal(log_prob, old_log_prob), (block, (log_prob - old_log_prob).abs().max())


def test_later_ratios_are_not(monkeypatch):
    calls = spied(monkeypatch, bare(DISCRETE))
    assert not torch.equal(calls[1][0], calls[1][1])


@pytest.mark.parametrize("case", PPO_CASES, ids=lambda case: case.name)
def test_the_first_pass_covers_every_step_once(case, monkeypatch):
    run = bare(case.but(model={"n_epochs": 1, "minibatch_size": 50}))
    calls = spied(monkeypatch, run)
    assert sum(call[0].numel() for call in calls) == 16 * 8
    assert run.data.clock.update == 1


def test_advantages_are_standardised_within_a_minibatch(monkeypatch):
    for _, _, advantage, _ in spied(monkeypatch, bare(DISCRETE.but(model={"minibatch_size": 32}))):
        assert advantage.mean().abs() < 1e-5 and (advantage.std() - 1).abs() < 1e-3


def test_the_first_rate_and_clip_are_the_full_ones_and_the_last_are_not_zero(monkeypatch):
    anneal = {"lr": 0.1, "lr_schedule": Linear(), "clip_range": 0.2, "clip_range_schedule": Linear()}
    run = bare(DISCRETE.but(model=anneal), RunConfig(env_steps=4 * 128))
    rates, clips = [], []
    for _ in range(4):
        clips.append(spied(monkeypatch, run)[0][3])
        rates.append(run.optimizers[0].param_groups[0]["lr"])
    assert rates == pytest.approx([0.1, 0.075, 0.05, 0.025])
    assert clips == pytest.approx([0.2, 0.15, 0.1, 0.05])


def by_hand(run: Bare, rollout: Rollout) -> torch.Tensor:
    """Value of the true next observation of every step, one env and one step at a time."""
    model, found = run.model, torch.zeros_like(rollout.reward)
    finals = iter(rollout.final_obs)
    after = {(t, n): next(finals) for t, n in (rollout.truncated & ~rollout.terminated).nonzero().tolist()}
    for n in range(rollout.obs.shape[1]):
        carry = tuple(part[n : n + 1] for part in rollout.carry)
        for t in range(len(rollout.obs)):
            if rollout.is_first[t, n]:
                carry = tuple(torch.zeros_like(part) for part in carry)
            _, carry = model.act(rollout.obs[t, n : n + 1], carry, None)
            following = rollout.obs[t + 1, n] if t + 1 < len(rollout.obs) else rollout.last_obs[n]
            following = after.get((t, n), following)
            found[t, n] = model._single_value(following[None], carry)
    return found


@pytest.mark.parametrize("name", ["ppo-discrete", "ppo-gru", "ppo-transformer"])
def test_next_values_are_those_of_the_true_next_observations(name):
    """Also after a cut, where the next row belongs to another episode, and at the rollout's end."""
    config = env("rl/Counter-v0", episode_length=6, jitter=4)
    config.max_episode_steps = 4
    run = bare(BY_NAME[name].but({"env": config}))
    for _ in range(2):
        (rollout,) = run.data.next_block()
        with torch.no_grad():
            expected = by_hand(run, rollout)
            _, value = run.model.evaluate_rows(rollout.obs, rollout.carry, rollout.is_first)
            found = run.model._next_value(rollout, value, rollout.terminated | rollout.truncated)
        alive = ~rollout.terminated
        assert (rollout.truncated & alive).any() and rollout.terminated.any()
        torch.testing.assert_close(found[alive], expected[alive], atol=1e-5, rtol=1e-4)


def test_passes_stop_once_the_policy_has_moved_too_far(monkeypatch):
    calls = spied(
        monkeypatch, bare(DISCRETE.but(model={"target_kl": 1e-9, "n_epochs": 10, "minibatch_size": 128}))
    )
    assert len(calls) == 2, "the first pass moves it, the second sees that"


def test_all_ranks_stop_by_their_mean(monkeypatch):
    """One that stopped by its own rollouts would leave the others waiting."""
    monkeypatch.setattr(
        ppo_file.distributed, "average_", lambda tensors: [each.fill_(0.0) for each in tensors]
    )
    model = {"target_kl": 1e-9, "n_epochs": 4, "minibatch_size": 128}
    assert len(spied(monkeypatch, bare(DISCRETE.but(model=model)))) == 4


def test_observation_statistics_change_by_learning_only():
    run = bare(BY_NAME["ppo-continuous"].but(model={"normalize_obs": True}))
    run.learn(run.data.next_block())
    before = run.model.norm.stats().clone()
    run.model.run_episodes(run.data.eval_envs(3), 3, seed=0)
    assert torch.equal(run.model.norm.stats(), before)
    run.learn(run.data.next_block())
    assert run.model.norm.count == 2 * 128


def test_the_action_that_is_learned_is_the_one_drawn_not_the_one_clipped():
    run = bare(BY_NAME["ppo-continuous"].but(model={"log_std_init": 1.5}))
    (rollout,) = run.data.next_block()
    assert rollout.action.abs().max() > 1.0
    assert rollout.reward.min() >= 1.0 - 1.8, "the env was given an action beyond its bounds"


def test_a_shared_network_is_one_network():
    shared: Case = BY_NAME["ppo-pixels"]
    run = bare(shared)
    assert run.model.value_torso is None and not any("value_torso" in n for n in run.model.state_dict())


def test_gae_lambda_is_for_gae_alone():
    spec = BY_NAME["ppo-discrete"].data().spec
    assert PPO(spec, gae_lambda=0.5).advantage.gae_lambda == 0.5
    with pytest.raises(ConfigError, match="gae_lambda"):
        PPO(spec, gae_lambda=0.5, advantage=LambdaReturn())
