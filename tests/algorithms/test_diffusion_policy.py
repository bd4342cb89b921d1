"""Diffusion policy: what is played when, that modes stay apart, and that ranges travel with the weights."""

import copy
from functools import partial

import pytest
import torch

from rl_lightning.algorithms import DiffusionPolicy
from rl_lightning.errors import ConfigError
from rl_lightning.functional.diffusion_samplers import DDIM, DDPM
from rl_lightning.functional.noise_schedules import CosineBetaSchedule
from rl_lightning.models.diffusion.chunk_diffusion import MinMaxNormalizer
from rl_lightning.nn.denoisers.row_denoisers import MLPDenoiser
from rl_lightning.nn.denoisers.sequence_denoisers import TransformerDenoiser, UNetDenoiser
from rl_lightning.optim.schedules import Cosine
from rl_lightning.types import ActionWindows, EnvSpec

SPEC = EnvSpec("line", (2,), action_shape=(1,))
NET = partial(MLPDenoiser, hidden_dims=[64, 64], time_embed_dim=16)


def made(**arguments):
    torch.manual_seed(0)
    settings = {"denoiser": NET, "noise_schedule": CosineBetaSchedule(20), "sampler": DDIM(5)}
    return DiffusionPolicy(SPEC, **{**settings, **arguments})


def test_plans_are_played_out_before_the_next_one_per_env(monkeypatch):
    """Env 0 plans at steps 0 and 4; env 1, whose episode starts anew at step 2, at 0, 2 and 6."""
    model = made()
    asked = []

    def plan(history, generator):
        asked.append(history.clone())
        start = history[:, -2:-1]  # the newest observation's first number
        return (start + 0.01 * torch.arange(4)).unsqueeze(-1)

    monkeypatch.setattr(model, "_plan", plan)
    carry = model.initial_carry(2)
    played = []
    for t in range(7):
        if t == 2:
            carry = tuple(part * torch.tensor([[1.0], [0.0]]) for part in carry)
        obs = torch.tensor([[t / 10, 0.0], [-t / 10, 0.0]])
        action, carry = model.act(obs, carry, None)
        played.append(action[:, 0].tolist())
    first, second = zip(*played, strict=True)
    assert first == pytest.approx([0.0, 0.01, 0.02, 0.03, 0.4, 0.41, 0.42])
    assert second == pytest.approx([0.0, 0.01, -0.2, -0.19, -0.18, -0.17, -0.6])
    assert [len(history) for history in asked] == [2, 1, 1, 1]
    assert asked[0][0].tolist() == [0.0, 0.0, 0.0, 0.0]  # an episode begins with its first row, repeated
    assert asked[2][0].tolist() == pytest.approx([0.3, 0.0, 0.4, 0.0])  # then the last two


def test_the_first_action_played_is_that_of_the_newest_observation(monkeypatch):
    model = made(n_obs_steps=3, horizon=8, n_action_steps=2)
    actions = torch.arange(8.0).div(10).reshape(1, 8, 1)
    monkeypatch.setattr(model.average, "sample", lambda seen, *rest: actions.expand(len(seen), 8, 1))
    found = model._plan(torch.zeros(1, 6), torch.Generator())
    assert found[0, :, 0].tolist() == pytest.approx([0.2, 0.3])


def windows(count=64):
    obs = torch.randn(count, 2, 2)
    return ActionWindows(obs, torch.rand(count, 8, 1) * 2 - 1)


@pytest.mark.parametrize(
    ("net", "updates"),
    [
        (partial(MLPDenoiser, hidden_dims=[128, 128], time_embed_dim=16), 1500),
        (partial(UNetDenoiser, down_dims=[16, 32], kernel_size=3, num_groups=8, time_embed_dim=16), 500),
        (partial(TransformerDenoiser, embed_dim=32, num_heads=2, num_layers=1, dropout=0.0), 400),
    ],
    ids=["mlp", "unet", "transformer"],
)
def test_overfits_one_trajectory(net, updates):
    """One window again and again: the whole stretch comes back, whatever the noise."""
    model = made(denoiser=net, lr=3e-3, lr_schedule=Cosine(1e-5), ema_decay=0.9)
    wave = torch.sin(torch.arange(8.0)).reshape(1, 8, 1)
    batch = ActionWindows(torch.zeros(64, 2, 2), wave.repeat(64, 1, 1))
    for update in range(updates):
        model.clock.progress = update / updates
        model.update(batch)
    moves = DDPM().solver_steps(CosineBetaSchedule(20))
    found = model.average.eval().sample(torch.zeros(16, 2, 2), moves, torch.Generator().manual_seed(0), 1.0)
    assert float((found - wave).detach().square().mean()) < 1e-3


