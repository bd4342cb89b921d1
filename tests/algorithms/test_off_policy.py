"""DQN and SAC: targets, slow networks, temperature, ensembles, by hand."""

import math
from functools import partial

import pytest
import torch
from contracts.cases import BY_NAME
from contracts.harness import bare, differing, weights

from rl_lightning.algorithms import DQN, SAC, DiscreteSAC, deep_q_learning
from rl_lightning.algorithms.online import sac
from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.errors import ConfigError
from rl_lightning.nn import MLP
from rl_lightning.optim.optimizers import SGD
from rl_lightning.optim.schedules import Linear
from rl_lightning.types import EnvSpec, Transitions

DISCRETE = EnvSpec("e", (2,), action_kind="discrete", action_sizes=(3,))
TINY = partial(MLP, hidden_dims=[8])
CONTINUOUS = EnvSpec("e", (2,), action_kind="continuous", action_shape=(1,))


def batch(spec: EnvSpec, rows: int = 8, **fields) -> Transitions:
    g = torch.Generator().manual_seed(0)
    one = torch.ones(rows)
    action = (
        torch.rand(rows, 1, generator=g) if spec is CONTINUOUS else torch.randint(3, (rows,), generator=g)
    )
    obs, next_obs = torch.randn(2, rows, 2, generator=g)
    made = Transitions(obs, action, one, next_obs, 0 * one, 0.9 * one, one, torch.arange(rows))
    return made._replace(**fields)


def ready(model):
    """With its optimizers, made now."""
    model.raw_optimizers()
    return model


def target_of(monkeypatch, file, model, rows) -> torch.Tensor:
    """The TD target of an update, as the rule computes it."""
    found = []
    inner = file.td_target

    def spy(*args):
        found.append(inner(*args))
        return found[-1]

    monkeypatch.setattr(file, "td_target", spy)
    model.update(rows)
    return found[0]


@pytest.mark.parametrize("double", [True, False])
def test_double_q_values_the_online_choice_by_the_slow_network(double, monkeypatch):
    torch.manual_seed(0)
    model = ready(DQN(DISCRETE, TINY, double_q=double))
    with torch.no_grad():
        for weight in model.q_target.parameters():
            weight.add_(torch.randn(weight.shape))
        rows = batch(DISCRETE)
        online, slow = model.q(rows.next_obs), model.q_target(rows.next_obs)
    assert (online.argmax(-1) != slow.argmax(-1)).any()
    best = slow.gather(-1, online.argmax(-1, keepdim=True))[:, 0] if double else slow.amax(-1)
    torch.testing.assert_close(target_of(monkeypatch, deep_q_learning, model, rows), 1.0 + 0.9 * best)


def test_terminated_rows_are_worth_their_reward_and_long_rows_their_own_discount(monkeypatch):
    terminated, discount = torch.tensor([0.0, 1.0] * 4), torch.tensor([0.9, 0.9, 0.81, 0.81] * 2)
    rows = batch(DISCRETE, terminated=terminated, discount=discount)
    model = ready(DQN(DISCRETE, TINY, double_q=False))
    slow = model.q_target(rows.next_obs).amax(-1).detach()
    target = target_of(monkeypatch, deep_q_learning, model, rows)
    torch.testing.assert_close(target, 1.0 + discount * (1 - terminated) * slow)


def test_masked_actions_are_never_chosen_nor_valued(monkeypatch):
    legal = torch.tensor([True, False, True]).expand(8, 3)
    rows = batch(DISCRETE, mask=legal, next_mask=legal)
    model = ready(DQN(DISCRETE, TINY, double_q=False))
    with torch.no_grad():
        for net in (model.q, model.q_target):
            net.advantage[-1].bias[1] = 1e6
        slow = model.q_target(rows.next_obs)[:, [0, 2]].amax(-1)
    torch.testing.assert_close(target_of(monkeypatch, deep_q_learning, model, rows), 1.0 + 0.9 * slow)
    for explore in (None, torch.Generator().manual_seed(0)):
        model.clock.progress = 0.0
        assert not (model.act(rows.obs, (), explore, legal)[0] == 1).any()


@pytest.mark.parametrize("alpha", [0.2, 5.0])
def test_masks_in_discrete_sac_stay_finite_at_any_temperature(alpha):
    legal = torch.tensor([True, False, True]).expand(8, 3)
    model = ready(DiscreteSAC(DISCRETE, TINY, alpha=alpha))
    metrics = model.update(batch(DISCRETE, mask=legal, next_mask=legal))
    assert all(torch.isfinite(value).all() for value in metrics.values())
    assert all(torch.isfinite(p).all() for p in model.parameters())


