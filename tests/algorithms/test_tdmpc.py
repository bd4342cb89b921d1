"""TD-MPC and TD-MPC2 against their traps: pairing of rows, edges of bins, where gradients end, what a target is."""

from functools import partial

import pytest
import torch
from contracts.cases import BY_NAME
from contracts.families.planning import PENDULUM, SMALL, tdmpc2, windows
from contracts.harness import bare
from hypothesis import given
from hypothesis import strategies as st

from rl_lightning.algorithms import TDMPC, TDMPC2
from rl_lightning.algorithms.worlds.tdmpc2 import SIZES
from rl_lightning.errors import ConfigError
from rl_lightning.functional.latent import symexp
from rl_lightning.kernels.activations import sim_norm
from rl_lightning.models.latent_mpc.latent_encoder import random_shift
from rl_lightning.models.latent_mpc.latent_world import (
    LIMIT,
    LatentModel,
    SimNormModel,
    discount_for,
    gaussian_entropy_estimate,
)
from rl_lightning.nn.normed_mlp import NormedEnsemble
from rl_lightning.planning.mpc import plan_latent
from rl_lightning.planning.planners import MPPI
from rl_lightning.replay.sequence import SequenceReplay
from rl_lightning.types import EnvSpec, Sequences

SPEC = EnvSpec("x", (3,), action_shape=(2,), max_episode_steps=200)


def small(**given) -> TDMPC2:
    torch.manual_seed(0)
    return tdmpc2(SPEC, **given)


def batch(rows: int = 5, length: int = 3, seed: int = 0) -> Sequences:
    draw = torch.Generator().manual_seed(seed)
    flags = torch.zeros(rows, length)
    return Sequences(
        torch.randn(rows, length, 3, generator=draw),
        torch.rand(rows, length, 2, generator=draw) * 2 - 1,
        torch.randn(rows, length, generator=draw),
        flags,
        flags,
        flags.bool(),
    )