def test_two_ways_stay_two():
    """Half of the demonstrations go up, half down, from the same place: samples do one or the other."""
    model = made(lr=3e-3, lr_schedule=Cosine(1e-5), ema_decay=0.98)
    side = torch.where(torch.arange(256) % 2 == 0, 0.8, -0.8)
    batch = ActionWindows(torch.zeros(256, 2, 2), side.reshape(256, 1, 1).repeat(1, 8, 1))
    for update in range(600):
        model.clock.progress = update / 600
        model.update(batch)
    found = model.average.sample(
        torch.zeros(500, 2, 2), model.solver_steps, torch.Generator().manual_seed(0), 1.0
    ).detach()
    means = found.mean((1, 2))
    assert float((means > 0.5).float().mean()) > 0.3 and float((means < -0.5).float().mean()) > 0.3
    assert float((means.abs() < 0.4).float().mean()) < 0.1


def test_ranges_are_fitted_to_rows_saved_and_undone():
    norm = MinMaxNormalizer(3)
    rows = torch.tensor([[0.0, -2.0, 5.0], [10.0, 2.0, 5.0]])
    norm.fit(rows)
    assert norm(rows).tolist() == [[-1.0, -1.0, 0.0], [1.0, 1.0, 0.0]]
    assert torch.equal(norm.inverse(norm(rows)), rows)
    other = MinMaxNormalizer(3)
    other.load_state_dict(norm.state_dict())
    assert torch.equal(other(rows), norm(rows))


def test_the_average_is_played_saved_and_follows():
    model = made(ema_decay=0.9)
    before = copy.deepcopy(model.average.state_dict())
    for _ in range(3):
        model.update(windows())
    assert any(not torch.equal(value, before[name]) for name, value in model.average.state_dict().items())
    assert any(name.startswith("average.net") for name in model.state_dict())
    fast = dict(model.model.net.named_parameters())
    assert any(not torch.equal(slow, fast[name]) for name, slow in model.average.net.named_parameters())


def test_the_first_average_is_a_copy():
    """With a power the average begins at the weights themselves: nothing of the random start is left in it."""
    model = made(ema_decay=0.999, ema_power=0.75)
    model.update(windows())
    fast = dict(model.model.net.named_parameters())
    assert all(torch.equal(slow, fast[name]) for name, slow in model.average.net.named_parameters())


def test_pictures_go_through_an_encoder():
    spec = EnvSpec("pictures", (3, 24, 24), "uint8", action_shape=(2,))
    model = DiffusionPolicy(spec, NET, noise_schedule=CosineBetaSchedule(5), sampler=DDIM(2))
    obs = torch.randint(0, 255, (4, 2, 3, 24, 24), dtype=torch.uint8)
    metrics = model.update(ActionWindows(obs, torch.zeros(4, 8, 2)))
    assert torch.isfinite(metrics["train/loss"])
    carry = model.initial_carry(4)
    with torch.inference_mode():
        action, carry = model.act(obs[:, 0], carry, torch.Generator().manual_seed(0))
        action, carry = model.act(obs[:, 1], carry, torch.Generator().manual_seed(0))
    assert action.shape == (4, 2) and carry[0].shape == (4, 2 * 3 * 24 * 24)
    assert torch.equal(carry[0][:, : 3 * 24 * 24], obs[:, 0].flatten(1).float())


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"horizon": 4, "n_action_steps": 4}, "horizon"),
        ({"ema_decay": 1.0}, "ema_decay"),
        ({"n_obs_steps": 0}, "n_obs_steps"),
    ],
)
def test_bad_settings_are_refused(arguments, word):
    with pytest.raises(ConfigError, match=word):
        made(**arguments)
