"""Samplers against scores that are known exactly: a Gaussian, eight modes, a point."""

import math

import pytest
import torch

from rl_lightning.errors import ConfigError
from rl_lightning.functional.diffusion_samplers import DDIM, DDPM, DPMSolver
from rl_lightning.functional.diffusion_solvers import add_noise, denoising_loss, guided_eps, solve, step_sizes
from rl_lightning.functional.noise_schedules import CosineBetaSchedule, VPSchedule

VP = VPSchedule()
ANGLE = torch.arange(8) * 2 * math.pi / 8
CENTRES = 0.8 * torch.stack((ANGLE.cos(), ANGLE.sin()), -1)
MODE = 0.06


def levels(schedule, t):
    return [float(part) for part in schedule.alpha_sigma(torch.tensor(t, dtype=torch.float64))]


def gaussian(schedule=VP, mean=0.7, std=0.5):
    def eps(x, t):
        alpha, sigma = levels(schedule, t)
        return sigma * (x - alpha * mean) / ((alpha * std) ** 2 + sigma**2)

    return eps


def eight_modes(x, t):
    alpha, sigma = levels(VP, t)
    variance = (alpha * MODE) ** 2 + sigma**2
    away = x[:, None] - alpha * CENTRES
    share = (-0.5 * away.square().sum(-1) / variance).softmax(-1)
    return sigma * (share[..., None] * away).sum(1) / variance


def draw(eps, sampler, count, width=1, schedule=VP, clip=None):
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(count, width, generator=generator)
    fresh = lambda like: torch.randn(like.shape, generator=generator)  # noqa: E731
    return solve(eps, start, sampler.solver_steps(schedule), clip, fresh)


@pytest.mark.parametrize(
    ("sampler", "std"),
    [
        (DPMSolver(), 0.486),
        (DPMSolver(skip_type="time_uniform"), 0.447),  # the known bias of the original's grid
        (DPMSolver(skip_type="time_uniform", multistep=True, lower_order_final=False), 0.656),
        (DPMSolver(200), 0.5),
        (DPMSolver(200, order=1), 0.497),
        (DPMSolver(60, order=3), 0.502),
        (DPMSolver(60, order=3, multistep=True), 0.5),
        (DPMSolver(multistep=True, skip_type="logSNR"), 0.512),
        (DDIM(200), 0.493),
    ],
    ids=lambda value: "" if isinstance(value, float) else str(vars(value)),
)
def test_gaussian_spread(sampler, std):
    rows = draw(gaussian(), sampler, 40_000)
    assert float(rows.std()) == pytest.approx(std, abs=0.01)
    assert float(rows.mean()) == pytest.approx(0.7, abs=0.02)


@pytest.mark.parametrize(
    "sampler",
    [
        DPMSolver(),
        DPMSolver(multistep=True),
        DPMSolver(multistep=True, skip_type="logSNR"),
        DPMSolver(order=3),
    ],
)
def test_under_one_percent_off_the_modes_at_15_evaluations(sampler):
    assert len(sampler.solver_steps(VP)) == 15
    rows = draw(eight_modes, sampler, 8000, 2)
    assert float((torch.cdist(rows, CENTRES).amin(-1) > 4 * MODE).float().mean()) < 0.01


def test_the_original_grid_leaves_the_modes():
    rows = draw(eight_modes, DPMSolver(skip_type="time_uniform"), 8000, 2)
    assert 0.1 < float((torch.cdist(rows, CENTRES).amin(-1) > 4 * MODE).float().mean()) < 0.2


@pytest.mark.parametrize(
    "sampler", [DDPM(), DDIM(60), DDIM(60, eta=1.0), DPMSolver(20), DPMSolver(20, multistep=True)]
)
def test_discrete_schedule_reaches_its_gaussian(sampler):
    schedule = CosineBetaSchedule(100)
    rows = draw(gaussian(schedule), sampler, 20_000, schedule=schedule)
    assert float(rows.std()) == pytest.approx(0.5, abs=0.03)
    assert float(rows.mean()) == pytest.approx(0.7, abs=0.02)


@pytest.mark.parametrize("sampler", [DDPM(), DDIM(5), DPMSolver(5), DPMSolver(6, order=3, multistep=True)])
def test_a_point_mass_comes_back_exactly(sampler):
    """Also catches noise at the last step, and steps that are off by one between adding and taking noise away."""
    schedule, point = CosineBetaSchedule(100), torch.tensor([[0.3, -0.6]])

    def eps(x, t):
        alpha, sigma = levels(schedule, t)
        return (x - alpha * point) / sigma

    assert draw(eps, sampler, 50, 2, schedule) == pytest.approx(point.expand(50, 2), abs=1e-5)


