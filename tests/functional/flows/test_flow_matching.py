"""Flow matching of a Gaussian, whose velocity and whose Euler error are known in closed form."""

import pytest
import torch

from rl_lightning.functional.flows.flow_matching import euler_flow, straight_path

MEAN, STD = 0.7, 0.5


def gaussian_velocity(x: torch.Tensor, t: torch.Tensor, mean: float = MEAN, std: float = STD) -> torch.Tensor:
    """The mean of rows - noise where the path to N(mean, std^2) goes through x."""
    return mean + (t * std**2 - (1 - t)) / ((1 - t) ** 2 + t**2 * std**2) * (x - t * mean)


def test_the_path_runs_from_noise_to_rows_at_a_constant_speed():
    noise, rows = torch.tensor([[1.0, -1.0]] * 3), torch.tensor([[3.0, 1.0]] * 3)
    x, velocity = straight_path(noise, rows, torch.tensor([[0.0], [0.25], [1.0]]))
    assert x.tolist() == [[1.0, -1.0], [1.5, -0.5], [3.0, 1.0]]
    assert velocity.tolist() == [[2.0, 2.0]] * 3
    with pytest.raises(AssertionError):
        straight_path(noise, rows[:1], torch.zeros(3, 1))


def test_the_velocity_that_fits_best_is_the_gaussians():
    """Regressed onto what lies around it, x - t mean explains the velocity of the path as the closed form says."""
    torch.manual_seed(0)
    noise, rows = torch.randn(200_000, 1), MEAN + STD * torch.randn(200_000, 1)
    for t in (0.1, 0.5, 0.9):
        x, velocity = straight_path(noise, rows, torch.full_like(noise, t))
        off = x - t * MEAN
        slope = ((velocity - MEAN) * off).mean() / off.square().mean()
        exact = gaussian_velocity(torch.ones(()) + t * MEAN, torch.tensor(t)) - MEAN
        assert slope.item() == pytest.approx(exact.item(), abs=0.03)


@pytest.mark.parametrize(
    ("std", "steps", "spread"),
    [(0.5, 5, 0.369), (0.5, 10, 0.431), (0.5, 20, 0.464), (0.5, 100, 0.493), (0.1, 10, 0.062)],
)  # fmt: skip
def test_eulers_own_error_is_in_the_spread_alone(std, steps, spread):
    """The velocity is linear, so each step scales what is off the mean: the times are i / n, from 0."""
    noise = torch.tensor([[-1.0], [0.0], [1.0]], dtype=torch.float64)
    rows = euler_flow(lambda x, t: gaussian_velocity(x, t, MEAN, std), noise, steps)
    assert rows[1].item() == pytest.approx(MEAN)
    assert (rows[2] - rows[1]).item() == pytest.approx(spread, abs=5e-4)
    assert (rows[1] - rows[0]).item() == pytest.approx(spread, abs=5e-4)