def test_importance_weights_scale_the_loss_row_by_row():
    rows = batch(DISCRETE)
    torch.manual_seed(0)
    model = ready(DQN(DISCRETE, TINY))
    rows = rows._replace(weight=torch.tensor([1.0, 0, 0, 0, 0, 0, 0, 0]))
    alone = model.update(rows)
    torch.manual_seed(0)
    twin = ready(DQN(DISCRETE, TINY))
    half = twin.update(rows._replace(weight=rows.weight * 0.5))
    assert half["train/loss"].item() == pytest.approx(alone["train/loss"].item() / 2)
    torch.testing.assert_close(half["priority"], alone["priority"])


@pytest.mark.parametrize(("rate", "every"), [(1.0, 3), (0.25, 1), (0.1, 2)])
def test_slow_q_moves_by_exactly_the_target_rate_when_it_is_due(rate, every):
    model = ready(DQN(DISCRETE, TINY, tau=rate, target_every=every, lr=0.1))
    for update in range(1, 7):
        slow = [p.clone() for p in model.q_target.parameters()]
        model.update(batch(DISCRETE))
        for before, after, fast in zip(slow, model.q_target.parameters(), model.q.parameters(), strict=True):
            expected = before if update % every else torch.lerp(before, fast.detach(), rate)
            assert torch.equal(after, expected)


@pytest.mark.parametrize("make", [SAC, DiscreteSAC])
@pytest.mark.parametrize("rate", [0.005, 0.3])
def test_slow_critics_move_by_exactly_the_target_rate(make, rate):
    spec = CONTINUOUS if make is SAC else DISCRETE
    model = ready(make(spec, TINY, tau=rate, lr=0.1))
    assert all(
        torch.equal(a, b) for a, b in zip(model.q_target.parameters(), model.q.parameters(), strict=True)
    )
    for _ in range(3):
        slow = [p.clone() for p in model.q_target.parameters()]
        model.update(batch(spec))
        for before, after, fast in zip(slow, model.q_target.parameters(), model.q.parameters(), strict=True):
            assert torch.equal(after, torch.lerp(before, fast.detach(), rate))


def test_pixel_encoders_follow_alike():
    run = bare(BY_NAME["sac-pixels"])
    block = run.block()
    slow = [p.clone() for p in run.model.encoder_target.parameters()]
    del block.batches[1:]
    run.learn(block)
    pairs = zip(slow, run.model.encoder_target.parameters(), run.model.encoder.parameters(), strict=True)
    assert all(torch.equal(after, torch.lerp(before, fast.detach(), 0.05)) for before, after, fast in pairs)


@pytest.mark.parametrize("name", ["sac", "sac-pixels", "sac-ensemble-subset"])
def test_critics_and_encoder_are_unchanged_by_the_actor_step(name):
    run = bare(BY_NAME[name])
    rows = run.block().batches[0]
    before = weights(run.model)
    run.model.update_actor(rows)
    moved = differing(before, weights(run.model))
    assert moved and all(name.startswith(("actor.", "log_alpha")) for name in moved)


@pytest.mark.parametrize("make", [SAC, DiscreteSAC])
def test_temperature_falls_when_entropy_is_above_its_target_and_rises_below(make):
    spec = CONTINUOUS if make is SAC else DISCRETE
    low, high = ({"target_entropy": -50.0}, {"target_entropy": 50.0}) if make is SAC else ({}, {})
    if make is DiscreteSAC:
        low, high = {"target_entropy_scale": 0.1}, {"target_entropy_scale": 1.5}
    for target, falls in ((low, True), (high, False)):
        model = ready(make(spec, TINY, **target))
        before = model.log_alpha.item()
        model.update(batch(spec))
        assert (model.log_alpha.item() < before) is falls


@pytest.mark.parametrize("make", [SAC, DiscreteSAC])
def test_the_temperatures_slope_is_that_of_its_logarithm(make):
    """SB3's and OfflineRL-Kit's loss is log(alpha) (entropy - target): a small temperature moves as fast as a large."""
    spec, name = (CONTINUOUS, "initial_alpha") if make is SAC else (DISCRETE, "alpha")
    torch.manual_seed(0)
    model = make(spec, TINY, **{name: 0.01})
    model.log_alpha.requires_grad_(True)
    actor, critic, *_ = model.configure_optimizers()
    model._own_optimizers = [actor, critic, SGD([model.log_alpha], 0.5)]
    before = model.log_alpha.item()
    entropy = model.update(batch(spec))["train/entropy"]
    expected = before - 0.5 * (float(entropy) - model.target_entropy)
    assert model.log_alpha.item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("start", [None, 0.0, -3.0])
