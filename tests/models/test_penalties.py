"""Penalties as the imagination calls them: with a density, or with an ensemble's spread."""

from functools import partial
from typing import NamedTuple

import pytest
import torch

from rl_lightning.errors import ConfigError, RLError
from rl_lightning.models.density import CalibratedDensity, RealNVP
from rl_lightning.models.described import describe
from rl_lightning.models.dynamics.penalties import (
    EnsembleStdPenalty,
    ExponentialPenalty,
    InversePenalty,
    LinearPenalty,
    NoPenalty,
    SoftplusPenalty,
    TanhPenalty,
)

BY_DENSITY = [LinearPenalty, InversePenalty, ExponentialPenalty, TanhPenalty, SoftplusPenalty]


class Outcome(NamedTuple):
    next_obs: torch.Tensor
    reward: torch.Tensor
    spread: torch.Tensor | None = None


@pytest.fixture(scope="module")
def density() -> CalibratedDensity:
    """A standard normal: an untrained flow is the identity."""
    made = CalibratedDensity(describe(partial(RealNVP, hidden_dims=[8])), 2, 1)
    made.calibrate(torch.randn(20_000, 3, generator=torch.Generator().manual_seed(0)))
    return made


def steps(*distances: float) -> tuple[torch.Tensor, torch.Tensor, Outcome]:
    next_obs = torch.tensor([[d, 0.0] for d in distances])
    zeros = torch.zeros(len(distances))
    return torch.zeros_like(next_obs), zeros[:, None], Outcome(next_obs, zeros, zeros)


@pytest.mark.parametrize("cls", BY_DENSITY)
@pytest.mark.parametrize("scale", ["std", "nats"])
def test_weight_grows_with_the_distance_and_marks_rows_outside(cls, scale, density):
    penalty = cls("nowhere", percentile=5.0, score_unit=scale)
    penalty.use(density)
    penalty.setup()  # what is there already is not loaded again
    weight, below = penalty(*steps(0.0, 1.0, 3.0, 3.5, 10.0, 1e5))
    assert below.tolist() == [False, False, True, True, True, True]
    assert weight.isfinite().all() and (weight >= 0).all() and (weight.diff() >= 0).all()
    assert weight[-1] <= penalty.cap and weight[3] > weight[2] > weight[0]
    if cls is not SoftplusPenalty:
        assert weight[:2].tolist() == [0.0, 0.0]


def test_units_slope_and_cap(density):
    batch = steps(4.0)
    short = (density.threshold(1.0) - density.score(torch.tensor([[4.0, 0.0, 0.0]]))).item()

    def weight(cls, **options):
        penalty = cls("nowhere", **options)
        penalty.use(density)
        return penalty(*batch)[0].item()

    assert weight(LinearPenalty, score_unit="nats", cap=99.0) == pytest.approx(short)
    assert weight(LinearPenalty, cap=99.0) == pytest.approx(short / density.std.item(), rel=1e-5)
    assert weight(LinearPenalty, score_unit="nats", slope=0.5, cap=99.0) == pytest.approx(short / 2)
    assert weight(LinearPenalty, cap=0.25) == 0.25
    tanh = torch.tensor(0.1 * short).tanh().item()
    assert weight(TanhPenalty, score_unit="nats", slope=0.1) == pytest.approx(tanh)


def test_no_penalty_is_free():
    weight, below = NoPenalty()(*steps(0.0, 1e6))
    assert weight.tolist() == [0.0, 0.0] and below.tolist() == [False, False]


def test_ensemble_spread_is_the_weight():
    obs, action, step = steps(0.0, 0.0, 0.0, 0.0)
    step = step._replace(spread=torch.tensor([0.5, 3.0, float("inf"), float("nan")]))
    penalty = EnsembleStdPenalty(cap=2.0)
    assert penalty.needs_spread and not NoPenalty().needs_spread
    weight, below = penalty(obs, action, step)
    assert weight.tolist() == [0.5, 2.0, 2.0, 2.0] and not below.any()
    with pytest.raises(ConfigError, match="spread"):
        penalty(obs, action, step._replace(spread=None))


def test_errors_come_before_the_first_step(density, tmp_path):
    with pytest.raises(ConfigError, match="percentile"):
        TanhPenalty("x", percentile=-1.0)
    with pytest.raises(ConfigError, match="slope and cap"):
        TanhPenalty("x", slope=0.0)
    with pytest.raises(ConfigError, match="std or nats"):
        TanhPenalty("x", score_unit="bits")
    with pytest.raises(ConfigError, match="never calibrated"):
        TanhPenalty("x").use(CalibratedDensity(describe(partial(RealNVP, hidden_dims=[8])), 2, 1))
    with pytest.raises(RLError):
        TanhPenalty(str(tmp_path)).setup()
