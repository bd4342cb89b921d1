"""A penalty that weighs nothing changes nothing."""

import torch
from contracts.cases import BY_NAME
from contracts.harness import differing, fit, weights

from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.models.dynamics.penalties import Penalty


class Flat(Penalty):
    """Every imagined step costs the same, and counts as outside."""

    def __call__(self, obs, action, step):
        return torch.ones_like(step.reward), torch.ones_like(step.reward, dtype=torch.bool)


def test_a_coefficient_of_zero_trains_the_policy_of_no_penalty():
    def trained(**given):
        return weights(fit(BY_NAME["sac-imagined"].but(data=given), RunConfig(updates=40)).model)

    plain = trained()
    assert not differing(plain, trained(penalty=Flat(), penalty_coef=0.0, ood_terminal_value=-5.0))
    assert differing(plain, trained(penalty=Flat(), penalty_coef=0.5))
