"""COMBO: the fixed point of its extra term, where it holds critics down, and CQL as a case of it."""

import math
from types import SimpleNamespace

import pytest
import torch
from algorithms.offline import SPEC, provided, ready, rows
from contracts.families.models import MODEL, mixed
from torch import nn

from rl_lightning.algorithms.offline.combo import COMBO
from rl_lightning.algorithms.offline.cql import CQL
from rl_lightning.errors import ConfigError
from rl_lightning.models.dynamics.penalties import EnsembleStdPenalty
from rl_lightning.optim.optimizers import SGD
from rl_lightning.types import EnvSpec

ONE = EnvSpec("e", (3,), action_kind="continuous", action_shape=(1,))


def small(spec=SPEC, **options):
    torch.manual_seed(0)
    return ready(COMBO(spec, [16], **options))


def marked(count=16, real=8, **fields):
    return rows(count, **fields)._replace(is_real=torch.arange(count) < real)


class Lines(nn.Module):
    """Two critics c + b a of one action."""

    ensemble_size = 2

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2, 2))

    def tensors(self):
        return [self.weight]

    def forward(self, obs, action):
        return self.weight[:, :1] + self.weight[:, 1:] * action[..., 0]


def fixed_point(weight: float, x: tuple[float, float], reward: tuple[float, float], real: float):
    """Of real (c + b x1 - r1)^2 + (1 - real) (c + b x2 - r2)^2 + weight (log(2 sinh(b) / b) - b x1), by bisection."""

    def errors(b):
        first = weight * (x[0] - (1 / math.tanh(b) - 1 / b)) / (2 * real * (x[0] - x[1]))
        return first, -real * first / (1 - real)

    low, high = 1e-3, 50.0
    for _ in range(80):
        b = (low + high) / 2
        first, second = errors(b)
        short = b * (x[0] - x[1]) < reward[0] + first - reward[1] - second
        low, high = (b, high) if short else (low, b)
    return reward[0] + first - b * x[0], b


def test_the_extra_term_at_its_fixed_point():
    """Recorded actions 0.5 of reward 1, imagined ones -0.5 of reward 0.8: down at the imagined, up at the recorded."""
    count, real = 64, 16
    batch = marked(count, real, obs=torch.ones(count, 3), terminated=torch.ones(count))
    is_real = batch.is_real.float()
    batch = batch._replace(action=is_real[:, None] - 0.5, reward=0.8 + 0.2 * is_real)
    torch.manual_seed(0)
    model = COMBO(ONE, [16], cql_alpha=0.4, cql_n_actions=20, critic_lr=0.05, optimizer=SGD)
    model.q, model.q_target = Lines(), Lines()
    ready(model)
    path = []
    for _ in range(400):
        model.update(batch)
        path.append(model.q.weight.detach().mean(0).clone())
    c, b = torch.stack(path[200:]).mean(0).tolist()
    assert (c, b) == pytest.approx(fixed_point(0.4, (0.5, -0.5), (1.0, 0.8), real / count), abs=0.03)
    assert c + 0.5 * b > 1.05 and c - 0.5 * b < 0.79


def test_with_recorded_rows_alone_it_is_cql():
    losses = []
    for kind, batch in ((COMBO, marked(real=16)), (CQL, rows())):
        torch.manual_seed(0)
        model = ready(kind(SPEC, [16], cql_n_actions=4, cql_alpha=2.0, normalize_obs=False))
        model.step = lambda optimizer, loss, clip=None: losses.append(loss.item())
        torch.manual_seed(1)
        model.update(batch)
    half = len(losses) // 2
    assert losses[:half] == pytest.approx(losses[half:], rel=1e-5)


@pytest.mark.parametrize(("rho_s", "real", "count"), [("mix", 8, 16), ("model", 6, 10), ("model", 16, 16)])
def test_critics_are_held_down_at_all_rows_or_at_imagined_ones(rho_s, real, count):
    assert small(rho_s=rho_s)._soft_maximum(marked(real=real)).shape == (2, count)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"penalty": EnsembleStdPenalty()}, "pay twice"), ({"real_ratio": 0.01}, "needs recorded rows")],
    ids=["penalty", "no recorded rows"],
)
def test_data_that_doubt_too_or_only_imagine_are_refused(options, message):
    module = SimpleNamespace(doubts_by_itself=True, evaluated_on="episodes", dynamics=MODEL)
    with pytest.raises(ConfigError, match=message):
        mixed(**options).check_model(module)


def test_what_it_provides_acts_alike():
    model, obs = small(), rows().obs
    model.update(marked())
    assert torch.equal(provided(model).greedy(obs), model.act(obs, (), None)[0])
