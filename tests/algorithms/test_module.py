"""What all algorithms share: one step, blocks, precision, divergence, evaluation without a trace."""

import copy

import pytest
import torch
from contracts.cases import BY_NAME
from contracts.harness import bare, differing, fit, weights

from rl_lightning import distributed
from rl_lightning.algorithms.step import Stepper
from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.errors import DivergedError
from rl_lightning.optim.optimizers import Adam
from rl_lightning.rollout.block import Block

step = Stepper()


def linear(value: float = 1.0) -> tuple[torch.nn.Linear, torch.optim.SGD]:
    net = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.constant_(net.weight, value)
    return net, torch.optim.SGD(net.parameters(), lr=0.1)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_raises_before_anything_moves(bad):
    net, optimizer = linear()
    with pytest.raises(DivergedError, match=r"loss became (nan|inf)"):
        step(optimizer, net(torch.ones(1, 2)).sum() * bad)
    assert torch.equal(net.weight, torch.ones(1, 2))


@pytest.mark.parametrize("who", ["this rank", "another"])
def test_several_ranks_meet_before_one_of_them_leaves(who, monkeypatch):
    """A rank that raised at once would leave the others waiting for its gradients."""
    net, optimizer = linear()
    sent = []

    def average(tensors):
        sent.append(len(tensors))
        if who == "another":
            tensors[-1].fill_(float("nan"))

    monkeypatch.setattr(distributed, "world_size", lambda: 2)
    monkeypatch.setattr(distributed, "average_", average)
    with pytest.raises(DivergedError):
        step(optimizer, net(torch.ones(1, 2)).sum() * (float("nan") if who == "this rank" else 1.0))
    assert sent == [2] and torch.equal(net.weight, torch.ones(1, 2))


def test_a_step_leaves_no_gradient_in_what_it_looks_through():
    net, optimizer = linear()
    other = torch.nn.Linear(1, 1)
    step(optimizer, other(net(torch.ones(1, 2))).sum())
    assert other.weight.grad is None and other.bias.grad is None


def test_the_norm_before_clipping_is_told():
    net, optimizer = linear()
    norm = step(optimizer, 3 * net.weight[0, 0] + 4 * net.weight[0, 1], clip=1.0)
    assert norm.item() == pytest.approx(5.0)
    torch.testing.assert_close(net.weight.detach(), torch.tensor([[1 - 0.06, 1 - 0.08]]))


def test_under_autocast_every_step_sees_the_weights_of_the_last():
    """The cache of cast weights would hand a block's second update those from before the first."""
    net, optimizer = linear(2.0)
    obs = torch.ones(1, 2)
    with torch.autocast("cpu", torch.bfloat16):
        seen = []
        for _ in range(3):
            out = net(obs).sum()
            seen.append(out.item())
            step(optimizer, out * 5)
    assert seen == [4.0, 3.0, 2.0]


@pytest.mark.parametrize("name", ["ppo-discrete", "ppo-gru", "dqn", "sac", "sac-discrete"])
def test_mixed_precision_updates_move_what_single_ones_move_and_about_as_far(name):
    """A block of several updates by a Trainer in bf16-mixed, against fp32."""
    case = BY_NAME[name]
    runs = [fit(case, RunConfig(env_steps=200), seed=1, precision=p) for p in ("32-true", "bf16-mixed")]
    start = bare(case, seed=1)
    first = weights(start.model)
    exact, mixed = (weights(run.model) for run in runs)
    assert differing(first, exact) == differing(first, mixed)
    moved = {n: (exact[n] - first[n], mixed[n] - first[n]) for n in exact if exact[n].is_floating_point()}
    total = [torch.cat([m[k].flatten() for m in moved.values()]) for k in (0, 1)]
    assert all(value.dtype == torch.float32 for value in mixed.values() if value.is_floating_point())
    assert torch.nn.functional.cosine_similarity(*total, dim=0) > 0.5


def test_a_diverging_run_stops_with_the_error():
    with pytest.raises(DivergedError):
        fit(
            BY_NAME["dqn"].but(model={"lr": 1e30, "max_grad_norm": None, "huber_delta": None}),
            RunConfig(env_steps=300),
        )
    assert DivergedError.exit_code == 5


def test_metrics_are_means_since_the_last_drain():
    run = bare(BY_NAME["dqn"])
    for value in (1.0, 3.0):
        run.model.log_metrics({"train/x": torch.tensor(value)})
    run.model.log_metrics({"train/y": torch.tensor(5.0)})
    assert run.model.pop_metrics() == {"train/x": 2.0, "train/y": 5.0}
    assert run.model.pop_metrics() == {}


def test_a_block_is_its_batches_one_after_the_other():
    run, twin = bare(BY_NAME["sac"]), bare(BY_NAME["sac"])
    batches = []
    while not batches:
        block = run.data.next_block()
        block.watch(batches.append)
        torch.manual_seed(0)
        run.learn(block)
    torch.manual_seed(0)
    for batch in batches:
        twin.model.update(batch)
    assert not differing(weights(run.model), weights(twin.model))
    assert run.data.clock.update == len(batches) > 1


def test_a_block_without_updates_changes_nothing_but_the_clock_of_steps():
    run = bare(BY_NAME["sac"])
    before = weights(run.model)
    run.learn(Block(run.data, iter(())))
    assert not differing(before, weights(run.model)) and run.data.clock.update == 0


def test_a_gradient_laid_out_otherwise_moves_its_parameter_the_same_way():
    """A convolution of channels-last rows hands back channels-last gradients; fused Adam reads memory as it lies."""
    torch.manual_seed(0)
    conv = torch.nn.Conv2d(3, 4, 3)
    plain = copy.deepcopy(conv)
    rows = torch.randn(2, 3, 8, 8)
    ours = Adam(conv.parameters(), 0.1)
    theirs = torch.optim.Adam(plain.parameters(), 0.1, fused=False, foreach=False)
    for _ in range(3):
        step(ours, conv(rows.to(memory_format=torch.channels_last)).square().sum())
        theirs.zero_grad()
        plain(rows).square().sum().backward()
        theirs.step()
    assert torch.allclose(conv.weight, plain.weight, atol=1e-4)
