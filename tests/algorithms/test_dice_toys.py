"""Diffusion-DICE where the right answer is known: a Gaussian, eight modes, the paper's annulus."""

import math
from functools import partial

import pytest
import torch
from algorithms.diffusion_toys import SPEC, ExactNormal, artifact, draw, given_behavior, rows, train

from rl_lightning.algorithms import BehaviorDiffusion, DiceGuidance
from rl_lightning.functional.dice_losses import ratio_of
from rl_lightning.functional.diffusion_samplers import DPMSolver
from rl_lightning.functional.noise_schedules import VPSchedule
from rl_lightning.nn.denoisers.row_denoisers import MLPDenoiser, ResidualDenoiser
from rl_lightning.optim.schedules import Cosine

B = torch.tensor([1.0, -0.5])


def test_guide_of_a_gaussian(monkeypatch):
    """a ~ N(0, I), w = exp(b a - |b|^2 / 2): g = alpha b a_t - alpha^2 |b|^2 / 2, and guided samples are N(s b, I)."""
    torch.manual_seed(0)
    solver = DPMSolver(30)
    model = DiceGuidance(
        SPEC, "none", guide_hidden_dims=[128, 128], num_noise_samples=1, fourier_scale=1.0, sampler=solver
    )
    given_behavior(model, ExactNormal(VPSchedule()))
    optimizer = torch.optim.Adam(model.guide.parameters(), 2e-3)
    for update in range(1500):
        optimizer.param_groups[0]["lr"] = Cosine(2e-5).value(2e-3, update / 1500)
        action = torch.randn(2048, 2)
        ratio = (action @ B - 0.5 * B.square().sum()).exp()
        model._guide_step(optimizer, torch.zeros(2048, 1), action, ratio)
    time, noisy = torch.rand(4000) * 0.999 + 1e-3, torch.randn(4000, 2)
    alpha, _ = VPSchedule().alpha_sigma(time)
    wanted = alpha * (noisy @ B) - 0.5 * alpha.square() * B.square().sum()
    with torch.no_grad():
        error = (model.guide(noisy, time, torch.zeros(4000, 1)) - wanted).square().mean().sqrt()
    assert float(error) <= 0.03
    monkeypatch.setattr(torch.Tensor, "clamp", lambda self, *bounds: self)  # the plane has no bounds here
    for scale in (1.0, 2.0):
        found = draw(model, 20_000, scale)
        assert (found.mean(0) - scale * B).abs().max() <= 0.05
        assert (found.std(0) - 1.0).abs().max() <= 0.08


ANGLE = torch.arange(8) * 2 * math.pi / 8
CENTRES = 0.8 * torch.stack((ANGLE.cos(), ANGLE.sin()), -1)
ALPHA, MODE = 0.2, 0.06
REWARDS = torch.arange(8) / 7


def modes(count):
    which = torch.randint(8, (count,))
    return rows((CENTRES[which] + MODE * torch.randn(count, 2)).clamp(-1, 1), REWARDS[which])


def best_value():
    """The root of E[w((r - V) / alpha)] = 1, and the masses w / 8 that follow."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if ratio_of((REWARDS - middle) / ALPHA).mean() > 1 else (low, middle)
    return low, ratio_of((REWARDS - low) / ALPHA) / 8


def test_the_target_is_the_one_of_the_specification():
    value, masses = best_value()
    assert value == pytest.approx(0.5091, abs=1e-3)
    assert torch.allclose(
        masses, torch.tensor([0.010, 0.020, 0.041, 0.084, 0.144, 0.189, 0.234, 0.278]), atol=2e-3
    )
    assert float(masses @ REWARDS) == pytest.approx(0.747, abs=1e-3)


def learned(data, folder, alpha, behavior_updates, updates, width=128, power=1.0, denoiser=None):
    """Behaviour, then critic and guide, on a bandit's rows."""
    net, cosine = denoiser or partial(MLPDenoiser, hidden_dims=[width] * 3), Cosine(1e-4)
    behavior = BehaviorDiffusion(
        SPEC, net, timestep_power=power, normalize_obs=False, lr=1e-3, lr_schedule=cosine
    )
    train(behavior, data, behavior_updates)
    sizes = {
        "critic_hidden_dims": [64, 64],
        "guide_hidden_dims": [128] * 3,
        "num_noise_samples": 2,
        "fourier_scale": 1.0,
    }
    place = artifact(behavior, folder)
    model = DiceGuidance(SPEC, place, alpha, lr=1e-3, lr_schedule=cosine, tau=0.02, **sizes)
    model.setup("fit")
    return train(model, data, updates)


def trained_bandit(folder, behavior_updates, updates, power=1.0):
    torch.manual_seed(0)
    data = modes(20_000)
    return learned(data, folder, ALPHA, behavior_updates, updates, 256, power), data


