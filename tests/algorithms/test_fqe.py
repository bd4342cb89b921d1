"""Fitted-Q evaluation: the values of chains that can be summed by hand, and nothing learned by the policy."""

from types import SimpleNamespace

import pytest
import torch
from algorithms.offline import SPEC, finite, ready, reloaded, rows
from contracts.cases import BY_NAME
from contracts.harness import fit, newest

from rl_lightning.algorithms.offline import fqe
from rl_lightning.algorithms.offline.fqe import FQE, first_rows
from rl_lightning.artifacts import load_exported
from rl_lightning.clock.run_clock import RunClock, RunConfig
from rl_lightning.errors import ConfigError, ResumeError
from rl_lightning.models.diffusion.diffusion_policies import GuidedPolicy
from rl_lightning.models.policies import (
    CategoricalPolicy,
    DeterministicPolicy,
    SquashedGaussianPolicy,
    UniformPolicy,
)
from rl_lightning.types import EnvSpec

GAMMA, LENGTH = 0.8, 5
SLOW = {"gamma": 0.99, "tau": 0.02}


def small(policy=None, **options):
    torch.manual_seed(0)
    model = ready(FQE(SPEC, "nowhere", hidden_dims=[32], **{"gamma": GAMMA, **options}))
    model.__dict__["policy"] = policy or DeterministicPolicy(3, 2, [8]).requires_grad_(False)
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
    dataset = SimpleNamespace(recording=episode, obs=batch.obs, next_obs=batch.next_obs)
    rows_of = type(batch)(*(None if field is None else field[held_out] for field in batch))
    clock = SimpleNamespace(update=0)
    return SimpleNamespace(
        dataset=dataset, val_rows=lambda: rows_of, train_rows=lambda: batch, seed=0, clock=clock
    )


def begun(model, batch):
    """As at the start of a fit on these rows."""
    model.data_source = data_of(batch, torch.arange(10))
    model.on_fit_start()
    return model


@pytest.mark.parametrize(
    ("ends", "value"), [(True, (1 - GAMMA**LENGTH) / (1 - GAMMA)), (False, 1 / (1 - GAMMA))]
)
def test_a_chain_is_worth_the_sum_of_its_rewards(ends, value):
    batch = chain(ends)
    model = begun(small(lr=0.01, tau=0.1), batch)
    for _ in range(300):
        model.update(batch)
    found = model.test_report(data_of(batch, torch.arange(10)))
    assert found["value"] == pytest.approx(value, rel=0.05)
    assert found["std"] < 0.1 * value and len(found["members"]) == 4
    assert found["episodes"] == 20 and found["val"]["episodes"] == 2
    metrics = model.validate(data_of(batch, torch.arange(10)))
    assert metrics["eval/score"] == metrics["eval/value"] == found["value"]


def test_the_policys_own_next_action_is_valued_by_each_critics_own_slow_copy(monkeypatch):
    model, found = small(), []
    inner = fqe.td_target
    monkeypatch.setattr(fqe, "td_target", lambda *args: found.append(inner(*args)) or found[-1])
    batch = rows(gamma=GAMMA)
    slow = model.q_target(batch.next_obs, model.policy.greedy(batch.next_obs))
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
    obs, draw = rows().obs, torch.Generator()
    assert torch.equal(small(net).policy_action(obs, draw), net.greedy(obs)) and small(net).times == 1
    assert not torch.equal(small(net, stochastic=True).policy_action(obs, draw), net.greedy(obs))
    batch = rows(40)
    model = begun(small(net, stochastic=True, draws=3), batch)
    assert model._actions.shape == (3, 40, 2)
    picked = torch.stack([model.next_actions(batch) for _ in range(30)])
    assert len(torch.unique(picked[:, 7], dim=0)) == 3, "each of a row's draws has its turn"
    again = begun(small(net, stochastic=True, draws=3), batch)
    assert torch.equal(model._actions, again._actions), "the same after a resume"


