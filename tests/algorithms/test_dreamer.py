"""Dreamer's traps, one by one: pairing, weights, where gradients go, what is normalised, what is kept."""

import gc
from functools import partial

import pytest
import torch
from contracts.cases import BY_NAME
from contracts.families.dreamer import dreamer, world
from contracts.harness import bare, differing, weights

from rl_lightning import distributed
from rl_lightning.algorithms import Dreamer
from rl_lightning.clock.phases import Phase, PhaseContext
from rl_lightning.envs.make import make_envs
from rl_lightning.errors import ConfigError
from rl_lightning.functional.imagined_returns import StateReturns
from rl_lightning.models.rssm.heads import ContinueHead
from rl_lightning.models.rssm.return_norm import PercentileNorm
from rl_lightning.rollout.collect import Collector
from rl_lightning.types import EnvSpec, Sequences

SPEC = EnvSpec("fake", (4,), action_kind="discrete", action_sizes=(4,))
VERSIONS = [1, 2, 3]


def made(version: int, spec: EnvSpec = SPEC, **parts) -> Dreamer:
    torch.manual_seed(0)
    return dreamer(version, **parts)(spec)


def echo(rows: int = 16, steps: int = 10, shift: int = 0) -> Sequences:
    """What is seen is the action before; arriving by action 2 earns 1. Every episode is cut after 5 rows, none ends."""
    action = torch.randint(4, (rows, steps))
    is_first = (torch.arange(steps) % 5 == 0).expand(rows, steps)
    before = action.roll(1 + shift, 1)
    obs = torch.nn.functional.one_hot(before, 4).float() * ~is_first[..., None]
    reward = (before == 2).float() * ~is_first
    cut = (torch.arange(steps) % 5 == 4).float().expand(rows, steps)
    action = torch.where(cut > 0, 0, action)
    return Sequences(obs, action, reward, torch.zeros(rows, steps), cut, is_first)


def foreseen(module: Dreamer) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(observation, reward, discount) dreamed one step ahead for each of the four actions."""
    window = module.world_model.window(echo(1, 3))
    state = module.world_model.observe(window).state
    start = type(state)(*(part[-1].expand(4, -1) for part in state))
    here = module.world_model.rssm.img_step(start, torch.eye(4), None)
    feature = here.feature
    return (
        module.world_model.decoder.predict(feature),
        module.world_model.reward_head.value(feature),
        module.world_model.continuation(feature),
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_the_model_learns_what_an_action_does_and_what_it_earns(version):
    """D1, D2, D12: the dreamed step shows the action taken, is paid for it alone, and goes on, cuts or not."""
    parts = {"continue_head": partial(ContinueHead, hidden_dims=[32], loss_coef=5.0, discounted=version > 1)}
    module = made(version, world_model=world(version, **parts), lr=5e-3)
    for _ in range(220):
        module.update_world_model(echo())
    with torch.no_grad():
        seen, reward, live = foreseen(module)
    assert (seen - torch.eye(4)).abs().max() < 0.25
    assert reward.tolist() == pytest.approx([0.0, 0.0, 1.0, 0.0], abs=0.25)
    assert live.tolist() == pytest.approx([0.95] * 4, abs=0.03)


def test_a_shifted_action_cannot_be_learned():
    """D1, the other way round: the same model, each action one row late, foresees nothing."""
    module = made(3, lr=5e-3)
    for _ in range(220):
        module.update_world_model(echo(shift=-1))  # the observation belongs to the action of its own row
    with torch.no_grad():
        seen, _, _ = foreseen(module)
    assert (seen - torch.eye(4)).abs().max() > 0.5


def window_of(module: Dreamer, terminated: float = 0.0):
    batch = echo(3, 5)
    window = module.world_model.window(batch._replace(terminated=torch.full((3, 5), terminated)))
    return window, module.world_model.observe(window)


@pytest.mark.parametrize("version", VERSIONS)
def test_neither_actor_nor_critic_teaches_the_world(version):
    """D13, also where the actor's gradient goes through the world: nothing stays in it, nor in the critic."""
    module = made(version)
    for head in (module.critic, module.world_model.reward_head, module.actor):
        head.net.top.weight.data.normal_()  # zero-initialised, they would have no gradient to lead anywhere
    lesson = module._imagine(*window_of(module))
    world_weights, critic = list(module.world_model.parameters()), list(module.critic.parameters())
    for loss, others in ((lesson.actor_loss, world_weights + critic), (lesson.critic_loss, world_weights)):
        grads = torch.autograd.grad(loss, others, allow_unused=True, retain_graph=True)
        assert all(grad is None for grad in grads)
    own = torch.autograd.grad(lesson.actor_loss, list(module.actor.parameters()), allow_unused=True)
    assert any(grad is not None and grad.any() for grad in own)
    assert all(p.requires_grad for p in world_weights + critic), "thawed again"


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_learned_from_after_the_end(version):
    """D15: imagination that starts in a terminal state weighs nothing; the weights carry no gradient."""
    module = made(version)
    lesson = module._imagine(*window_of(module, terminated=1.0))
    assert lesson.actor_loss.item() == 0.0 and lesson.critic_loss.item() == 0.0


