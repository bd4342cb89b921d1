"""The value of a reward of 1 for ever, cut every 10 steps, is 1 / (1 - gamma): a time limit is not an end."""

from functools import partial

import pytest
import torch
from contracts.case import Case, env
from contracts.cases import BY_NAME
from contracts.harness import fit

from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.functional.advantage_estimators import GAE, DiscountedReturn, NStepReturn
from rl_lightning.nn import MLP, RNN

GAMMA, VALUE = 0.9, 10.0
DISCRETE, CONTINUOUS = env("rl/Constant-v0"), env("rl/Constant-v0", continuous=True)
TINY = partial(MLP, hidden_dims=[16])
FAST = {"gamma": GAMMA, "lr": 0.01, "network": TINY}
online = {"batch_size": 64, "learning_starts": 64, "utd_ratio": 1.0, "num_envs": 4, "train_every": 16}


def trained(case: Case, env_steps: int):
    return fit(case, RunConfig(env_steps=env_steps))


@pytest.mark.parametrize(
    ("returns", "network"),
    [
        (GAE(0.8), TINY),
        (NStepReturn(3), TINY),
        (DiscountedReturn(), TINY),
        (GAE(0.9), partial(RNN, hidden_dim=8)),
    ],
    ids=["gae", "n-step", "discounted", "recurrent"],
)
def test_ppo(returns, network):
    model = {
        **FAST,
        "network": network,
        "advantage": returns,
        "n_epochs": 8,
        "max_grad_norm": 10.0,
        "lr": 0.02,
    }
    done = trained(BY_NAME["ppo-discrete"].but({"env": DISCRETE}, {**model, "minibatch_size": 128}), 3000)
    obs = torch.ones(1, 1)
    if not done.model.recurrent:
        values = done.model.value(done.model.value_torso(obs))
    else:
        first = torch.arange(12) == 0
        values = done.model.evaluate_rows(torch.ones(12, 1, 1), done.model.initial_carry(1), first[:, None])[
            1
        ]
    assert values.flatten().tolist() == pytest.approx([VALUE] * values.numel(), rel=0.05)


@pytest.mark.parametrize("n_step", [1, 3])
def test_dqn(n_step):
    model = {**FAST, "n_step": n_step, "target_every": 5, "huber_delta": None}
    done = trained(BY_NAME["dqn"].but({"env": DISCRETE, **online}, model), 700)
    assert done.model.q(torch.ones(1, 1))[0].tolist() == pytest.approx([VALUE] * 2, rel=0.05)


@pytest.mark.parametrize("case", ["sac", "sac-discrete"])
def test_sac(case):
    """Without the entropy bonus, which is no reward."""
    model = {**FAST, "alpha": 1e-6, "tau": 0.2}
    data = {"env": CONTINUOUS if case == "sac" else DISCRETE, **online}
    done = trained(BY_NAME[case].but(data, model), 700)
    obs = torch.ones(5, 1)
    q = (
        done.model.q(obs)
        if case == "sac-discrete"
        else done.model.q(obs, torch.linspace(-0.9, 0.9, 5)[:, None])
    )
    assert q.min().item() == pytest.approx(VALUE, rel=0.05)
    assert q.max().item() == pytest.approx(VALUE, rel=0.05)


def test_an_end_has_no_value_after_it():
    """The lake's goal and hole end an episode; their own values must not count."""
    lake = BY_NAME["dqn"].but(
        {"utd_ratio": 1.0}, {"gamma": 0.5, "target_every": 5, "network": TINY, "lr": 0.01}
    )
    q = trained(lake, 500).model.q(torch.eye(4))
    # S: right leads to F, worth 1 a step later; F: down is the goal; into the hole is worth nothing
    assert q[0, 2].item() == pytest.approx(0.5, abs=0.05)
    assert q[1, 1].item() == pytest.approx(1.0, abs=0.05)
    assert q[0, 1].item() == pytest.approx(0.0, abs=0.05)
