"""Diffusion-DICE's arithmetic as the original's code has it, written again as a timing peer: nothing else imports this.

Separate layers for each product, embeddings for every candidate, concatenated inputs, the solver's coefficients from
tensors at each evaluation, the guide's gradient by autograd, torch's own Adam. Same sizes, same numbers of evaluations.
"""

from __future__ import annotations

import copy
import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

OBS, ACTION = 11, 3


class Fourier(nn.Module):
    def __init__(self, width: int, scale: float = 30.0) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(width // 2) * scale, requires_grad=False)

    def forward(self, t: Tensor) -> Tensor:
        angle = t[..., None] * self.w * 2 * math.pi
        return torch.cat((torch.sin(angle), torch.cos(angle)), -1)


class Residual(nn.Module):
    def __init__(self, i: int, o: int, embed: int = 128) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.SiLU(), nn.Linear(embed, o))
        self.one = nn.Sequential(nn.Linear(i, o), nn.SiLU())
        self.two = nn.Sequential(nn.Linear(o, o), nn.SiLU())
        self.around = nn.Linear(i, o) if i != o else nn.Identity()

    def forward(self, x: Tensor, e: Tensor) -> Tensor:
        return self.two(self.one(x) + self.time(e)) + self.around(x)


class Score(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Sequential(Fourier(32), nn.Linear(32, 32))
        self.before = nn.Sequential(nn.Linear(OBS, 32), nn.SiLU())
        self.mix = nn.Sequential(nn.Linear(64, 128), nn.SiLU(), nn.Linear(128, 128))
        self.d1, self.d2, self.d3 = Residual(ACTION, 512), Residual(512, 256), Residual(256, 128)
        self.mid, self.u3, self.u2 = Residual(128, 128), Residual(256, 256), Residual(512, 512)
        self.last = nn.Linear(1024, ACTION)

    def forward(self, x: Tensor, t: Tensor, obs: Tensor) -> Tensor:
        e = self.mix(torch.cat((self.before(obs), self.embed(t)), -1))
        d1 = self.d1(x, e)
        d2 = self.d2(d1, e)
        d3 = self.d3(d2, e)
        u3 = self.u3(torch.cat((d3, self.mid(d3, e)), -1), e)
        u2 = self.u2(torch.cat((d2, u3), -1), e)
        h = self.last(torch.cat((d1, u2), -1))
        return h / levels(t)[1][:, None]


def levels(t: Tensor) -> tuple[Tensor, Tensor]:
    log_alpha = -0.25 * t**2 * (20.0 - 0.1) - 0.5 * t * 0.1
    return torch.exp(log_alpha), torch.sqrt(1.0 - torch.exp(2.0 * log_alpha))


def mlp(sizes: list[int], act: type[nn.Module], norm: bool = False) -> nn.Sequential:
    layers: list[nn.Module] = []
    for i, o in pairwise(sizes[:-1]):
        layers += [nn.Linear(i, o), *([nn.LayerNorm(o)] if norm else []), act()]
    return nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))


