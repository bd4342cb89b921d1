"""EDAC: the lowest of many critics, and gradients that are kept apart."""

import pytest
import torch
from algorithms.offline import SPEC, finite, provided, ready, rows

from rl_lightning.algorithms.offline.edac import EDAC
from rl_lightning.errors import ConfigError
from rl_lightning.functional.critics.conservative import gradient_diversity
from rl_lightning.models.action_values import q_and_action_grads


def small(**options):
    torch.manual_seed(0)
    return ready(EDAC(SPEC, [16], **{"num_critics": 4, **options}))


def test_losses_are_those_of_the_paper():
    model, batch = small(diversity_coef=3.0), rows()
    torch.manual_seed(1)
    next_action, log_prob = model.policy.sample_with_log_prob(batch.next_obs)
    target = 1 + 0.9 * (model.q_target(batch.next_obs, next_action).amin(0) - log_prob)
    q, grads = q_and_action_grads(model.q, batch.obs, batch.action)
    expected = ((q - target.detach()) ** 2).mean(-1).sum() + 3.0 * gradient_diversity(grads)
    losses = []
    model.step = lambda optimizer, loss, clip=None: losses.append(loss.item())
    torch.manual_seed(1)
    assert finite(model.update(batch))
    assert losses[0] == pytest.approx(expected.item(), rel=1e-5)


def test_gradients_part_with_the_weight_of_the_term():
    likeness = []
    for weight in (0.0, 10.0):
        model = small(diversity_coef=weight, lr=0.003)
        for seed in range(60):
            metrics = model.update(rows(64, seed=seed))
        likeness.append(metrics["train/gradient_likeness"].item())
    assert likeness[1] < likeness[0] - 0.5


def test_pessimism_grows_with_the_number_of_critics():
    """The lowest of N standard normal values is -0.56 for 2 and -1.54 for 10 in the mean."""
    torch.manual_seed(0)
    for count, expected in ((2, -0.564), (10, -1.539)):
        model = small(num_critics=count, backup_entropy=False)
        model.q_target.forward = lambda obs, action, n=count: torch.randn(n, len(obs))
        batch = rows(20_000, reward=torch.zeros(20_000), discount=torch.ones(20_000))
        assert model._soft_target(batch).mean().item() == pytest.approx(expected, abs=0.03)


def test_one_critic_has_nobody_to_differ_from():
    with pytest.raises(ConfigError, match="num_critics"):
        EDAC(SPEC, num_critics=1)


def test_what_it_provides_acts_alike():
    model, obs = small(), rows().obs
    model.update(rows())
    assert torch.equal(provided(model).greedy(obs), model.act(obs, (), None)[0])
