"""Learning a denoiser, and drawing from it.

Every sampler here is a list of `SolverStep`s with plain numbers in them, made once: a move asks the network about
the current row and sets the next row to a weighted sum of an earlier row, of the clean rows guessed so far, and
perhaps of noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from rl_lightning.functional.noise_schedules import NoiseSchedule

EpsFn = Callable[[Tensor, float], Tensor]  # noisy rows, time -> the noise in them
NoiseFn = Callable[[Tensor], Tensor]  # rows -> standard normal noise like them


class SolverStep(NamedTuple):
    """Ask the network at `time` about the current row; then next row = keep * row[base] + sum of weight * clean[i]."""

    time: float
    alpha: float
    sigma: float
    base: int  # which row the step starts from: 0 is the noise, i the row before move i
    keep: float
    parts: tuple[tuple[int, float], ...]  # (number of the guess, weight)
    noise: float = 0.0  # standard deviation of fresh noise


def add_noise(schedule: NoiseSchedule, clean: Tensor, time: Tensor, noise: Tensor) -> Tensor:
    """alpha(t) x + sigma(t) e.  [..., *E], [...] -> [..., *E]"""
    spread = [
        part.reshape(*time.shape, *[1] * (clean.dim() - time.dim())) for part in schedule.alpha_sigma(time)
    ]
    return spread[0] * clean + spread[1] * noise


def denoising_loss(eps_pred: Tensor, noise: Tensor) -> Tensor:
    """Squared error of the noise, summed over a row and averaged over rows."""
    assert eps_pred.shape == noise.shape, (eps_pred.shape, noise.shape)
    return (eps_pred - noise).square().flatten(1).sum(-1).mean()


def guided_eps(
    eps_fn: EpsFn, gradient: Callable[[Tensor, float], Tensor], scale: float, schedule: NoiseSchedule
) -> EpsFn:
    """The same noise less scale * sigma(t) * gradient: samples then lean towards where the guide rises."""
    if scale == 0.0:
        return eps_fn

    def leaning(x: Tensor, time: float) -> Tensor:
        _, sigma = schedule.alpha_sigma(torch.tensor(time, dtype=torch.float64))
        return torch.sub(eps_fn(x, time), gradient(x, time), alpha=scale * float(sigma))

    return leaning


def solve(
    eps_fn: EpsFn,
    start: Tensor,
    moves: Sequence[SolverStep],
    clip: float | None = None,
    fresh: NoiseFn | None = None,
) -> Tensor:
    """Follows the moves from pure noise; `clip` bounds every guess of the clean row."""
    rows, guesses = [start], list[Tensor]()
    for move in moves:
        x = rows[-1]
        clean = torch.sub(x, eps_fn(x, move.time), alpha=move.sigma).mul_(1.0 / move.alpha)
        guesses.append(clean.clamp_(-clip, clip) if clip is not None else clean)
        following = rows[move.base] * move.keep
        for which, weight in move.parts:
            following.add_(guesses[which], alpha=weight)
        if move.noise > 0.0:
            assert fresh is not None, "these moves draw noise"
            following.add_(fresh(following), alpha=move.noise)
        rows.append(following)
    return rows[-1]


class _Nodes(NamedTuple):
    """Alpha, sigma and lambda along a grid; a clean end has alpha 1, sigma 0 and an infinite lambda."""

    time: list[float]
    alpha: list[float]
    sigma: list[float]
    snr: list[float]

    def move(
        self, at: int, base: int, keep: float, parts: dict[int, float], noise: float = 0.0
    ) -> SolverStep:
        return SolverStep(
            self.time[at], self.alpha[at], self.sigma[at], base, keep, tuple(parts.items()), noise
        )


def nodes(schedule: NoiseSchedule, times: Tensor) -> _Nodes:
    asked = times[times > 0]
    alpha, sigma = (part.tolist() for part in schedule.alpha_sigma(asked))
    snr = schedule.half_log_snr(asked).tolist()
    if len(asked) < len(times):
        alpha, sigma, snr = [*alpha, 1.0], [*sigma, 0.0], [*snr, math.inf]
    return _Nodes(times.tolist(), alpha, sigma, snr)


def ddim_steps(schedule: NoiseSchedule, times: Tensor, eta: float) -> list[SolverStep]:
    """DDIM (Song et al. 2020); `eta` 1 on all steps of a discrete schedule is DDPM with its smaller variance."""
    at, moves = nodes(schedule, times), []
    for i in range(len(times) - 1):
        ratio = at.sigma[i + 1] / at.sigma[i]
        spread = eta * ratio * math.sqrt(max(0.0, 1.0 - (at.alpha[i] / at.alpha[i + 1]) ** 2))
        direct = math.sqrt(max(0.0, at.sigma[i + 1] ** 2 - spread**2)) / at.sigma[i]
        moves.append(at.move(i, i, direct, {i: at.alpha[i + 1] - direct * at.alpha[i]}, spread))
    return moves


def singlestep_steps(schedule: NoiseSchedule, times: Tensor, order: int) -> list[SolverStep]:
    """DPM-Solver++ that starts each step afresh: a step of order p asks p times, at p nodes of the grid."""
    at, moves, start = nodes(schedule, times), list[SolverStep](), 0
    last = len(times) - 1
    for size in step_sizes(last, order):
        i, j = start, start + size
        if math.isinf(at.snr[j]):
            moves += _to_clean(at, i, j)
        else:
            moves += [at.move(i + k, i, *_single(at, i, i + k + 1, k + 1)) for k in range(size)]
        start = j
    return moves


def _to_clean(at: _Nodes, i: int, j: int) -> list[SolverStep]:
    """Up to a clean end only single evaluations help: the row itself has no weight there."""
    return [at.move(k, k, *_single(at, k, k + 1, 1)) for k in range(i, j)]


def step_sizes(evaluations: int, order: int) -> list[int]:
    """Orders of the steps that use exactly so many evaluations, the lower ones last."""
    if order == 1:
        return [1] * evaluations
    full, rest = divmod(evaluations, order)
    if order == 2:
        return [2] * full + [1] * rest
    return {0: [3] * max(full - 1, 0) + ([2, 1] if full else []), 1: [3] * full + [1], 2: [3] * full + [2]}[
        rest
    ]


def _single(at: _Nodes, i: int, j: int, order: int) -> tuple[float, dict[int, float]]:
    """Row j from row i and the guesses at i, i+1, ... of which there are `order`."""
    h = at.snr[j] - at.snr[i]
    alpha = at.alpha[j]
    phi1 = math.expm1(-h)
    keep = at.sigma[j] / at.sigma[i]
    if order == 1:
        return keep, {i: -alpha * phi1}
    if order == 2:
        extra = -alpha * phi1 / (2.0 * (at.snr[i + 1] - at.snr[i]) / h)
        return keep, {i: -alpha * phi1 - extra, i + 1: extra}
    extra = alpha * (phi1 / h + 1.0) / ((at.snr[i + 2] - at.snr[i]) / h)
    return keep, {i: -alpha * phi1 - extra, i + 2: extra}


def multistep_steps(
    schedule: NoiseSchedule, times: Tensor, order: int, lower_order_final: bool
) -> list[SolverStep]:
    """DPM-Solver++ that remembers: one evaluation a step, orders 2 and 3 from the guesses before."""
    at, moves = nodes(schedule, times), []
    last = len(times) - 1
    for i in range(last):
        left = last - i if lower_order_final else order
        now = 1 if math.isinf(at.snr[i + 1]) else min(order, i + 1, left)
        moves.append(at.move(i, i, *_multi(at, i, now)))
    return moves


def _multi(at: _Nodes, i: int, order: int) -> tuple[float, dict[int, float]]:
    h = at.snr[i + 1] - at.snr[i]
    alpha = at.alpha[i + 1]
    keep, first = at.sigma[i + 1] / at.sigma[i], -alpha * math.expm1(-h)
    if order == 1:
        return keep, {i: first}
    r0 = (at.snr[i] - at.snr[i - 1]) / h
    if order == 2:
        slope = 0.5 * first / r0
        return keep, {i: first + slope, i - 1: -slope}
    r1 = (at.snr[i - 1] - at.snr[i - 2]) / h
    phi2 = alpha * (math.expm1(-h) / h + 1.0)
    phi3 = -alpha * ((math.expm1(-h) + h) / h**2 - 0.5)
    # slopes between guesses, as weights on (i, i-1, i-2)
    d0, d1 = (1 / r0, -1 / r0, 0.0), (0.0, 1 / r1, -1 / r1)
    total = r0 + r1
    one = [a + r0 / total * (a - b) for a, b in zip(d0, d1, strict=True)]
    two = [(a - b) / total for a, b in zip(d0, d1, strict=True)]
    weights = [phi2 * a + phi3 * b for a, b in zip(one, two, strict=True)]
    return keep, {i: first + weights[0], i - 1: weights[1], i - 2: weights[2]}
