"""Decision Transformer: what a prediction sees, what it is told of rewards, and whom it imitates."""

import numpy as np
import pytest
import torch
from algorithms.offline import finite, ready

from rl_lightning.algorithms.offline.decision_transformer import DecisionTransformer
from rl_lightning.errors import ConfigError
from rl_lightning.rollout.collect import add_reward, reset_carry_rows
from rl_lightning.types import EnvSpec, ReturnWindows

LINE = EnvSpec("e", (3,), action_shape=(2,))
ARMS = EnvSpec("e", (1,), action_kind="discrete", action_sizes=(2,))


def small(spec=LINE, **options):
    torch.manual_seed(0)
    sizes = {"embed_dim": 16, "num_layers": 2, "num_heads": 2, "dropout": 0.0, "context_length": 5}
    return ready(DecisionTransformer(spec, **{**sizes, "max_timestep": 20, "return_scale": 10.0, **options}))


def windows(count=4, steps=5, seed=0):
    g = torch.Generator().manual_seed(seed)
    return ReturnWindows(
        torch.randn(count, steps, 3, generator=g),
        torch.rand(count, steps, 2, generator=g) * 2 - 1,
        torch.randn(count, steps, generator=g),
        torch.arange(steps).expand(count, -1),
        torch.ones(count, steps, dtype=torch.bool),
    )


def test_an_action_is_predicted_from_what_comes_before_it():
    model, batch = small(), windows()
    before = model.policy(*batch)
    for name, first in (("action", 3), ("obs", 2), ("return_to_go", 2)):
        changed = batch._asdict()[name].clone()
        changed[:, 2] += 1.0
        after = model.policy(*batch._replace(**{name: changed}))
        same = (before == after).all(-1).all(0)
        assert same.tolist() == [k < first for k in range(5)], name


def test_filling_up_does_not_matter_on_either_side():
    model, batch = small(), windows()
    plain = model.policy(*batch)
    for left, right in ((7, 0), (0, 7)):
        wide = [torch.zeros(4, 12, *part.shape[2:], dtype=part.dtype) for part in batch]
        for to, part in zip(wide, batch, strict=True):
            to[:, left : 12 - right] = part
        torch.testing.assert_close(model.policy(*wide)[:, left : 12 - right], plain)


def test_steps_beyond_the_end_are_not_learned_from():
    model, batch = small(), windows()
    batch.valid[:, 3:] = False
    losses = []
    model.step = lambda optimizer, loss, clip=None: losses.append(loss.item())
    model.update(batch)
    batch.action[:, 3:] = 0.9
    batch.obs[:, 3:] = 5.0
    model.update(batch)
    chosen = model.policy(*batch._replace(return_to_go=batch.return_to_go / 10.0))
    by_hand = (chosen - batch.action).square()[:, :3].mean()
    assert losses[0] == pytest.approx(losses[1], abs=1e-6) == pytest.approx(by_hand.item(), abs=1e-6)


def test_acting_sees_what_a_window_would_hold():
    """Six steps in two envs of a context of five, rewards told between them: each action is the window's last."""
    model = small(target_return=30.0)
    obs, reward = torch.randn(6, 2, 3), np.arange(12, dtype=np.float32).reshape(6, 2)
    carry, actions = model.initial_carry(2), []
    with torch.no_grad():
        for t in range(6):
            action, carry = model.act(obs[t], carry, None)
            carry = add_reward(carry, model.reward_carry, reward[t])
            actions.append(action)
            first = max(0, t - 4)
            earned = torch.from_numpy(
                np.concatenate([np.zeros((1, 2)), reward.cumsum(0)])[first : t + 1]
            ).float()
            window = model.policy(
                obs[first : t + 1].transpose(0, 1),
                torch.stack([*actions[first:t], torch.zeros(2, 2)], 1),
                (30.0 - earned.T) / 10.0,
                torch.arange(first, t + 1).expand(2, -1),
                torch.ones(2, t + 1 - first, dtype=torch.bool),
            )
            torch.testing.assert_close(action, window[:, -1])


def test_an_episode_begins_anew_and_the_target_may_change():
    model, obs = small(target_return=5.0), torch.randn(2, 3)
    first, carry = model.act(obs, model.initial_carry(2), None)
    carry = add_reward(carry, model.reward_carry, np.array([1.0, 2.0]))
    model.act(obs, carry, None)
    again, _ = model.act(obs, reset_carry_rows(carry, np.array([True, False])), None)
    assert torch.equal(again[0], first[0]) and not torch.equal(again[1], first[1])
    model.target_return = -50.0
    assert not torch.equal(model.act(obs, model.initial_carry(2), None)[0], first)
    model.target_return = None
    model.best_return.fill_(5.0)
    assert torch.equal(model.act(obs, model.initial_carry(2), None)[0], first)


def arms(action, reward):
    one = torch.zeros(len(action), 1)
    return ReturnWindows(one.unsqueeze(-1), action[:, None], reward[:, None], one.long(), one == 0)


def learned(batch, updates=120):
    model = small(
        ARMS, context_length=1, max_timestep=1, return_scale=0.1, num_layers=1, lr=1e-2, max_grad_norm=None
    )
    model.clock.progress = 1.0
    for _ in range(updates):
        assert finite(model.update(batch))
    return model


def picked(model, target):
    model.target_return = target
    return int(model.act(torch.zeros(1, 1), model.initial_carry(1), None)[0])


def test_it_does_what_led_to_the_return_it_is_asked_for():
    action = torch.tensor([0, 1] * 32)
    model = learned(arms(action, action.float()))
    assert [picked(model, target) for target in (1.0, 0.0)] == [1, 0]


def test_luck_is_taken_for_skill():
    """Arm 0 pays 1 with chance 1/2, arm 1 always 0.8: asked for 1 it takes arm 0, whose mean is 0.5."""
    action = torch.tensor([0, 0, 1, 1] * 16)
    model = learned(arms(action, torch.tensor([1.0, 0.0, 0.8, 0.8] * 16)))
    assert [picked(model, target) for target in (1.0, 0.8)] == [0, 1]


def test_discrete_actions_are_drawn_where_it_is_asked_for():
    model = small(ARMS, deterministic_eval=False)
    draw, obs = model.evaluation_draw(0), torch.zeros(200, 1)
    assert draw is not None and small(ARMS).evaluation_draw(0) is None
    assert 40 < int(model.act(obs, model.initial_carry(200), draw)[0].sum()) < 160


@pytest.mark.parametrize("longest", [21, 20])
def test_episodes_longer_than_the_embeddings_are_refused(longest):
    class Data:
        def longest_episode(self):
            return longest

        def best_return(self):
            return 7.0

        def train_rows(self):
            return windows()._replace(obs=torch.randn(50, 3))

    if longest > 20:
        with pytest.raises(ConfigError, match=r"--model\.max_timestep 21"):
            small(LINE._replace(max_episode_steps=longest))
    model = small()
    model.data_source = Data()
    if longest > 20:
        with pytest.raises(ConfigError, match="the data may have 21"):
            model.on_fit_start()
    else:
        model.on_fit_start()
        assert model.best_return.item() == 7.0 and model.policy.norm.fitted
