"""A timing peer: the computations of OfflineRL-Kit's ensemble and rollouts, at its own sizes and in its manner.

OfflineRL-Kit itself is not on the package index. This file is no copy of it: it computes what its description says,
the way it says (batched weights by einsum, swish as two operations, weight decay as a term of the loss, torch's Adam
as it comes; rollouts that leave torch at every step, all elites evaluated, noise in double precision from numpy), so
that a ratio can be taken on any machine. Its figures on the machine of docs/benchmarks.md were 24.3 s for an epoch
and 20.6 s for a rollout, one thread; a ratio to this peer stands for one to the original as far as those agree.

`imagine-flow` is the same rollout in GORMPO's manner: all members, and a RealNVP's penalty in place of the ensemble's
(boolean masks, a scale and a translate network per coupling, scores to numpy). GORMPO's own took 28.1 s there.

python offlinerl_kit_worker.py train|imagine|imagine-flow full|quick
"""

from __future__ import annotations

import json
import sys
import time
from itertools import pairwise

import imagining_settings as settings
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


class Peer(nn.Module):
    """Seven networks, the five elites of which imagine."""

    def __init__(self) -> None:
        super().__init__()
        out = 2 * (settings.OBS + 1)
        sizes = [settings.OBS + settings.ACTION, *settings.HIDDEN, out]
        shapes = list(pairwise(sizes))
        self.weights = nn.ParameterList(
            nn.init.trunc_normal_(torch.empty(settings.MEMBERS, i, o), std=0.5 / i**0.5) for i, o in shapes
        )
        self.biases = nn.ParameterList(torch.zeros(settings.MEMBERS, 1, o) for _, o in shapes)
        self.upper = nn.Parameter(torch.full((out // 2,), 0.5))
        self.lower = nn.Parameter(torch.full((out // 2,), -10.0))

    def forward(self, inputs: np.ndarray, count: int = settings.MEMBERS) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = torch.as_tensor(inputs, dtype=torch.float32)
        last = len(settings.HIDDEN)
        for depth, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            form = "ij,bjk->bik" if hidden.ndim == 2 else "bij,bjk->bik"
            hidden = torch.einsum(form, hidden, weight[:count]) + bias[:count]
            if depth < last:
                hidden = hidden * torch.sigmoid(hidden)
        mean, spread = hidden.chunk(2, -1)
        spread = self.upper - F.softplus(self.upper - spread)
        return mean, self.lower + F.softplus(spread - self.lower)


def train(batches: int) -> dict[str, float]:
    """Seconds of an epoch, and the error on held-out rows after it."""
    inputs, targets, held = settings.rows()
    model, draw = Peer(), np.random.default_rng(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.LR)
    mean, std = inputs.mean(0, keepdims=True), inputs.std(0, keepdims=True)
    scaled = (inputs - mean) / std
    index = draw.integers(len(inputs), size=(settings.MEMBERS, batches * settings.BATCH))
    begin = time.perf_counter()
    own_inputs, own_targets = scaled[index], targets[index]
    for number in range(batches):
        span = slice(number * settings.BATCH, (number + 1) * settings.BATCH)
        goal = torch.as_tensor(own_targets[:, span])
        middle, log_var = model(own_inputs[:, span])
        fit = (torch.pow(middle - goal, 2) * torch.exp(-log_var)).mean((1, 2)).sum()
        loss = fit + log_var.mean((1, 2)).sum() + 0.01 * model.upper.sum() - 0.01 * model.lower.sum()
        for rate, weight in zip(settings.DECAY, model.weights, strict=True):
            loss = loss + rate * 0.5 * (weight**2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
    seconds = time.perf_counter() - begin
    with torch.no_grad():
        middle, _ = model((held[0] - mean) / std)
        error = (
            (middle - torch.as_tensor(held[1])).square().mean((1, 2)).sort().values[: settings.ELITES].mean()
        )
    return {"seconds": seconds, "error": float(error)}


class PeerActor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(settings.OBS, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU())
        self.mean, self.log_std = nn.Linear(256, settings.ACTION), nn.Linear(256, settings.ACTION)

    @torch.no_grad()
    def act(self, obs: np.ndarray) -> np.ndarray:
        features = self.body(torch.as_tensor(obs, dtype=torch.float32))
        std = self.log_std(features).clamp(-5.0, 2.0).exp()
        raw = torch.distributions.Normal(self.mean(features), std).rsample()
        return torch.tanh(raw).numpy()


class PeerFlow(nn.Module):
    """Six couplings over (next observation, action), each with two networks of two hidden layers."""

    def __init__(self) -> None:
        super().__init__()
        width = settings.OBS + settings.ACTION
        even = torch.arange(width) % 2 == 0
        self.masks = [even if i % 2 == 0 else ~even for i in range(settings.COUPLINGS)]

        def net(mask: torch.Tensor) -> nn.Module:
            given, moved = int(mask.sum()), int((~mask).sum())
            wide = settings.FLOW_HIDDEN
            body = [nn.Linear(given, wide), nn.ReLU(), nn.Linear(wide, wide), nn.ReLU()]
            return nn.Sequential(*body, nn.Linear(wide, moved))

        self.scales = nn.ModuleList(net(mask) for mask in self.masks)
        self.shifts = nn.ModuleList(net(mask) for mask in self.masks)

    @torch.no_grad()
    def score(self, rows: np.ndarray) -> np.ndarray:
        z = torch.as_tensor(rows, dtype=torch.float32)
        total = torch.zeros(len(z))
        for mask, scale, shift in zip(self.masks, self.scales, self.shifts, strict=True):
            given, moved = z[:, mask], z[:, ~mask]
            log_scale = torch.tanh(scale(given))
            z = z.clone()
            z[:, ~mask] = moved * torch.exp(log_scale) + shift(given)
            total = total + log_scale.sum(1)
        return (total - 0.5 * (z**2 + np.log(2 * np.pi)).sum(1)).numpy()


def imagine(starts: int, flow: PeerFlow | None = None) -> dict[str, float]:
    """Seconds of one rollout with the penalty of MOPO, or of a flow, as its policy stage makes it."""
    model, actor, draw = Peer(), PeerActor(), np.random.default_rng(0)
    members = settings.ELITES if flow is None else settings.MEMBERS
    obs = settings.start(starts)
    mean, std = np.zeros((1, settings.OBS + settings.ACTION)), np.ones((1, settings.OBS + settings.ACTION))
    kept, rows = [], 0
    begin = time.perf_counter()
    for _ in range(settings.HORIZON):
        action = actor.act(obs)
        with torch.no_grad():
            found = model((np.concatenate((obs, action), -1) - mean) / std, members)
        middle, log_var = (part.numpy() for part in found)
        middle[..., :-1] += obs
        width = np.sqrt(np.exp(log_var))
        drawn = (middle + draw.normal(size=middle.shape) * width).astype(np.float32)
        chosen = drawn[draw.integers(settings.ELITES, size=len(obs)), np.arange(len(obs))]
        next_obs, reward = chosen[:, :-1], chosen[:, -1]
        if flow is None:
            penalty = np.linalg.norm(width, axis=2).max(0)
        else:
            score = flow.score(np.concatenate((next_obs, action), -1))
            penalty = np.maximum(0.0, np.tanh(0.1 * (-20.0 - score)))
        finite = np.isfinite(next_obs).all(-1) & (np.abs(next_obs[:, 1:]) < 100).all(-1)
        kept.append((obs, action, reward - 0.5 * penalty, next_obs, ~finite))
        rows += len(obs)
        obs = next_obs[finite]
    packed = [np.concatenate(column) for column in zip(*kept, strict=True)]
    assert len(packed[0]) == rows
    return {"seconds": time.perf_counter() - begin, "rows": rows}


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    quick = sys.argv[2] == "quick"
    if sys.argv[1] == "train":
        print(json.dumps(train(settings.QUICK_BATCHES if quick else settings.BATCHES)))
    else:
        flow = PeerFlow() if sys.argv[1] == "imagine-flow" else None
        imagine(2000, flow)  # warms up
        print(json.dumps(imagine(settings.QUICK_STARTS if quick else settings.STARTS, flow)))


if __name__ == "__main__":
    main()