def test_replayed_rewards_teach_critic_and_world():
    module = made(3)
    window, observed = window_of(module)
    start = torch.zeros(window.reward.shape)
    loss = module._replay_value_loss(observed.state.feature, window, start)
    by_critic = torch.autograd.grad(loss, module.critic.net.top.weight, retain_graph=True)[0]
    assert by_critic.abs().sum() > 0
    module.critic.net.top.weight.data.normal_()  # zero-initialised, it would hide the way into the world
    loss = module._replay_value_loss(observed.state.feature, window, start)
    found = torch.autograd.grad(loss, list(module.world_model.rssm.parameters()), allow_unused=True)
    assert any(grad is not None and grad.any() for grad in found)


def test_replayed_returns_by_hand():
    """Rewards 1, 2 on arriving, cut on arriving at row 2, a new episode after; bootstrapped with imagined returns."""
    module = made(3, gamma=0.5)
    window, observed = window_of(module)
    reward = torch.tensor([[0.0], [1.0], [2.0], [0.0], [4.0]])
    cut = torch.tensor([[0.0], [0.0], [1.0], [0.0], [0.0]])
    seen = []
    module._value_loss = lambda feature, target: seen.append(target) or torch.zeros_like(target)
    module.returns.lam = 1.0
    window = window._replace(reward=reward, truncated=cut, terminated=torch.zeros(5, 1))
    module._replay_value_loss(observed.state.feature[:, :1], window, torch.full((5, 1), 10.0))
    # row 0: 1 + .5 * (2 + .5 * 10); row 1: 2 + .5 * 10; row 2 is cut and weighs 0; row 3: 4 + .5 * 10
    assert seen[0].ravel().tolist()[:2] == [4.5, 7.0] and seen[0][3].item() == 9.0


def test_the_scale_follows_slowly_never_below_its_floor_and_only_in_training(monkeypatch):
    """D14, with the returns of all ranks."""
    scale = PercentileNorm(ema_rate=0.5)
    scale.update(torch.zeros(10, 10))
    assert scale.scale().item() == 1.0  # sparse rewards are not blown up
    returns = torch.linspace(0.0, 100.0, 101)
    scale.update(returns)
    assert scale.quantiles.tolist() == pytest.approx([2.5, 47.5])
    monkeypatch.setattr(distributed, "gather", lambda tensor: [tensor, tensor + 100.0])
    two = PercentileNorm(low_quantile=0.0, high_quantile=1.0, ema_rate=1.0)
    two.update(returns)
    assert two.quantiles.tolist() == [0.0, 200.0]

    run = bare(BY_NAME["dreamer-v3"])
    run.learn(run.block())
    before = weights(run.model)
    run.model.run_episodes(run.data.eval_envs(2), 2, seed=1)
    assert not differing(before, weights(run.model))
    run.data.teardown("fit")


