"""Schedules: the numbers of the specification, inverses, and what grids must be."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rl_lightning.errors import ConfigError
from rl_lightning.functional.noise_schedules import GRIDS, CosineBetaSchedule, LinearBetaSchedule, VPSchedule

VP = VPSchedule()


@pytest.mark.parametrize(
    ("t", "alpha", "sigma", "snr"),
    [
        (1.0, 0.00657, 0.99998, -5.025),
        (0.5, 0.281, 0.960, -1.23),
        (0.0676, 0.974, 0.226, 1.46),
        (1e-3, 0.99995, 0.01049, 4.56),
    ],
)
def test_vp_golden_values(t, alpha, sigma, snr):
    time = torch.tensor(t, dtype=torch.float64)
    found = VP.alpha_sigma(time)
    assert float(found[0]) == pytest.approx(alpha, abs=5e-4)
    assert float(found[1]) == pytest.approx(sigma, abs=5e-4)
    assert float(VP.half_log_snr(time)) == pytest.approx(snr, abs=5e-3)


@given(st.floats(1e-3, 1.0))
def test_vp_is_variance_preserving_and_its_inverse_comes_back(t):
    time = torch.tensor(t, dtype=torch.float64)
    alpha, sigma = VP.alpha_sigma(time)
    assert float(alpha**2 + sigma**2) == pytest.approx(1.0, abs=1e-12)
    assert float(VP.time_of(VP.half_log_snr(time))) == pytest.approx(t, abs=1e-6)


def test_little_noise_is_exact_in_single_precision():
    """1 - exp loses the digits that -expm1 keeps."""
    t = torch.tensor(1e-3)
    exact = float(VP.alpha_sigma(t.double())[1])
    assert float(VP.alpha_sigma(t)[1]) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize(
    "schedule", [VP, CosineBetaSchedule(50), LinearBetaSchedule(1000)], ids=lambda s: type(s).__name__
)
@pytest.mark.parametrize("kind", GRIDS)
def test_grids_fall_from_one_to_the_end(schedule, kind):
    times = schedule.grid(15, kind)
    assert (times.diff() < 0).all() and times[0] == 1.0
    assert float(times[-1]) == pytest.approx(0.0 if schedule.clean_end else schedule.t_min, abs=1e-12)
    assert len(times) == 16 if schedule is VP else len(times) <= 16


def test_uniform_grid_has_the_node_that_the_specification_names():
    assert float(VP.grid(15, "time_uniform")[-2]) == pytest.approx(0.0676, abs=1e-4)


def test_cosine_alpha_bar_golden_values():
    """cos^2 of the share, normalised; the last steps are held back by the largest beta of 0.999."""
    schedule = CosineBetaSchedule(100)
    f = lambda k: math.cos((k / 100 + 0.008) / 1.008 * math.pi / 2) ** 2  # noqa: E731
    for k in (1, 50, 99):
        alpha, _ = schedule.alpha_sigma(torch.tensor(k / 100, dtype=torch.float64))
        assert float(alpha) ** 2 == pytest.approx(f(k) / f(0), rel=1e-9)
    last, _ = schedule.alpha_sigma(torch.tensor(1.0, dtype=torch.float64))
    before, _ = schedule.alpha_sigma(torch.tensor(0.99, dtype=torch.float64))
    assert float(last**2 / before**2) == pytest.approx(0.001, rel=1e-9)


def test_trained_times_are_exactly_the_steps():
    schedule = CosineBetaSchedule(10)
    times = schedule.sample_t(torch.linspace(0, 1 - 1e-6, 1000))
    assert torch.equal((times * 10).round().unique(), torch.arange(1.0, 11.0))
    assert torch.equal(schedule.index(times), (times * 10).round().long() - 1)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: VPSchedule(beta_min=0.0),
        lambda: VPSchedule(t_min=1.0),
        lambda: CosineBetaSchedule(1),
        lambda: LinearBetaSchedule(10, 0.5, 0.1),
        lambda: CosineBetaSchedule(10).grid(11, "time_uniform"),
    ],
)
def test_nonsense_is_refused(bad):
    with pytest.raises(ConfigError):
        bad()