def test_the_policy_is_neither_saved_nor_trained():
    model = small()
    before = [p.clone() for p in model.policy.parameters()]
    model.update(rows())
    assert all(torch.equal(a, b) for a, b in zip(before, model.policy.parameters(), strict=True))
    assert not [name for name in model.state_dict() if "valued" in name or "policy" in name]
    copy = reloaded(model, FQE(SPEC, "nowhere", hidden_dims=[32]))
    copy.__dict__["policy"] = model.policy
    assert torch.equal(copy.values(rows().obs), model.values(rows().obs))


def test_predictions_of_rows():
    batch = rows()
    found = small().predict_rows(batch)
    assert set(found) == {"q", "q_std", "value", "value_std"}
    assert all(column.shape == (16,) for column in found.values()) and (found["q_std"] > 0).all()


def test_a_policy_of_another_task_is_refused_before_training():
    with pytest.raises(ConfigError, match="5 observations"):
        small(DeterministicPolicy(5, 2, [8])).setup("fit")
    small().setup("fit")


def watched(model, values, every=1000):
    model.clock = RunClock(clock_name="update")
    for value in values:
        model.clock.update += every
        model.on_validation({"eval/value": value})
    return model


def test_a_rising_value_is_not_settled_and_a_flat_one_is():
    rise = [200 * (1 - 0.8**k) for k in range(1, 41)]
    model = watched(small(**SLOW), rise[:6])
    assert not model.settled and not model.should_stop and "has not settled" in model.caution()
    assert model.still_to_come > 0.1
    model = watched(small(**SLOW), rise)
    assert model.settled and model.should_stop and model.caution() is None
    assert (
        not small(plateau=None, **SLOW).should_stop
        and not watched(small(plateau=None, **SLOW), rise).should_stop
    )
    few = watched(small(**SLOW), rise[-3:])
    assert not few.settled and "too few evaluations" in few.caution()
    assert reloaded(model, small(**SLOW)).settled, "a checkpoint remembers"


def test_looking_often_is_no_plateau():
    """A value that rises 0.5 % within sixty updates has a long way to go."""
    model = watched(small(**SLOW), [10.0 + 0.01 * k for k in range(6)], every=10)
    assert not model.settled


def test_the_newest_critics_are_the_best_and_the_slow_ones_are_reported(tmp_path):
    case = BY_NAME["fqe"]
    run = RunConfig(updates=96, eval_every=8)
    done = fit(case.but(model={"plateau": None}), run, folder=tmp_path)
    history = done.evaluation.history
    assert history[-1][1] > history[0][1] and done.evaluation.best == history[-1]
    best = torch.load(tmp_path / "checkpoints" / "best.ckpt", weights_only=True)["state_dict"]
    assert torch.equal(best["q_target.layers.0.weight"], done.model.q_target.layers[0].weight)
    obs = done.data.dataset.obs[:5]
    slow = done.model.q_target(done.model.norm(obs), done.model.policy_action(obs, torch.Generator()))
    torch.testing.assert_close(done.model.values(obs), slow.detach())


def test_an_old_checkpoint_without_a_history_loads():
    model = small()
    state = {name: value for name, value in model.state_dict().items() if name != "history"}
    fresh = small()
    fresh.load_state_dict(state)
    assert not fresh.history.any()


def two_armed(count=200):
    """Discrete actions of a bandit: action 1 pays 1, the others nothing."""
    draw = torch.Generator().manual_seed(0)
    action = torch.randint(3, (count,), generator=draw)
    ends = torch.ones(count)
    return rows(count, gamma=GAMMA, action=action, reward=(action == 1).float(), terminated=ends)


def test_discrete_policies_are_valued():
    spec = EnvSpec("d", (3,), action_kind="discrete", action_sizes=(3,))
    torch.manual_seed(0)
    for policy, value in ((CategoricalPolicy(3, 3, [8]), None), (UniformPolicy(3, 3, True), 1 / 3)):
        model = ready(FQE(spec, "nowhere", hidden_dims=[32], gamma=GAMMA, lr=0.01, tau=0.1))
        model.__dict__["policy"] = policy.requires_grad_(False)
        model.setup("fit")
        batch = two_armed()
        begun(model, batch)
        for _ in range(200):
            model.update(batch)
        wanted = (policy.greedy(batch.obs) == 1).float().mean().item() if value is None else value
        assert model.values(batch.obs).mean().item() == pytest.approx(wanted, abs=0.08)
    with pytest.raises(ConfigError, match="discrete actions; the data have continuous ones"):
        small(CategoricalPolicy(3, 2, [8])).setup("fit")


