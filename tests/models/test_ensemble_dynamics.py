"""The ensemble itself: scales, bounds, the two ways of a step, and what is saved."""

import math

import pytest
import torch

from rl_lightning.errors import ConfigError
from rl_lightning.models.dynamics import dynamics_metrics as checks
from rl_lightning.models.dynamics.ensemble_dynamics import CHUNK, EnsembleDynamics, gaussian_nll
from rl_lightning.types import Transitions

OBS, ACT = 11, 3


def make(members: int = 7, elites: int = 5, hidden: tuple[int, ...] = (32, 32), seed: int = 0, **kwargs):
    torch.manual_seed(seed)
    model = EnsembleDynamics(OBS, ACT, members, elites, list(hidden), **kwargs)
    model.fit_statistics(*rows(500))
    return model


def rows(count: int, seed: int = 1) -> tuple[torch.Tensor, ...]:
    """(obs, action, reward, next_obs)"""
    draw = torch.Generator().manual_seed(seed)
    obs = 3.0 * torch.randn(count, OBS, generator=draw) + 5.0
    action = torch.rand(count, ACT, generator=draw) * 2.0 - 1.0
    return obs, action, obs[:, 0] - 2.0, obs + 0.1 * torch.randn(count, OBS, generator=draw)


def transitions(obs, action, reward, next_obs, terminated=None) -> Transitions:
    ones = torch.ones_like(reward)
    ended = torch.zeros_like(reward) if terminated is None else terminated
    return Transitions(obs, action, reward, next_obs, ended, ones, ones, torch.arange(len(obs)))


def generator(seed: int = 3) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_nll_by_hand():
    mean, log_var = torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[0.0, math.log(4.0)]]])
    target = torch.tensor([[3.0, 4.0]])
    expected = ((4.0 / 1.0 + 0.0) + (4.0 / 4.0 + math.log(4.0))) / 2
    assert gaussian_nll(mean, log_var, target).tolist() == pytest.approx([expected])


def test_weights_start_as_a_normal_by_fan_in_and_biases_at_zero():
    model = EnsembleDynamics(97, 3, hidden_dims=[200, 200])
    for layer, fan_in in zip(model.layers, (100, 200, 200), strict=True):
        assert layer.weight.std().item() == pytest.approx(0.5 / math.sqrt(fan_in), rel=0.05)
        assert not layer.bias.any()
    assert (model.max_log_var == 0.5).all() and (model.min_log_var == -10.0).all()


def test_inputs_are_standardised_and_a_constant_column_only_centred():
    obs, action, reward, next_obs = rows(1000)
    obs[:, 4] = 7.0
    model = make()
    model.fit_statistics(obs, action, reward, next_obs)
    inputs = model.inputs(obs, action)
    torch.testing.assert_close(inputs.mean(0), torch.zeros(OBS + ACT), atol=1e-4, rtol=0)
    spread = inputs.std(0, correction=0)
    assert spread[4] == 0.0 and model.input_std[4] == 1.0
    torch.testing.assert_close(
        spread[torch.arange(OBS + ACT) != 4], torch.ones(OBS + ACT - 1), atol=1e-4, rtol=0
    )


def test_targets_are_standardised_only_if_asked_and_predictions_undo_it():
    obs, action, reward, next_obs = rows(400)
    plain, scaled = make(), make(standardize_targets=True)
    assert torch.equal(plain.targets(obs, reward, next_obs)[:, :-1], next_obs - obs)
    targets = scaled.targets(obs, reward, next_obs)
    # means over rows and columns of what was learned: 0 and 1
    assert abs(targets.mean().item()) < 0.1 and targets.std().item() == pytest.approx(1.0, abs=0.1)
    with torch.no_grad():
        mean, log_var = scaled(scaled.inputs(obs, action))
        absolute, std = scaled.predict(obs, action)
    change = mean * scaled.target_std + scaled.target_mean
    torch.testing.assert_close(absolute[..., :-1], obs + change[..., :-1])
    torch.testing.assert_close(absolute[..., -1], change[..., -1])
    torch.testing.assert_close(std, (0.5 * log_var).exp() * scaled.target_std)


def test_log_variance_stays_between_its_bounds():
    model = make()
    with torch.no_grad():
        model.layers[-1].bias.copy_(torch.linspace(-1e3, 1e3, 2 * (OBS + 1)))
        _, log_var = model(torch.randn(50, OBS + ACT))
    assert log_var.max() <= 0.5 + 1e-4 and log_var.min() >= -10.0 - 1e-4