def test_the_first_policy_is_as_wide_as_asked(start):
    torch.manual_seed(0)
    model = SAC(CONTINUOUS._replace(action_shape=(6,)), log_std_init=start)
    _, log_std = model.actor(torch.randn(256, 2))
    assert log_std.mean().item() == pytest.approx(-1.5 if start is None else start, abs=0.25)


def test_a_log_std_outside_its_bounds_is_refused():
    with pytest.raises(ConfigError, match=r"log_std_init is 2\.0"):
        SAC(CONTINUOUS, log_std_init=2.0)


@pytest.mark.parametrize("make", [SAC, DiscreteSAC])
def test_a_fixed_temperature_stays(make):
    spec = CONTINUOUS if make is SAC else DISCRETE
    model = ready(make(spec, TINY, alpha=0.3))
    assert len(model.configure_optimizers()) == 2
    model.update(batch(spec))
    assert model.log_alpha.exp().item() == pytest.approx(0.3)


def test_the_target_entropy_is_minus_the_action_dimensions():
    spec = CONTINUOUS._replace(action_shape=(5,))
    assert SAC(spec, TINY).target_entropy == -5.0
    assert DiscreteSAC(DISCRETE, TINY, target_entropy_scale=0.5).target_entropy == pytest.approx(
        0.5 * math.log(3)
    )


@pytest.mark.parametrize(("critics", "subset"), [(2, None), (5, None), (5, 2), (3, 1)])
def test_sac_target_is_the_minimum_of_the_slow_critics(critics, subset, monkeypatch):
    """Over all of them, or over a subset drawn anew each update; minus alpha log pi of a fresh action."""
    model = ready(
        SAC(
            CONTINUOUS,
            TINY,
            num_critics=critics,
            num_target_critics=subset,
            alpha=0.5,
            critic_hidden_dims=[8],
        )
    )
    rows = batch(CONTINUOUS)
    torch.manual_seed(3)
    with torch.no_grad():
        for weight in model.q.parameters():
            weight.add_(10.0)  # the online critics must not be asked
        mean, log_std = model.actor(rows.next_obs)
        noise = torch.randn(mean.shape)
        raw = mean + log_std.exp() * noise
        density = torch.distributions.Normal(mean, log_std.exp()).log_prob(raw) - torch.log(
            1 - raw.tanh() ** 2 + 1e-9
        )
        q = model.q_target(rows.next_obs, raw.tanh())
        if subset:
            q = q[torch.randperm(critics)[:subset]]
    torch.manual_seed(3)
    target = target_of(monkeypatch, sac, model, rows)
    torch.testing.assert_close(target, 1.0 + 0.9 * (q.amin(0) - 0.5 * density[:, 0]), atol=1e-4, rtol=1e-4)


def test_subsets_differ_from_update_to_update(monkeypatch):
    model = ready(
        SAC(
            CONTINUOUS,
            TINY,
            num_critics=6,
            num_target_critics=1,
            alpha=1e-9,
            lr=1e-12,
        )
    )
    seen = {round(target_of(monkeypatch, sac, model, batch(CONTINUOUS)).sum().item(), 2) for _ in range(12)}
    assert len(seen) > 3


def test_the_actor_waits_and_then_makes_up_for_it():
    model = ready(SAC(CONTINUOUS, TINY, policy_delay=3, actor_steps=3))
    steps = []
    model._actor_step = lambda *args: steps.append(int(model.updates)) or {}
    for _ in range(6):
        model.update(batch(CONTINUOUS))
    assert steps == [3, 3, 3, 6, 6, 6]


def test_redq_moves_actor_and_temperature_once_in_twenty_updates():
    model = ready(SAC(CONTINUOUS, TINY, num_critics=4, num_target_critics=2, policy_delay=20, lr=1e-3))
    for _ in range(20):
        model.update(batch(CONTINUOUS))
    actor, critic, alpha = ({int(s["step"]) for s in o.state.values()} for o in model.raw_optimizers())
    assert (actor, critic, alpha) == ({1}, {20}, {1})


def test_a_subset_of_all_critics_is_sac_with_their_mean():
    plain, subset = (ready(SAC(CONTINUOUS, TINY, num_target_critics=m)) for m in (None, 2))
    subset.load_state_dict(plain.state_dict())
    told = []
    for model, value in ((plain, "mean"), (subset, subset.actor_value)):
        model.actor_value = value
        for part in (
            lambda m=model: m._q_target(batch(CONTINUOUS), torch.tensor(0.1)),
            lambda m=model: m._actor_loss(batch(CONTINUOUS))[0],
        ):
            torch.manual_seed(3)
            told.append(part())
    torch.testing.assert_close(told[:2], told[2:])