@pytest.mark.parametrize("name", ["behavior", "dice", "dice-ensemble"])
def test_policies_by_diffusion_are_valued_from_their_checkpoint(name, tmp_path):
    """The very actions that the stage itself would draw, and a value of them."""
    case = BY_NAME[name]
    made = fit(case, RunConfig(updates=8, save_every=8), folder=tmp_path)
    policy = load_exported(newest(tmp_path), "policy")
    obs, draw = made.data.dataset.obs[:6], torch.Generator
    mine, _ = made.model.act(obs, (), draw().manual_seed(3))
    assert torch.equal(policy.choose(obs, draw().manual_seed(3), True), mine)
    fqe_case = BY_NAME["fqe"]
    done = fit(fqe_case.but(model={"policy_from": str(newest(tmp_path))}), RunConfig(updates=40))
    assert done.model.times == 4 and torch.isfinite(done.model.values(obs)).all()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("dqn", {}),
        ("qrdqn", {}),
        ("dqn-dueling-n-step-prioritized", {}),
        ("sac-discrete", {}),
        ("cql-discrete", {}),
        ("iql-discrete", {}),
        ("ppo-discrete", {}),
        ("ppo-discrete", {"deterministic_eval": False, "eval_temperature": 0.5}),
        ("ppo-continuous", {"normalize_obs": True}),
    ],
)
def test_policies_of_other_algorithms_are_valued_from_their_checkpoint(name, options, tmp_path):
    """The very actions that the run itself would play, and a value of them."""
    case = BY_NAME[name].but(model=options)
    made = fit(case, case.run(256, save_every=256), folder=tmp_path)
    spec, actor = made.data.spec, made.model.eval()
    policy = load_exported(newest(tmp_path), "policy")
    obs = torch.rand(300, *spec.obs_shape, generator=torch.Generator().manual_seed(1))
    draws = not actor.deterministic_eval
    mine, _ = actor.act(obs, actor.initial_carry(300), torch.Generator().manual_seed(3) if draws else None)
    played = policy.choose(obs, torch.Generator().manual_seed(3), True)
    assert policy.draws == draws
    assert torch.equal(played, mine if policy.discrete else mine.clamp(-1, 1))
    if not policy.discrete:
        fqe_case = BY_NAME["fqe"]
        done = fit(fqe_case.but(model={"policy_from": str(newest(tmp_path))}), RunConfig(updates=40))
        assert torch.isfinite(done.model.values(obs)).all()
        return
    model = ready(FQE(spec, str(newest(tmp_path)), hidden_dims=[64], gamma=GAMMA, lr=0.01, tau=0.1))
    model.setup("fit")
    action = torch.randint(spec.action_dim, (300,), generator=torch.Generator().manual_seed(2))
    ends = {"reward": (action == mine.mode().values).float(), "terminated": torch.ones(300)}
    batch = rows(300, gamma=GAMMA, obs=obs, next_obs=obs, action=action, **ends)
    begun(model, batch)
    for _ in range(300):
        model.update(batch)
    assert model.values(obs).mean().item() == pytest.approx(
        (mine == mine.mode().values).float().mean().item(), abs=0.1
    )


@pytest.mark.parametrize("name", ["ppo-gru", "ppo-pixels", "ppo-masked", "ppo-multi-discrete", "dqn-masked"])
def test_a_policy_that_rows_cannot_ask_is_not_handed_on(name):
    case = BY_NAME[name]
    assert case.model(case.data().spec).exports() == {}


def test_another_behaviour_than_the_guides_own_is_refused(tmp_path):
    case = BY_NAME["dice"]
    model = case.model(case.data().spec)
    described = model.exports()["policy"]
    policy = GuidedPolicy(**{**described.init_args, "mark": "another"})
    with pytest.raises(ResumeError, match="not the behaviour that this policy was trained with"):
        policy.choose(torch.zeros(2, 1), torch.Generator(), True)


def test_first_rows():
    assert first_rows(torch.tensor([4, 4, 7, 8, 8, 8])).tolist() == [0, 2, 3]