@given(st.integers(0, 30), st.sampled_from([2, 4, 8]))
def test_groups_of_a_latent_sum_to_one(seed, group):
    latent = 5 * torch.randn(3, 16, generator=torch.Generator().manual_seed(seed))
    found = sim_norm(latent, group)
    assert torch.allclose(found.unflatten(-1, (-1, group)).sum(-1), torch.ones(3, 16 // group), atol=1e-6)
    model = small().model
    latents = [model.encode(torch.randn(2, 3))]
    latents.append(model.step(latents[0], torch.zeros(2, 2))[0])
    for found in latents:
        assert torch.allclose(found.unflatten(-1, (-1, 4)).sum(-1), torch.ones(2, 2), atol=1e-5)


@pytest.mark.parametrize(
    ("steps", "gamma"), [(500, 0.99), (200, 0.975), (1000, 0.995), (50, 0.95), (None, 0.99)]
)
def test_discount_from_the_length_of_an_episode(steps, gamma):
    assert discount_for(steps) == pytest.approx(gamma)


def test_the_discount_counts_steps_of_the_agent_and_not_frames():
    spec = SPEC._replace(max_episode_steps=1000, action_repeat=2)
    assert TDMPC2(spec, model_size="1M").gamma == pytest.approx(0.99)
    assert TDMPC2(spec, model_size="1M", gamma=0.9).gamma == 0.9


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_two_hot_at_the_edges(sign):
    """The largest number there is goes to the last bin alone, and does not wrap around to the first."""
    model = SimNormModel(3, 2, 8, 4, [8], 8, 2, num_bins=11)
    edge = symexp(torch.tensor(sign * LIMIT))
    last = -1 if sign > 0 else 0
    logits = torch.full((11,), -50.0)
    logits[last] = 50.0
    assert model.two_hot_loss(logits, edge).item() == pytest.approx(0.0, abs=1e-4)
    assert model.two_hot_loss(logits, 10 * edge).item() == pytest.approx(0.0, abs=1e-4)
    assert model.decode_value(logits).item() == pytest.approx(edge.item(), rel=1e-4)


@pytest.mark.parametrize("value", [0.0, 1e-3, 1.0, -1.0, 37.5, -1e4])
def test_two_hot_round_trip(value):
    model = SimNormModel(3, 2, 8, 4, [8], 8, 2)
    logits = torch.zeros(101, requires_grad=True)
    optimizer = torch.optim.Adam([logits], 0.3)
    for _ in range(300):
        optimizer.zero_grad()
        model.two_hot_loss(logits, torch.tensor(value)).backward()
        optimizer.step()
    assert model.decode_value(logits).item() == pytest.approx(value, rel=0.05, abs=0.02)


def test_everything_is_worth_exactly_nothing_at_first():
    model = small().model
    latent, action = model.encode(torch.randn(4, 3)), torch.rand(4, 2)
    assert (model.step(latent, action)[1] == 0).all()
    assert (model.decode_value(model.q(torch.cat((latent, action), -1))) == 0).all()
    plain = TDMPC(SPEC, latent_dim=4, encoder_hidden_dim=8, hidden_dim=8).model
    latent = plain.encode(torch.randn(4, 3))
    assert (plain.step(latent, action)[1] == 0).all()
    assert (plain.q(torch.cat((latent, action), -1)) == 0).all()


def test_an_end_counts_for_its_own_step_alone():
    agent = small(episodic=True)
    torch.nn.init.normal_(agent.q_target.layers[-1].weight)
    goal = torch.randn(2, 5, 8)
    reward = torch.arange(10.0).reshape(2, 5)
    terminated = torch.zeros(2, 5)
    terminated[0, 1] = terminated[1, 3] = 1.0
    torch.manual_seed(1)
    target = agent._target(goal, reward, terminated)
    torch.manual_seed(1)
    going_on = agent._target(goal, reward, torch.zeros(2, 5))
    ended = terminated.bool()
    assert torch.equal(target[ended], reward[ended])
    assert torch.equal(target[~ended], going_on[~ended]) and (target[~ended] != reward[~ended]).all()


def test_nothing_is_learned_through_what_latents_should_become():
    """Only the first observation of a window carries a gradient: the rest are targets."""
    agent, rows = small(), batch()
    obs = rows.obs.clone().requires_grad_()
    window = agent._window(rows._replace(obs=obs))
    with torch.no_grad():
        target = agent._target(window.goal, window.reward, window.terminated)
    latents = agent._unroll(window)
    losses = agent._model_losses(latents, window)
    losses["value"] = agent._value_loss(latents[:-1], window.action, target)
    (grad,) = torch.autograd.grad(sum(losses.values()), obs)
    assert grad[:, 0].abs().sum() > 0 and not grad[:, 1:].any()


def test_rows_are_paired_as_they_were_played():
    """next obs = obs + action, reward = what arriving pays: a model taught by update() learns exactly that."""
    torch.manual_seed(0)
    spec = EnvSpec("x", (1,), action_shape=(1,), max_episode_steps=100)
    agent = TDMPC2(
        spec, latent_dim=32, encoder_hidden_dims=[32], hidden_dim=64, num_critics=2, lr=3e-3, encoder_lr_scale=1.0,
        planner=MPPI(**SMALL),
    )  # fmt: skip
    for _ in range(300):
        start, action = torch.rand(64, 1, 1) * 2 - 1, torch.rand(64, 3, 1) * 2 - 1
        obs = torch.cat([start, start + action[:, :2].cumsum(1)], 1)
        reward = torch.cat([torch.zeros(64, 1), obs[:, 1:, 0]], 1)
        flags = torch.zeros(64, 3)
        agent.update(Sequences(obs, action, reward, flags, flags, flags.bool()))
    obs, action = torch.tensor([[0.3], [-0.5]]), torch.tensor([[0.4], [-0.2]])
    _, reward = agent.model.step(agent.model.encode(obs), action)
    assert torch.allclose(reward, (obs + action)[:, 0], atol=0.25)


def test_dropout_is_for_learning_alone():
    torch.manual_seed(0)
    net = NormedEnsemble(2, 4, [64, 64], 3, dropout=0.5)
    torch.nn.init.normal_(net.layers[-1].weight)
    rows = torch.randn(6, 4)
    net.train()
    assert torch.equal(net(rows), net(rows))
    assert not torch.equal(net(rows, dropping=True), net(rows, dropping=True))


def test_members_are_those_that_were_named():
    net = NormedEnsemble(4, 5, [6], 3, dropout=0.0)
    torch.nn.init.normal_(net.layers[-1].weight)
    rows = torch.randn(7, 5)
    assert torch.allclose(net(rows, torch.tensor([2, 0])), net(rows)[[2, 0]], atol=1e-6)


def test_the_quick_ways_through_the_networks_lead_to_the_same_place():
    """Plans fork from one latent, and value functions are asked one by one on a CPU."""
    agent = small(num_critics=3)
    model = agent.model
    for net in (model.reward.layers, model.q.layers):
        torch.nn.init.normal_(net[-1].weight)
    for norm in model.q.norms:
        torch.nn.init.normal_(norm.weight)
        torch.nn.init.normal_(norm.bias)
    latent, action = model.encode(torch.randn(2, 3)), torch.rand(2, 5, 2)
    forked, plain = model.step_many(latent, action), LatentModel.step_many(model, latent, action)
    for one, two in zip(forked, plain, strict=True):
        assert torch.allclose(one, two, atol=1e-5)
    rows = torch.randn(6, 10)
    for which in (None, torch.tensor([2, 0])):
        apart, together = (
            walk(rows, which, False) for walk in (model.q.forward_sequential, model.q.forward_batched)
        )
        assert torch.allclose(apart, together, atol=1e-5)
        slopes = [
            torch.autograd.grad(out.square().sum(), list(model.q.parameters())) for out in (apart, together)
        ]
        assert all(torch.allclose(one, two, atol=1e-3) for one, two in zip(*slopes, strict=True))


def test_the_scale_follows_the_first_step_and_never_falls_below_one():
    agent = small(tau=0.5)
    agent._rescale(torch.linspace(0, 100, 101))
    assert agent.scale.item() == pytest.approx(1 + 0.5 * (90 - 1))
    for _ in range(60):
        agent._rescale(torch.zeros(11))
    assert agent.scale.item() == pytest.approx(1.0, abs=1e-4)


def test_the_entropy_estimate_is_the_gaussian_s_times_its_dimensions():
    noise, log_std = torch.randn(200_000, 2), torch.tensor([-1.0, 0.5])
    exact = torch.distributions.Normal(torch.zeros(2), log_std.exp()).entropy().sum()
    assert gaussian_entropy_estimate(noise, log_std).mean().item() == pytest.approx(
        2 * exact.item(), abs=0.02
    )


class Line(LatentModel):
    """A point that moves by its action; being at 0 pays best, and the end of the plan is worth ten times that."""

    def encode(self, obs):
        return obs

    def step(self, latent, action):
        moved = latent + 0.5 * action
        return moved, -moved.square().sum(-1)

    def sample_action(self, latent, generator):
        return torch.zeros_like(latent)

    def value(self, latent, generator):
        return -10.0 * latent.square().sum(-1)


@pytest.mark.parametrize("horizon", [None, 1])
def test_planning_in_a_known_latent_model(horizon):
    planner = MPPI(horizon=3, num_samples=256, num_elites=32, iterations=8, temperature=2.0, num_pi_trajs=8)
    obs = torch.tensor([[0.3], [-0.4], [0.05]])
    plan = plan_latent(planner, Line(), obs, torch.zeros(3, 3, 1), 0.99, None, horizon)
    assert torch.allclose(plan.action, -2 * obs, atol=0.2)
    assert plan.mean.shape == (3, 3, 1)
    if horizon == 1:
        assert not plan.mean[:, 1:].any()


def test_returns_of_a_plan_by_hand():
    found = Line().returns(
        torch.tensor([[1.0]]), torch.tensor([[[[-1.0], [0.0]], [[1.0], [1.0]]]]), 0.9, None
    )
    assert found[0, 0].item() == pytest.approx(-0.25 - 0.9 * 0.25 - 0.81 * 10 * 0.25)
    assert found[0, 1].item() == pytest.approx(-2.25 - 0.9 * 4.0 - 0.81 * 10 * 4.0)


def test_a_plan_earns_nothing_after_the_end():
    class Ending(Line):
        def termination_prob(self, latent):
            return (latent[:, 0] > 0.9).float()

    found = Ending().returns(torch.tensor([[0.5]]), torch.tensor([[[[1.0], [1.0]]]]), 0.9, None)
    assert found.item() == pytest.approx(-1.0)


def test_windows_that_do_not_fit_are_refused():
    agent = small()
    with pytest.raises(ConfigError, match="windows of 3 rows"):
        agent.update(batch(length=4))
    crossing = batch()._replace(is_first=torch.tensor([[False, True, False]]).expand(5, 3))
    with pytest.raises(ConfigError, match="within_episode"):
        agent.update(crossing)
    ending = batch()._replace(terminated=torch.ones(5, 3))
    with pytest.raises(ConfigError, match="episodic"):
        agent.update(ending)


def test_slices_lie_within_episodes():
    run = bare(BY_NAME["tdmpc2-episodic"])
    for _ in range(5):
        run.block()
    for _ in range(20):
        rows = run.data.next_batch()
        assert not rows.is_first[:, 1:].any() and not rows.terminated[:, :-1].any()
    crossing = bare(BY_NAME["tdmpc2-episodic"].but(data={"buffer": partial(SequenceReplay, capacity=2000)}))
    with pytest.raises(ConfigError, match="within_episode"):
        for _ in range(5):
            crossing.learn(crossing.block())


@pytest.mark.parametrize("cls", [TDMPC, TDMPC2])
def test_discrete_actions_are_refused(cls):
    with pytest.raises(ConfigError, match="needs continuous actions"):
        cls(EnvSpec("CartPole-v1", (4,), action_kind="discrete", action_sizes=(2,)))


def test_tdmpc_sees_no_pictures():
    with pytest.raises(ConfigError, match="flat observations"):
        TDMPC(EnvSpec("car", (3, 64, 64), "uint8", action_shape=(3,)))


def test_tdmpc2_sees_pictures_as_the_original_does():
    with torch.device("meta"):
        agent = TDMPC2(EnvSpec("car", (9, 64, 64), "uint8", action_shape=(3,)))
    kernels = [tuple(p.shape) for name, p in agent.model.encoder.named_parameters() if p.dim() == 4]
    assert kernels == [(32, 9, 7, 7), (32, 32, 5, 5), (32, 32, 3, 3), (32, 32, 3, 3)]
    assert agent.model.encode(torch.zeros(2, 9, 64, 64, dtype=torch.uint8, device="meta")).shape == (2, 512)


def test_shifted_pictures_keep_their_size_and_repeat_their_edges():
    torch.manual_seed(0)
    image = torch.arange(25, dtype=torch.uint8).view(1, 1, 5, 5).expand(64, 1, 5, 5)
    moved = random_shift(image, 2)
    assert moved.shape == image.shape and moved.dtype == torch.uint8
    down, right = moved[:, 0, 2, 2] // 5, moved[:, 0, 2, 2] % 5  # where the middle now comes from
    assert set(down.tolist()) == set(right.tolist()) == {0, 1, 2, 3, 4}
    rows = (torch.arange(5) + down[:, None].long() - 2).clamp(0, 4)
    columns = (torch.arange(5) + right[:, None].long() - 2).clamp(0, 4)
    assert torch.equal(moved[:, 0].long(), 5 * rows[:, :, None] + columns[:, None, :])
    assert torch.equal(random_shift(image, 0), image)


@pytest.mark.parametrize(
    ("size", "millions"), [("1M", 1.0), ("5M", 5.0), ("19M", 19.0), ("48M", 48.0), ("317M", 317.0)]
)
def test_presets_have_about_the_weights_they_are_named_for(size, millions):
    with torch.device("meta"):
        agent = TDMPC2(EnvSpec("x", (24,), action_shape=(6,)), model_size=size)
    total = sum(p.numel() for p in agent.model.parameters()) / 1e6
    assert 0.75 * millions < total < 1.25 * millions, (size, total)
    assert set(SIZES) == {"1M", "5M", "19M", "48M", "317M"}


def test_tdmpc_plans_further_and_more_narrowly_as_it_learns():
    agent = TDMPC(SPEC, latent_dim=4, encoder_hidden_dim=8, hidden_dim=8, planner_warmup_updates=100)
    assert agent.planner_schedule() == (1, 0.5)
    agent.updates.fill_(50)
    assert agent.planner_schedule() == (3, pytest.approx(0.275))
    agent.updates.fill_(1000)
    assert agent.planner_schedule() == (5, pytest.approx(0.05))


def test_priorities_are_errors_of_the_values():
    run = bare(BY_NAME["tdmpc"])
    run.learn(run.block())
    found = run.model.update(run.data.next_batch())["priority"]
    assert found.shape == (8,) and (found >= 0).all()


@pytest.mark.parametrize("name", ["tdmpc2", "tdmpc"])
def test_data_of_a_pendulum_make_updates_as_asked(name):
    run = bare(BY_NAME[name].but(data={"env": PENDULUM}))
    assert windows.keywords["train_ratio"] / (8 * 3) == 0.5
    while run.data.clock.env_step < 148:
        run.turn()
    assert run.data.clock.update == (run.data.clock.env_step - 48) * 0.5


@pytest.mark.parametrize("kind", [TDMPC, TDMPC2])
def test_it_imagines_from_an_observation(kind):
    model, obs = small() if kind is TDMPC2 else TDMPC(SPEC, hidden_dim=16), torch.randn(4, 3)
    own = model.imagine_from(obs, 5)
    assert own.action.shape[:2] == own.reward.shape == (4, 5) and own.continuation.min() == 1.0
    again = model.imagine_from(obs, actions=own.action)
    assert torch.equal(again.latent, own.latent) and torch.equal(again.reward, own.reward)
    latent, reward = model.model.step(model.model.encode(obs), own.action[:, 0])
    assert torch.equal(latent, own.latent[:, 0]) and torch.equal(reward, own.reward[:, 0])


def test_windows_are_compared_in_latents():
    model, rows = small(), batch()
    told = model.model.imagined_windows(rows)
    assert told.error.shape == told.imagined_reward.shape == (len(rows.obs), rows.obs.shape[1] - 1)
    latent = model.model.encode(rows.obs)
    step, _ = model.model.step(latent[:, 0], rows.action[:, 0])
    spread = latent.flatten(0, 1).var(0, correction=0).sum()
    wanted = (step - latent[:, 1]).square().sum(-1) / spread
    assert torch.allclose(told.error[:, 0], wanted, atol=1e-5)
