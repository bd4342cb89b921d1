"""MOBILE: the inconsistency of a linear-Gaussian model, who pays for it, and the floor."""

import math

import pytest
import torch
from algorithms.offline import SPEC, finite, provided, ready, rows
from contracts.families.models import MODEL
from torch import nn

from rl_lightning.algorithms.offline.mobile import MOBILE
from rl_lightning.errors import ConfigError
from rl_lightning.functional.critics.model_doubt import bellman_inconsistency
from rl_lightning.models.dynamics.ensemble_dynamics import EnsembleDynamics


def linear_gaussian(shifts, log_var=-20.0, elites=(0, 2)):
    """Members that move each observation by a shift of their own, with the noise of a raw log-variance."""
    net = EnsembleDynamics(3, 2, len(shifts), len(elites), [4])
    with torch.no_grad():
        for p in net.parameters():
            p.zero_()
        net.max_log_var.fill_(2.0)
        net.min_log_var.fill_(-20.0)
        for member, shift in enumerate(shifts):
            net.layers[-1].bias[member, 0] = torch.tensor([*shift, 0.0, *[log_var] * 4])
        net.elites.copy_(torch.tensor(elites))
    return net


def small(net, **options):
    torch.manual_seed(0)
    model = ready(MOBILE(SPEC, MODEL, [16], **options))
    model.__dict__["dynamics"] = net
    return model


def of_states(model, weight):
    """Target critics that are a linear function of the state, whatever the action."""
    model.q_target.forward = lambda obs, action: (obs @ torch.tensor(weight)).expand(2, -1)


def marked(count=16, real=8, **fields):
    return rows(count, **fields)._replace(is_real=torch.arange(count) < real)


def test_the_inconsistency_of_a_linear_gaussian_model():
    """Two elites: |w (m1 - m2)| / sqrt 2, of imagined rows alone; the third member is wild and no elite."""
    model = small(linear_gaussian([(1.0, 0.0, 0.0), (99.0, 99.0, 99.0), (0.0, 2.0, 0.0)]))
    of_states(model, [3.0, -0.5, 7.0])
    penalty = model._penalty(marked())
    expected = abs(3.0 * 1.0 - (-0.5) * 2.0) / math.sqrt(2.0)
    torch.testing.assert_close(penalty, expected * (torch.arange(16) >= 8).float(), atol=0.01, rtol=0)


def test_noise_that_all_members_know_of_counts_for_nothing():
    torch.manual_seed(0)
    noise = 2.0 * torch.randn(4000, 5, 50)
    assert bellman_inconsistency(noise).mean() < 0.05
    model = small(linear_gaussian([(1.0, 0.0, 0.0)] * 3, log_var=0.0), num_next_samples=2000)
    of_states(model, [1.0, 0.0, 0.0])
    assert model._penalty(marked()).max() < 0.1


def test_only_imagined_rows_pay_in_the_target():
    net = linear_gaussian([(1.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 2.0, 0.0)])
    targets = []
    for coefficient in (0.0, 2.0):
        model = small(net, penalty_coef=coefficient, alpha=0.1)
        of_states(model, [3.0, -0.5, 7.0])
        model.q.forward = lambda obs, action: torch.zeros(2, len(obs), requires_grad=True)
        model.step = lambda optimizer, loss, clip=None: targets.append(loss.item())
        model.update(marked(terminated=torch.ones(16)))
    paid = 2.0 * 4.0 / math.sqrt(2.0)
    assert targets[0] == pytest.approx(1.0)
    assert targets[2] == pytest.approx((8 * 1.0 + 8 * (1.0 - paid) ** 2) / 16, rel=0.01)


@pytest.mark.parametrize(("floor", "loss"), [(None, 25.0), (0.0, 0.0)])
def test_targets_are_no_lower_than_the_floor(floor, loss):
    model, told = small(linear_gaussian([(0.0,) * 3] * 3), q_floor=floor), []
    model.q.forward = lambda obs, action: torch.zeros(2, len(obs), requires_grad=True)
    model.step = lambda optimizer, value, clip=None: told.append(value.item())
    model.update(marked(reward=torch.full((16,), -5.0), terminated=torch.ones(16), real=16))
    assert told[0] == pytest.approx(loss)


def test_a_model_of_other_sizes_is_refused():
    with pytest.raises(ConfigError, match="a model of 1 observations and 1 actions; the data have 3"):
        MOBILE(SPEC, MODEL, [16]).setup("fit")


def test_what_it_provides_acts_alike():
    model, obs = small(linear_gaussian([(0.1, 0.0, 0.0)] * 3)), rows().obs
    assert finite(model.update(marked()))
    assert torch.equal(provided(model).greedy(obs), model.act(obs, (), None)[0])
    assert not any(isinstance(part, EnsembleDynamics) for part in model.modules() if part is not nn.Module)