def test_noised_and_denoised_use_the_same_levels():
    schedule = CosineBetaSchedule(10)
    clean, noise = torch.randn(10, 3, dtype=torch.float64), torch.randn(10, 3, dtype=torch.float64)
    times = schedule.sample_t(torch.linspace(0, 0.99, 10, dtype=torch.float64))
    rows = add_noise(schedule, clean, times, noise)
    for row, time, x, e in zip(rows, times, clean, noise, strict=True):
        alpha, sigma = levels(schedule, float(time))
        assert torch.allclose((row - sigma * e) / alpha, x)


def test_ddpm_is_the_posterior_of_the_chain():
    """Mean and smaller variance as the textbook writes them, at one inner step."""
    schedule, k = CosineBetaSchedule(100), 40
    bar = lambda i: levels(schedule, i / 100)[0] ** 2  # noqa: E731
    beta = 1 - bar(k) / bar(k - 1)
    move = DDPM().solver_steps(schedule)[100 - k]
    assert move.time == pytest.approx(k / 100)
    weight_x = math.sqrt(1 - beta) * (1 - bar(k - 1)) / (1 - bar(k))
    weight_clean = math.sqrt(bar(k - 1)) * beta / (1 - bar(k))
    assert move.keep == pytest.approx(weight_x, rel=1e-9)
    assert move.parts == ((100 - k, pytest.approx(weight_clean, rel=1e-9)),)
    assert move.noise**2 == pytest.approx((1 - bar(k - 1)) / (1 - bar(k)) * beta, rel=1e-9)
    assert DDPM().solver_steps(schedule)[-1].noise == 0.0


def test_single_steps_as_the_paper_writes_them():
    """Second order, from the formulas of the specification, one step by hand."""
    times = VP.grid(15, "time_quadratic")
    (a0, s0), (a1, s1), (a2, s2) = (levels(VP, float(t)) for t in times[:3])
    lam = [math.log(a / s) for a, s in ((a0, s0), (a1, s1), (a2, s2))]
    h, r = lam[2] - lam[0], (lam[1] - lam[0]) / (lam[2] - lam[0])
    x = torch.randn(50, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    eps = gaussian()
    clean = (x - s0 * eps(x, float(times[0]))) / a0
    middle = s1 / s0 * x - a1 * math.expm1(-r * h) * clean
    other = (middle - s1 * eps(middle, float(times[1]))) / a1
    by_hand = s2 / s0 * x - a2 * math.expm1(-h) * (clean + (other - clean) / (2 * r))
    assert torch.allclose(solve(eps, x, DPMSolver().solver_steps(VP)[:2]), by_hand, atol=1e-10)


def test_orders_use_exactly_the_evaluations():
    for order in (1, 2, 3):
        for count in range(1, 20):
            assert sum(step_sizes(count, order)) == count
            assert len(DPMSolver(count, order).solver_steps(VP)) == count


def test_higher_orders_are_more_accurate():
    """Against a fine solution, at the same number of evaluations."""
    exact = draw(gaussian(), DPMSolver(2000, skip_type="logSNR"), 1000)
    for multistep in (False, True):
        found = [draw(gaussian(), DPMSolver(24, order, "logSNR", multistep), 1000) for order in (1, 2, 3)]
        errors = [float((rows - exact).abs().mean()) for rows in found]
        assert errors[0] > 2 * errors[1] and errors[1] > errors[2]


def test_guidance_shifts_a_gaussian_by_what_it_should():
    """a ~ N(0, I), w = exp(b a - b^2 / 2): the guided samples are N(scale * b, I)."""
    b = torch.tensor([1.0, -0.5])
    eps = lambda x, t: levels(VP, t)[1] * x  # noqa: E731
    slope = lambda x, t: (levels(VP, t)[0] * b).expand_as(x)  # noqa: E731
    for scale in (0.0, 1.0, 2.0):
        rows = draw(guided_eps(eps, slope, scale, VP), DPMSolver(40), 20_000, 2)
        assert torch.allclose(rows.mean(0), scale * b, atol=0.03)
        assert torch.allclose(rows.std(0), torch.ones(2), atol=0.03)


def test_a_clipped_guess_keeps_samples_inside():
    rows = draw(gaussian(mean=3.0), DPMSolver(), 500, clip=1.0)
    assert float(rows.max()) < 1.1


def test_the_loss_is_summed_over_a_row():
    found, noise = torch.zeros(4, 2, 3), torch.ones(4, 2, 3)
    assert float(denoising_loss(found, noise)) == 6.0


def test_works_in_inference_mode():
    with torch.inference_mode():
        assert torch.isfinite(draw(gaussian(), DPMSolver(), 10)).all()


@pytest.mark.parametrize(
    "bad",
    [
        lambda: DPMSolver(0),
        lambda: DPMSolver(order=4),
        lambda: DPMSolver(skip_type="cubic"),
        lambda: DDIM(eta=2.0),
        lambda: DDPM().solver_steps(VP),
    ],
)
def test_nonsense_is_refused(bad):
    with pytest.raises(ConfigError):
        bad()