@pytest.mark.parametrize("probabilistic", [True, False])
@pytest.mark.parametrize("count", [1, 4, 3 * CHUNK + 17])
def test_a_row_through_its_own_elite_is_that_row_through_all(probabilistic, count):
    """U8: both ways of a step draw alike and agree."""
    model = make(probabilistic=probabilistic)
    model.elites.copy_(torch.tensor([6, 2, 0, 5, 3]))
    obs, action, *_ = rows(count)
    one, all_of_them = (model.step(obs, action, generator(), spread) for spread in (False, True))
    torch.testing.assert_close(one.next_obs, all_of_them.next_obs, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(one.reward, all_of_them.reward, atol=1e-5, rtol=1e-5)
    assert one.spread is None and all_of_them.spread.shape == (count,)


def test_a_step_is_one_of_the_elites_predictions_and_all_take_part():
    model = make(probabilistic=False)
    model.elites.copy_(torch.tensor([6, 2, 0, 5, 3]))
    obs, action, *_ = rows(300)
    mean, _ = model.predict(obs, action)
    gap = (mean[..., :-1] - model.step(obs, action, generator()).next_obs).abs().amax(-1)  # [E, B]
    assert gap.amin(0).max() < 1e-5
    assert set(gap.argmin(0).tolist()) == {6, 2, 0, 5, 3}


def test_noise_has_the_predicted_spread():
    model = make(members=1, elites=1)
    obs, action, *_ = (part[:1].expand(20_000, *part.shape[1:]) for part in rows(1))
    mean, std = model.predict(obs[:1], action[:1])
    step = model.step(obs, action, generator())
    drawn = torch.cat((step.next_obs, step.reward[:, None]), 1)
    torch.testing.assert_close(drawn.std(0), std[0, 0], rtol=0.05, atol=0)
    torch.testing.assert_close(drawn.mean(0), mean[0, 0], rtol=0, atol=0.05)


def test_spread_is_the_largest_norm_of_any_members_deviation():
    """MOPO takes the maximum over all networks, those among them that no step passes through."""
    model = make()
    model.elites.copy_(torch.tensor([1, 2, 3, 4, 6]))
    obs, action, *_ = rows(20)
    _, std = model.predict(obs, action)
    each = std.square().sum(-1).sqrt()
    expected = each.amax(0)
    assert (each[[1, 2, 3, 4, 6]].amax(0) < expected).any()
    torch.testing.assert_close(model.step(obs, action, generator(), spread=True).spread, expected)


def test_a_step_draws_from_its_generator_alone():
    model, (obs, action, *_) = make(), rows(10)
    before = torch.get_rng_state()
    one, two = (model.step(obs, action, generator()) for _ in range(2))
    assert torch.equal(one.next_obs, two.next_obs) and torch.equal(before, torch.get_rng_state())
    assert not torch.equal(one.next_obs, model.step(obs, action, generator(4)).next_obs)


def test_members_may_have_rows_of_their_own():
    model = make()
    obs, action, *_ = rows(21)
    with torch.no_grad():
        apart, _ = model.predict(obs.view(7, 3, -1), action.view(7, 3, -1))
        together, _ = model.predict(obs, action)
    for k in range(7):
        torch.testing.assert_close(apart[k], together[k, 3 * k : 3 * k + 3])


def test_gradients_reach_every_weight():
    model = make()
    obs, action, reward, next_obs = rows(30)
    mean, log_var = model(model.inputs(obs, action))
    gaussian_nll(mean, log_var, model.targets(obs, reward, next_obs)).sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in model.parameters())


def test_saved_and_rebuilt_it_is_the_same_with_its_elites():
    model = make(standardize_targets=True)
    model.elites.copy_(torch.tensor([4, 6, 1, 0, 2]))
    model.holdout.copy_(torch.arange(7.0))
    again = EnsembleDynamics(**model.init_args())
    again.load_state_dict(model.state_dict())
    obs, action, *_ = rows(40)
    assert torch.equal(
        again.step(obs, action, generator()).next_obs, model.step(obs, action, generator()).next_obs
    )
    assert again.elites.tolist() == [4, 6, 1, 0, 2] and again.holdout.tolist() == list(range(7))
    assert again.fitted


def test_elites_cannot_outnumber_members():
    with pytest.raises(ConfigError, match=r"num_elites is 5.*ensemble_size \(3\)"):
        EnsembleDynamics(OBS, ACT, ensemble_size=3)


def test_squared_errors_by_hand():
    model = make(probabilistic=False)
    part = rows(50)
    given = transitions(*part)
    mean, _ = model.predict(part[0], part[1])
    expected = (mean - torch.cat((part[3], part[2][:, None]), 1)).square().mean(1).double()
    torch.testing.assert_close(checks.squared_errors(model, given), expected, rtol=1e-4, atol=1e-6)


def test_calibration_of_a_model_that_knows_its_error():
    model = make(members=1, elites=1)
    obs, action, *_ = rows(3000)
    step = model.step(obs, action, generator())
    found = checks.calibration(model, transitions(obs, action, step.reward, step.next_obs))
    assert found["within_1_std"] == pytest.approx(0.683, abs=0.01)
    assert found["within_2_std"] == pytest.approx(0.954, abs=0.01)


def test_terminal_recall_counts_what_the_rule_sees():
    model = make(probabilistic=False)
    obs, action, reward, next_obs = rows(200)
    mean, _ = model.predict(obs, action)
    truth = mean[model.elites[0], :, 0] > 5.0
    same = make(members=1, elites=1, probabilistic=False)
    with torch.no_grad():
        for own, other in zip(same.parameters(), model.parameters(), strict=True):
            own.copy_(other[model.elites[0]][None])
    given = transitions(obs, action, reward, next_obs, truth.float())
    found = checks.terminal_recall(same, given, lambda obs: obs[..., 0] > 5.0)
    assert found == {"ends": truth.sum().item(), "recall": 1.0, "false_alarms": 0.0}
    none = checks.terminal_recall(same, given, lambda obs: obs[..., 0] > 1e9)
    assert none["recall"] == 0.0


def test_windows_stay_within_an_episode():
    episode = torch.tensor([0] * 4 + [1] * 2 + [2] * 5)
    found = checks.windows(episode, torch.arange(11), 3, 100)
    assert found.tolist() == [[0, 1, 2], [1, 2, 3], [6, 7, 8], [7, 8, 9], [8, 9, 10]]
    assert len(checks.windows(episode, torch.arange(11), 3, 2)) == 2
    assert checks.windows(episode, torch.arange(11), 6, 9).shape == (0, 6)
