"""TD-MPC2's update and plan beside the same arithmetic written plainly; many envs in one plan, members in one dream.

    python benchmarks/planning.py [--quick] [--threads N]

The peer is our own plain rewriting of what the authors' eager code computes: a network per module, value functions by
vmap, one loss term after the other. Stretches of ours and the peer's alternate; medians and their ratio are printed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state
from torch.nn import functional as F

from rl_lightning.algorithms import TDMPC2
from rl_lightning.evolution.dream_rollout import dream_rollout
from rl_lightning.models.world_models.controller import Controller
from rl_lightning.models.world_models.vision_memory import VisionMemoryModel
from rl_lightning.planning.planners import MPPI
from rl_lightning.types import EnvSpec, Sequences

OBS, ACTION, LATENT, HIDDEN, BINS, BATCH, HORIZON = 24, 6, 128, 384, 101, 256, 3
SAMPLES, ELITES, PROPOSED, ITERATIONS, RHO, GAMMA = 512, 64, 24, 6, 0.5, 0.99
SPEC = EnvSpec("bench", (OBS,), action_shape=(ACTION,), max_episode_steps=500)


class Simplices(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.softmax(x.view(*x.shape[:-1], -1, 8), -1).view(*x.shape)


def plain(sizes: list[int], last: nn.Module | None = None, dropout: float = 0.0) -> nn.Sequential:
    layers: list[nn.Module] = []
    for k, (a, b) in enumerate(pairwise(sizes)):
        layers.append(nn.Linear(a, b))
        if k < len(sizes) - 2:
            layers += [nn.Dropout(dropout)] if k == 0 and dropout else []
            layers += [nn.LayerNorm(b), nn.Mish()]
        elif last is not None:
            layers += [nn.LayerNorm(b), last]
    return nn.Sequential(*layers)


class Peer:
    """The 1M preset, eagerly."""

    def __init__(self) -> None:
        both = LATENT + ACTION
        self.encoder = plain([OBS, 256, LATENT], Simplices())
        self.dynamics = plain([both, HIDDEN, HIDDEN, LATENT], Simplices())
        self.reward, self.pi = (
            plain([both, HIDDEN, HIDDEN, BINS]),
            plain([LATENT, HIDDEN, HIDDEN, 2 * ACTION]),
        )
        nets = [plain([both, HIDDEN, HIDDEN, BINS], dropout=0.01) for _ in range(2)]
        self.base = nets[0]
        self.params, _ = stack_module_state(nets)  # type: ignore[arg-type]
        self.slow = {k: v.detach().clone() for k, v in self.params.items()}
        model = [*self.dynamics.parameters(), *self.reward.parameters(), *self.params.values()]
        groups = [{"params": model}, {"params": list(self.encoder.parameters()), "lr": 9e-5}]
        self.optimizer = torch.optim.Adam(groups, 3e-4)
        self.policy_optimizer = torch.optim.Adam(self.pi.parameters(), 3e-4, eps=1e-5)
        self.bins, self.scale = torch.linspace(-10, 10, BINS), torch.ones(())

    def q(self, params: Any, x: Tensor) -> Tensor:
        call = torch.vmap(lambda p, v: functional_call(self.base, p, (v,)), (0, None), randomness="different")
        return call(params, x)

    def number(self, logits: Tensor) -> Tensor:
        x = (F.softmax(logits, -1) * self.bins).sum(-1, keepdim=True)
        return torch.sign(x) * (torch.exp(x.abs()) - 1)

    def cross(self, logits: Tensor, target: Tensor) -> Tensor:
        x = (torch.sign(target) * torch.log(1 + target.abs())).clamp(-10, 10).squeeze(-1)
        place = (x + 10) / 0.2
        low = place.floor().long()
        share = (place - low).unsqueeze(-1)
        two = torch.zeros(len(x), BINS).scatter_(1, low.unsqueeze(-1), 1 - share)
        two = two.scatter_(1, ((low + 1) % BINS).unsqueeze(-1), share)
        return -(two * F.log_softmax(logits, -1)).sum(-1, keepdim=True)

    def policy(self, z: Tensor) -> tuple[Tensor, Tensor]:
        mean, raw = self.pi(z).chunk(2, -1)
        log_std = -10 + 6 * (torch.tanh(raw) + 1)
        noise = torch.randn_like(mean)
        log_prob = (-0.5 * noise.pow(2) - log_std - 0.9189).sum(-1, keepdim=True)
        return torch.tanh(mean + noise * log_std.exp()), log_prob

    def update(self, obs: Tensor, action: Tensor, reward: Tensor) -> None:
        self.base.eval()
        with torch.no_grad():
            next_z = self.encoder(obs[1:])
            chosen, _ = self.policy(next_z)
            value = self.number(self.q(self.slow, torch.cat([next_z, chosen], -1))).amin(0)
            target = reward + GAMMA * value
        self.base.train()
        z = self.encoder(obs[0])
        zs, consistency = [z], torch.zeros(())
        for t in range(HORIZON):
            z = self.dynamics(torch.cat([z, action[t]], -1))
            consistency = consistency + F.mse_loss(z, next_z[t]) * RHO**t
            zs.append(z)
        stacked = torch.stack(zs)
        both = torch.cat([stacked[:-1], action], -1)
        qs, paid = self.q(self.params, both), self.reward(both)
        reward_loss = value_loss = torch.zeros(())
        for t in range(HORIZON):
            reward_loss = reward_loss + self.cross(paid[t], reward[t]).mean() * RHO**t
            for member in range(2):
                value_loss = value_loss + self.cross(qs[member, t], target[t]).mean() * RHO**t
        loss = (20 * consistency + 0.1 * reward_loss + 0.05 * value_loss) / HORIZON
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        everything = [p for group in self.optimizer.param_groups for p in group["params"]]
        nn.utils.clip_grad_norm_(everything, 20.0)
        self.optimizer.step()
        latents = stacked.detach()
        chosen, log_prob = self.policy(latents)
        frozen = {k: v.detach() for k, v in self.params.items()}
        value = self.number(self.q(frozen, torch.cat([latents, chosen], -1))).mean(0)
        low, high = torch.quantile(value[0].detach().flatten(), torch.tensor([0.05, 0.95]))
        self.scale.lerp_((high - low).clamp(min=1.0), 0.01)
        rho = RHO ** torch.arange(HORIZON + 1)
        policy_loss = (-(-1e-4 * ACTION * log_prob + value / self.scale).mean((1, 2)) * rho).mean()
        self.policy_optimizer.zero_grad(set_to_none=True)
        policy_loss.backward()
        nn.utils.clip_grad_norm_(self.pi.parameters(), 20.0)
        self.policy_optimizer.step()
        with torch.no_grad():
            for name, weight in self.params.items():
                self.slow[name].lerp_(weight, 0.01)

    @torch.no_grad()
    def plan(self, obs: Tensor) -> Tensor:
        self.base.eval()
        z = self.encoder(obs)
        here, proposed = z.repeat(PROPOSED, 1), []
        for _ in range(HORIZON):
            proposed.append(self.policy(here)[0])
            here = self.dynamics(torch.cat([here, proposed[-1]], -1))
        z = z.repeat(SAMPLES, 1)
        mean, std = torch.zeros(HORIZON, ACTION), torch.full((HORIZON, ACTION), 2.0)
        actions = torch.empty(HORIZON, SAMPLES, ACTION)
        actions[:, :PROPOSED] = torch.stack(proposed)
        for _ in range(ITERATIONS):
            noise = torch.randn(HORIZON, SAMPLES - PROPOSED, ACTION)
            actions[:, PROPOSED:] = (mean.unsqueeze(1) + std.unsqueeze(1) * noise).clamp(-1, 1)
            value = self.estimate(z, actions).nan_to_num(0)
            index = torch.topk(value.squeeze(1), ELITES, 0).indices
            best, chosen = value[index], actions[:, index]
            score = torch.exp(0.5 * (best - best.max(0).values))
            score = score / score.sum(0)
            mean = (score.unsqueeze(0) * chosen).sum(1)
            std = ((score.unsqueeze(0) * (chosen - mean.unsqueeze(1)) ** 2).sum(1)).sqrt().clamp(0.05, 2)
        pick = torch.multinomial(score.squeeze(1), 1)
        return (chosen[0, pick[0]] + std[0] * torch.randn(ACTION)).clamp(-1, 1)

    def estimate(self, z: Tensor, actions: Tensor) -> Tensor:
        total, weight = torch.zeros(()), 1.0
        for t in range(HORIZON):
            reward = self.number(self.reward(torch.cat([z, actions[t]], -1)))
            z = self.dynamics(torch.cat([z, actions[t]], -1))
            total = total + weight * reward
            weight *= GAMMA
        chosen, _ = self.policy(z)
        return total + weight * self.number(self.q(self.params, torch.cat([z, chosen], -1))).mean(0)


def clock(play: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    play()
    return time.perf_counter() - begin


def race(name: str, ours: Callable[[], Any], other: Callable[[], Any], rounds: int, bar: str) -> None:
    """Medians of alternating stretches, and how many times longer the other one takes."""
    ours(), other()
    pairs = [(clock(ours), clock(other)) for _ in range(rounds)]
    one, two = (statistics.median(column) * 1e3 for column in zip(*pairs, strict=True))
    print(
        f"{name:34} ours {one:9.1f} ms   other {two:9.1f} ms   ratio {two / one:5.2f}   ({bar})", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds, small dreams: does it run?")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    rounds = 2 if given.quick else 15
    agent, peer = TDMPC2(SPEC, model_size="1M", planner=MPPI()), Peer()
    agent.raw_optimizers()
    flags = torch.zeros(BATCH, HORIZON + 1)
    obs, action = torch.randn(BATCH, HORIZON + 1, OBS), torch.rand(BATCH, HORIZON + 1, ACTION) * 2 - 1
    reward = torch.randn(BATCH, HORIZON + 1)
    rows = Sequences(obs, action, reward, flags, flags, flags.bool())
    plainly = (obs.transpose(0, 1), action.transpose(0, 1)[:-1], reward.T[1:, :, None])
    race(
        "update, 1M, batch 256", lambda: agent.update(rows), lambda: peer.update(*plainly), rounds, "bar 1.3"
    )
    draw, one = torch.Generator().manual_seed(0), torch.randn(1, OBS)

    def plan(envs: int) -> Callable[[], Any]:
        return lambda: agent.act(one.expand(envs, -1), agent.initial_carry(envs), draw)

    race("plan, 1M, 512 x 3 x 6", plan(1), lambda: peer.plan(one), rounds, "bar 1.3")
    race("one env (ours), eight in a batch", plan(1), plan(8), rounds, "bar: at most 3")
    world = VisionMemoryModel(
        {"channels": 1, "latent_dim": 16, "depth": 2},
        {"latent_dim": 16, "action_dim": 3, "hidden_dim": 128, "predict_termination": False},
    ).requires_grad_(False)
    control = Controller(world.feature_width(False), SPEC._replace(action_shape=(3,)))
    members, dreams, steps = (8, 4, 20) if given.quick else (64, 16, 300)
    numbers, starts = 0.1 * torch.randn(members, control.size), torch.randn(dreams, 16)

    def dreamed(population: Tensor, first: Tensor = starts) -> Any:
        return dream_rollout(world, control, population, first, steps, 1.0, torch.Generator().manual_seed(0))

    race(
        f"dream {members} x {dreams} x {steps}, member by member",
        lambda: dreamed(numbers),
        lambda: [dreamed(numbers[p : p + 1]) for p in range(members)],
        max(1, rounds // 5),
        "each member's rollouts in one batch",
    )
    whole = min(clock(lambda: dreamed(numbers)) for _ in range(2))
    single = clock(lambda: [dreamed(numbers[:1], starts[r : r + 1]) for r in range(dreams)]) * members
    print(
        f"{'the same, rollout by rollout':34} ratio {single / whole:5.1f}   (bar 10; one member timed, times members)"
    )


if __name__ == "__main__":
    main()