class Guide(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Sequential(Fourier(32), nn.Linear(32, 32))
        self.net = mlp([ACTION + 32 + OBS, 256, 256, 256, 256, 1], nn.SiLU)

    def forward(self, x: Tensor, t: Tensor, obs: Tensor) -> Tensor:
        return self.net(torch.cat((x, self.embed(t), obs), -1))

    def gradient(self, x: Tensor, t: Tensor, obs: Tensor) -> Tensor:
        with torch.enable_grad():
            x.requires_grad_(True)
            found = torch.autograd.grad(torch.sum(self(x, t, obs)), x)[0]
        return found.detach()


class Vectorized(nn.Module):
    def __init__(self, members: int) -> None:
        super().__init__()
        sizes = [OBS + ACTION, 256, 256, 1]
        starts = [torch.randn(members, i, o) / math.sqrt(i) for i, o in pairwise(sizes)]
        self.w = nn.ParameterList(nn.Parameter(start) for start in starts)
        self.b = nn.ParameterList(nn.Parameter(torch.zeros(members, 1, o)) for o in sizes[1:])

    def forward(self, obs: Tensor, action: Tensor) -> Tensor:
        h = torch.cat((obs, action), -1).unsqueeze(0).repeat_interleave(len(self.w[0]), 0)
        for k in range(3):
            h = h @ self.w[k] + self.b[k]
            h = F.relu(h) if k < 2 else h
        return h.squeeze(-1)


def sample(
    score: Score, guide: Guide, obs: Tensor, candidates: int, steps: int = 15, scale: float = 4.0
) -> Tensor:
    """Second-order single steps on the time-uniform grid, every row on its own."""
    rows = torch.repeat_interleave(obs, candidates, 0)
    x = torch.randn(len(rows), ACTION)
    times = torch.linspace(1.0, 1e-3, steps + 1)

    def clean(x: Tensor, t: Tensor) -> Tensor:
        time = t.expand(len(x))
        alpha, sigma = levels(time)
        with torch.no_grad():
            whole = score(x, time, rows)
        whole = whole + scale * guide.gradient(x, time, rows)
        return (x.detach() + sigma[:, None] ** 2 * whole) / alpha[:, None]

    def snr(t: Tensor) -> Tensor:
        alpha, sigma = levels(t)
        return torch.log(alpha) - torch.log(sigma)

    i = 0
    while i < steps:
        s, middle = times[i], times[i + 1]
        if i + 1 == steps:
            (_, ss), (at, st) = levels(s), levels(middle)
            return st / ss * x - at * torch.expm1(-(snr(middle) - snr(s))) * clean(x, s)
        t = times[i + 2]
        h, r = snr(t) - snr(s), (snr(middle) - snr(s)) / (snr(t) - snr(s))
        (_, ss), (am, sm), (at, st) = levels(s), levels(middle), levels(t)
        first = clean(x, s)
        inner = sm / ss * x - am * torch.expm1(-r * h) * first
        second = clean(inner, middle)
        x = st / ss * x.detach() - at * torch.expm1(-h) * (first + (second - first) / (2 * r))
        i += 2
    return x


class Behavior:
    """The first stage's step."""

    def __init__(self) -> None:
        self.net = Score()
        self.optimizer = torch.optim.Adam([p for p in self.net.parameters() if p.requires_grad], 1e-4)

    def step(self, obs: Tensor, action: Tensor) -> None:
        t = torch.rand(len(obs)) * (1.0 - 1e-3) + 1e-3
        z = torch.randn_like(action)
        alpha, std = levels(t)
        score = self.net(action * alpha[:, None] + z * std[:, None], t, obs)
        loss = torch.mean(torch.sum((score * std[:, None] + z) ** 2, dim=(1,)))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        loss.item()


class Critic:
    """The second stage's step: V, Q, ensemble, slow copies, guide."""

    def __init__(self, draws: int, members: int = 10) -> None:
        self.draws = draws
        self.v = mlp([OBS, 256, 256, 1], nn.ReLU, norm=True)
        self.q = nn.ModuleList(mlp([OBS + ACTION, 256, 256, 1], nn.ReLU) for _ in range(2))
        self.slow = copy.deepcopy(self.q).requires_grad_(False)
        self.more, self.guide = Vectorized(members), Guide()
        nets = (self.v, self.q, self.more, self.guide)
        learned = [[p for p in net.parameters() if p.requires_grad] for net in nets]
        self.optimizers = [torch.optim.AdamW(params, 3e-4, weight_decay=1e-4) for params in learned]

    def both(self, q: nn.ModuleList, obs: Tensor, action: Tensor) -> list[Tensor]:
        rows = torch.cat((action, obs), -1)
        return [net(rows).squeeze(-1) for net in q]

    def move(self, optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        loss.item()

    def step(
        self, obs: Tensor, action: Tensor, reward: Tensor, following: Tensor, alpha: float = 0.5
    ) -> None:
        with torch.no_grad():
            low = torch.min(*self.both(self.slow, obs, action))
        v = self.v(obs).squeeze(-1)
        y = (low - v) / alpha
        dual = torch.where(y >= 0, y**2 / 4 + y, torch.exp(torch.clamp(y, max=1.0)) - 1)
        self.move(self.optimizers[0], torch.mean(dual + v / alpha))
        with torch.no_grad():
            target = reward + 0.99 * self.v(following).squeeze(-1)
        found = self.both(self.q, obs, action)
        self.move(self.optimizers[1], sum(F.mse_loss(each, target) for each in found))
        self.move(self.optimizers[2], F.mse_loss(self.more(obs, action), target.expand(10, -1)))
        for slow, fast in zip(self.slow.parameters(), self.q.parameters(), strict=True):
            slow.data.copy_(0.005 * fast.data + 0.995 * slow.data)
        with torch.no_grad():
            y = (torch.min(*self.both(self.slow, obs, action)) - self.v(obs).squeeze(-1)) / alpha
            weight = torch.clamp(
                torch.where(y >= 0, y / 2 + 1, torch.exp(torch.clamp(y, max=1.0))), 1e-40, 100.0
            )
        t = torch.rand(len(obs)) * (1.0 - 1e-3) + 1e-3
        t, rows, clean = (torch.repeat_interleave(part, self.draws, 0) for part in (t, obs, action))
        a, std = levels(t)
        g = self.guide(clean * a[:, None] + torch.randn_like(clean) * std[:, None], t, rows).squeeze(-1)
        top = torch.clamp((-g).max(), min=-1.0).detach()
        loss = torch.mean(weight.repeat_interleave(self.draws) * torch.exp(-g - top) + torch.exp(-top) * g)
        self.move(self.optimizers[3], loss)
