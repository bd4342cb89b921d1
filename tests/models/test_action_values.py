"""Many actions at each state: their values, their densities, and the critics' gradients by them."""

import pytest
import torch

from rl_lightning.functional.critics.conservative import gradient_diversity
from rl_lightning.models.action_values import drawn_actions, q_and_action_grads, q_of_each
from rl_lightning.models.policies import SquashedGaussianPolicy
from rl_lightning.nn import MLP
from rl_lightning.nn.heads.critics import QEnsemble, QNetworks


def test_each_action_is_valued_at_its_own_state():
    torch.manual_seed(0)
    q, obs, action = QEnsemble(2, 3, 2, [8]), torch.randn(4, 3), torch.randn(4, 5, 2)
    values = q_of_each(q, obs, action)
    for k in range(5):
        torch.testing.assert_close(values[..., k], q(obs, action[:, k]))


def test_actions_are_uniform_and_the_policys_at_both_states():
    torch.manual_seed(0)
    policy = SquashedGaussianPolicy(3, 2, [8])
    obs, next_obs = torch.randn(2, 4, 3)
    action, log_density = drawn_actions(policy, obs, next_obs, 7)
    assert action.shape == (4, 21, 2) and log_density.shape == (4, 21) and not log_density.requires_grad
    assert action.abs().max() <= 1 and (log_density[:, :7] == 2 * torch.tensor(0.5).log()).all()
    for at, place in ((obs, 7), (next_obs, 14)):
        part = action[:, place : place + 7]
        expected = policy.log_prob(at.unsqueeze(1).expand(-1, 7, -1), part)
        torch.testing.assert_close(log_density[:, place : place + 7], expected, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("kind", ["batched", "own"])
def test_diversity_of_critics_by_finite_differences(kind):
    """In double precision, of two-layer tanh critics, by every hundredth weight."""
    torch.manual_seed(0)
    network = lambda width: MLP(width, [6, 6], "tanh")  # noqa: E731
    q = QEnsemble(3, 3, 2, [6, 6], "tanh") if kind == "batched" else QNetworks(3, 3, 2, network)
    q, obs, action = q.double(), torch.randn(5, 3).double(), torch.randn(5, 2).double()

    def diversity():
        return gradient_diversity(q_and_action_grads(q, obs, action)[1])

    weights = [p for p in q.parameters() if p.ndim > 1]
    exact = torch.autograd.grad(diversity(), weights, allow_unused=True)
    for weight, slope in zip(weights, exact, strict=True):
        flat, step = weight.data.view(-1), 1e-6
        for place in range(0, len(flat), 17):
            sides = []
            for side in (step, -step):
                flat[place] += side
                sides.append(diversity().item())
                flat[place] -= side
            expected = 0.0 if slope is None else slope.reshape(-1)[place].item()
            assert (sides[0] - sides[1]) / (2 * step) == pytest.approx(expected, abs=1e-5)


def test_gradients_are_each_critics_own():
    """Of opposite critics the sum of gradients is zero."""
    q = QEnsemble(2, 3, 2, [8])
    with torch.no_grad():
        for p in q.parameters():
            p[1] = p[0]
        for p in q.layers[-1].parameters():
            p[1] = -p[0]
    grads = q_and_action_grads(q, torch.randn(4, 3), torch.randn(4, 2))[1]
    torch.testing.assert_close(grads[0], -grads[1])
    assert grads.abs().max() > 0.01