@pytest.mark.parametrize("name", ["dreamer-v1", "dreamer-v3", "planet"])
def test_one_env_and_many_are_played_alike(name):
    """D16: every env has a state of its own, begun anew with each episode; and D20: no graph is kept."""
    case = BY_NAME[name]
    run = bare(case)
    if name != "planet":
        run.model.actor.net.top.weight.data.normal_()  # not the same action for ever
    config, seen = case.data().env, []
    for count in (1, 3):
        envs = make_envs(config, count, "sync")
        collector = Collector(envs, seed=5)
        collector.carry = run.model.initial_carry(count)
        steps = collector.collect(run.model.act_fn(), 12, None)
        seen.append((steps.obs[:, 0], steps.action[:, 0], [part[0] for part in collector.carry]))
        assert all(not part.requires_grad and part.grad_fn is None for part in collector.carry)
        assert steps.is_first.sum() > count  # episodes ended on the way
        envs.close()
    assert (seen[0][0] == seen[1][0]).all()
    assert seen[0][1] == pytest.approx(seen[1][1], abs=1e-5)
    for one, many in zip(seen[0][2], seen[1][2], strict=True):
        assert torch.allclose(one, many, atol=1e-5)
    run.data.teardown("fit")


@pytest.mark.parametrize("version", VERSIONS)
def test_updates_apart_and_together(version):
    """The two hooks move what they say and no more."""
    module = made(version)
    for _ in range(3):
        module.update(echo(4, 5))
    before = weights(module)
    module.update_world_model(echo(4, 5))
    assert all(name.startswith("world_model.") for name in differing(before, weights(module)))
    before = weights(module)
    module.update_controller(echo(4, 5))
    assert all(not name.startswith("world_model.") for name in differing(before, weights(module)))


def test_windows_count_by_their_weight():
    """Of prioritized drawing: a window of no weight teaches the world nothing."""
    module, batch = made(3), echo(4, 5)
    window = module.world_model.window(batch)
    torch.manual_seed(0)
    observed = module.world_model.observe(window)
    losses, _ = module.world_model.losses(window, observed)
    expected = sum(loss[:, :2].sum() / loss.numel() if loss.dim() else loss for loss in losses.values())
    weighted = batch._replace(weight=torch.tensor([1.0, 1.0, 0.0, 0.0]))
    torch.testing.assert_close(module._model_loss(weighted, window, observed)[0], expected)


def test_the_slow_critic_is_copied_when_it_should_be():
    module = made(2)  # all of it every 20 updates
    start = weights(module.critic_target)
    for update in range(1, 21):
        module.update_controller(echo(2, 3))
        same = not differing(start, weights(module.critic_target))
        assert same == (update < 20)
    assert not differing(weights(module.critic), weights(module.critic_target))


def test_a_phase_may_shorten_the_horizon():
    module = made(3)
    module.phase = PhaseContext(Phase("short", horizon=2), 0.0)
    assert len(module._imagine(*window_of(module)).targets.critic) == 2


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"horizon": 0}, "horizon"),
        ({"replay_value_coef": 0.3, "returns": StateReturns()}, "ArrivalReturns"),
        ({"actor_grad_mix": 2.0}, "mix"),
    ],
)
def test_senseless_numbers_are_refused(parts, said):
    with pytest.raises(ConfigError, match=said):
        made(3, **parts)
    with pytest.raises(ConfigError, match="at least 2"):
        module = made(2, horizon=1)
        module._imagine(*window_of(module))


def tensors() -> int:
    gc.collect()
    return sum(torch.is_tensor(item) for item in gc.get_objects())


@pytest.mark.parametrize("count", [60, pytest.param(2000, marks=pytest.mark.slow)])
def test_memory_is_flat(count):
    """D20: no tensor more after many updates and steps than after a few."""
    run = bare(BY_NAME["dreamer-v3-pixels-latents"])
    for _ in range(12):
        run.learn(run.data.next_block())
        run.model.pop_metrics()
    before, start = tensors(), run.data.clock.update
    while run.data.clock.update < start + count:
        run.learn(run.data.next_block())
        run.model.pop_metrics()
    assert tensors() <= before + 5
    run.data.teardown("fit")


@pytest.mark.parametrize("version", [1, 3])
def test_noise_of_exploring_is_not_in_evaluation(version):
    module = made(version, exploration_noise=1.0)
    obs, carry = torch.randn(64, 4), module.initial_carry(64)
    calm = [module.act(obs, carry, None)[0] for _ in range(2)]
    wild = [module.act(obs, carry, torch.Generator().manual_seed(k))[0] for k in range(2)]
    assert torch.equal(*calm) and not torch.equal(*wild)
    assert wild[0].unique().numel() == 4