def measured(model, scale):
    found = draw(model, 4000, scale)
    away, near = torch.cdist(found, CENTRES).min(-1)
    masses = torch.bincount(near, minlength=8) / len(near)
    return masses, float(REWARDS[near].mean()), float((away > 4 * MODE).float().mean())


def check_bandit(model, data):
    value, masses = best_value()
    with torch.no_grad():
        found = float(model.value(torch.zeros(1, 1)))
        ratio = ratio_of((model.q_target(data.obs, data.action).amin(0) - found) / ALPHA)
    assert found == pytest.approx(value, abs=0.03)
    assert float(ratio.mean()) == pytest.approx(1.0, abs=0.05)
    found = {scale: measured(model, scale) for scale in (0.0, 1.0, 2.0, 4.0)}
    assert float((found[0.0][0] - 1 / 8).abs().sum() / 2) <= 0.04
    assert float((found[1.0][0] - masses).abs().sum() / 2) <= 0.08
    assert found[1.0][1] == pytest.approx(0.747, abs=0.02)
    rewards = [found[scale][1] for scale in (0.0, 1.0, 2.0, 4.0)]
    assert rewards == sorted(rewards)
    return found


@pytest.mark.slow
def test_eight_modes(tmp_path):
    check_bandit(*trained_bandit(tmp_path, 2000, 2000))


@pytest.mark.slow
def test_eight_modes_long(tmp_path):
    found = check_bandit(*trained_bandit(tmp_path, 15_000, 6000, power=2.0))
    assert found[1.0][2] <= 0.10


def annulus(count=1500):
    """The paper's: N(0, I) between two circles, here scaled into the box; two peaks of reward that grow outwards."""
    found = torch.empty(0, 2)
    while len(found) < count:
        rows_ = torch.randn(4 * count, 2)
        found = torch.cat((found, rows_[(rows_.norm(dim=-1) > 1.5) & (rows_.norm(dim=-1) < 2.5)]))
    return found[:count] / 2.5


def true_reward(action):
    """0 off the annulus, as far as anyone knows; on it |a| (1 + cos 2 theta) / 2."""
    size = action.norm(dim=-1)
    inside = (size >= 0.55) & (size <= 1.05)
    return size * (1 + torch.cos(2 * torch.atan2(action[:, 1], action[:, 0]))) / 2 * inside, inside


def hopeful_reward(action):
    """An estimate that is wrong where there are no data: a bump in the empty middle."""
    return true_reward(action)[0] + 2.0 * torch.exp(-action.square().sum(-1) / (2 * 0.25**2))


def hopeful_slope(action):
    size = action.square().sum(-1, keepdim=True)
    bump = -2.0 / 0.25**2 * action * torch.exp(-size / (2 * 0.25**2))
    leaf = action.detach().clone().requires_grad_()
    norm = leaf.norm(dim=-1)
    smooth = norm * (1 + torch.cos(2 * torch.atan2(leaf[..., 1], leaf[..., 0]))) / 2
    return bump + torch.autograd.grad(smooth.sum(), leaf)[0]


def by_the_estimate(model, count):
    """Samples led by the slope of the hopeful estimate itself."""
    schedule = model.behavior.noise_schedule

    def lean(eps):
        def leaning(x, t):
            sigma = float(schedule.alpha_sigma(torch.tensor(t, dtype=torch.float64))[1])
            return eps(x, t) - sigma * hopeful_slope(x)

        return leaning

    draws = torch.Generator().manual_seed(0)
    return model.behavior.sample(torch.zeros(1, 1), count, model.solver_steps, draws, None, lean)[0].detach()


@pytest.mark.slow
def test_the_annulus_of_the_paper(tmp_path):
    """Guide, then select stays on the data and earns more than selecting alone, or guiding by a wrong estimate."""
    torch.manual_seed(0)
    action = annulus()
    net = partial(ResidualDenoiser, down_dims=[128, 64, 32], embed_dim=64)
    model = learned(
        rows(action, true_reward(action)[0]), tmp_path, 0.1, 10_000, 3000, power=2.0, denoiser=net
    )

    def outcome(candidates):  # the best 64 by the hopeful estimate: all three select alike
        reward, inside = true_reward(candidates[hopeful_reward(candidates).topk(64).indices])
        return float(reward.mean()), float(inside.float().mean())

    guided = draw(model, 500, 1.0)
    ours, selected, misled = (
        outcome(guided),
        outcome(draw(model, 500, 0.0)),
        outcome(by_the_estimate(model, 500)),
    )
    shown = {"guide, then select": ours, "select": selected, "by the estimate": misled}
    assert float(true_reward(guided)[1].float().mean()) >= 0.95, shown
    assert ours[0] > max(selected[0], misled[0]) + 0.1, shown
    assert ours[1] >= selected[1] > misled[1], shown