def test_pairs_of_critics_are_drawn_alike():
    model = SAC(CONTINUOUS, TINY, num_critics=5, num_target_critics=2, alpha=1e-9)
    rows, pairs = batch(CONTINUOUS, 1, reward=torch.zeros(1), discount=torch.ones(1)), []
    model.q_target.forward = lambda obs, action: 10.0 ** torch.arange(5.0)[:, None].expand(5, len(obs))
    for _ in range(600):
        pairs.append(round(math.log10(model._q_target(rows, torch.tensor(0.0)).item())))
    # the lowest of a pair of 0..4 is 0 in 4 of 10 pairs, 1 in 3, 2 in 2, 3 in 1
    shares = [pairs.count(k) / len(pairs) for k in range(5)]
    assert shares == pytest.approx([0.4, 0.3, 0.2, 0.1, 0.0], abs=0.06)


def test_dropout_is_each_critics_own_and_on_in_training_alone():
    model = SAC(
        CONTINUOUS, TINY, critic_hidden_dims=[64], critic_dropout=0.5, critic_layer_norm=True, alpha=0.1
    )
    with torch.no_grad():
        for p in model.q_target.parameters():
            p[1] = p[0]
    rows = batch(CONTINUOUS)
    first, second = (model.q_target(rows.next_obs, rows.action) for _ in range(2))
    assert not torch.equal(first, second) and not torch.equal(first[0], first[1])
    model.eval()
    first, second = (model.q_target(rows.next_obs, rows.action) for _ in range(2))
    assert torch.equal(first, second) and torch.equal(first[0], first[1])
    kinds = [type(layer).__name__ for layer in model.q.layers]
    assert kinds == ["EnsembleLinear", "Dropout", "EnsembleNorm", "ReLU", "EnsembleLinear"]


def test_sac_anneals_the_actors_rate_alone():
    model = ready(SAC(CONTINUOUS, TINY, lr=1e-2, critic_lr=3e-3, lr_schedule=Linear(end=0.0)))
    actor, critic, alpha = model.raw_optimizers()
    for progress, rate in ((0.0, 1e-2), (0.75, 2.5e-3), (1.0, 0.0)):
        model.clock.progress = progress
        model.update(batch(CONTINUOUS))
        assert actor.param_groups[0]["lr"] == pytest.approx(rate)
    assert critic.param_groups[0]["lr"] == 3e-3 and alpha.param_groups[0]["lr"] == 1e-2


def test_sac_acts_within_bounds_and_greedily_without_noise():
    model = SAC(CONTINUOUS, TINY)
    obs = 100 * torch.randn(64, 2)
    drawn, _ = model.act(obs, (), torch.Generator().manual_seed(0))
    greedy = [model.act(obs, (), None)[0] for _ in range(2)]
    assert drawn.abs().max() <= 1 and torch.equal(*greedy) and not torch.equal(drawn, greedy[0])


def test_gradients_are_scaled_down_to_the_largest_norm():
    plain = SGD
    model = ready(
        DQN(
            DISCRETE,
            TINY,
            lr=1.0,
            optimizer=plain,
            max_grad_norm=0.01,
            huber_delta=None,
        )
    )
    before = [p.detach().clone() for p in model.q.parameters()]
    model.update(batch(DISCRETE, reward=100 * torch.ones(8)))
    moved = torch.cat([(a - b).flatten() for a, b in zip(before, model.q.parameters(), strict=True)])
    assert moved.norm().item() == pytest.approx(0.01, rel=1e-3)


def test_dqn_anneals_its_rate_from_the_full_one():
    case = BY_NAME["dqn"].but({"learning_starts": 8, "utd_ratio": 0.5}, {"lr": 0.1, "lr_schedule": Linear()})
    run = bare(case, RunConfig(env_steps=80))
    rates = []
    while not run.data.clock.is_finished:
        progress = run.data.clock.fraction
        before = run.data.clock.update
        run.learn(run.data.next_block())
        if run.data.clock.update > before:
            rates.append((progress, run.optimizers[0].param_groups[0]["lr"]))
    assert len(rates) > 3
    assert [rate for _, rate in rates] == pytest.approx([0.1 * (1 - progress) for progress, _ in rates])


@pytest.mark.parametrize(("make", "spec"), [(SAC, DISCRETE), (DQN, CONTINUOUS), (DiscreteSAC, CONTINUOUS)])
def test_an_action_space_that_is_not_supported_is_named(make, spec):
    with pytest.raises(ConfigError, match=f"{make.__name__} needs .* actions; e has"):
        make(spec)


def test_a_subset_larger_than_the_ensemble_is_refused():
    with pytest.raises(ConfigError, match="num_target_critics"):
        SAC(CONTINUOUS, num_critics=2, num_target_critics=3)
