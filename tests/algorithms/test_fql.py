"""FQL: its one-step policy against the exact flow on a mixture, and who is moved by what."""

import pytest
import torch
from algorithms.offline import SPEC, finite, fitted, provided, ready, reloaded, rows
from contracts.harness import differing, weights
from torch import nn

from rl_lightning.algorithms.diffusion.fql import FQL
from rl_lightning.functional.flows.flow_matching import euler_flow
from rl_lightning.nn.ensemble import EnsembleLinear, EnsembleNorm
from rl_lightning.types import EnvSpec

LINE = EnvSpec("e", (1,), action_kind="continuous", action_shape=(1,))
MEANS, STD = torch.tensor([-0.6, 0.5]), 0.2


def small(spec=SPEC, hidden=(16, 16), **options):
    torch.manual_seed(0)
    return ready(FQL(spec, list(hidden), **options))


class MixtureFlow(nn.Module):
    """The exact velocity of a mixture of two normals: that of each, by the chance that x is on its way there."""

    def forward(self, obs: torch.Tensor, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        off, variance = x - t * MEANS, (1 - t) ** 2 + t**2 * STD**2  # [B, 2], [B, 1]
        chance = (-off.square() / (2 * variance)).softmax(-1)
        return (chance * (MEANS + (t * STD**2 - (1 - t)) / variance * off)).sum(-1, keepdim=True)


def line_rows(count: int):
    return rows(count, obs=torch.zeros(count, 1), action=torch.zeros(count, 1))


def with_exact_flow(**options):
    model = small(LINE, (32, 32), lr=5e-3, **options)
    model.flow = MixtureFlow()
    return model


def test_the_policy_of_one_step_is_the_exact_flow_of_a_mixture():
    model = with_exact_flow()
    model.q.forward = lambda obs, action: 0.0 * action.sum(-1).expand(2, -1)
    for _ in range(300):
        model._actor_step(line_rows(128))
    noise = torch.linspace(-2.5, 2.5, 201)[:, None]
    action = model.policy(torch.zeros(201, 1), noise)
    exact = model.flow_action(torch.zeros(201, 1), noise)
    assert (action - exact).square().mean().sqrt().item() < 0.05
    assert exact[noise < -0.5].mean().item() < -0.4 and exact[noise > 0.5].mean().item() > 0.3  # both ways
    fine = euler_flow(lambda x, t: model.flow(None, x, t), noise, 200)
    assert (exact - fine).abs().mean().item() < 0.1  # ten steps are near the flow itself


@pytest.mark.parametrize(("coef", "low", "high"), [(0.3, 0.8, 1.0), (30.0, -0.9, -0.5)])
def test_critics_lead_the_policy_as_far_as_the_coefficient_lets_them(coef, low, high):
    """Q = a: from noise -1.5, which the flow carries to the left heap, a policy held loosely goes to the far right.
    Its distance to the flow is 1 / (2 coef) where the loss is least and no bound is in the way."""
    model = with_exact_flow(distill_coef=coef)
    model.q.forward = lambda obs, action: action.sum(-1).expand(2, -1)
    for _ in range(200):
        model._actor_step(line_rows(128))
    noise = torch.full((1, 1), -1.5)
    action = model.policy(torch.zeros(1, 1), noise)
    assert low < action.clamp(-1, 1).item() < high
    if coef > 1:
        gap = action - model.flow_action(torch.zeros(1, 1), noise)
        assert gap.item() == pytest.approx(1 / (2 * coef), abs=0.06)


def test_the_flow_is_moved_by_its_own_loss_alone():
    flows = []
    for options in ({"distill_coef": 0.0}, {"distill_coef": 1000.0}, {"normalize_q_loss": True}):
        model = small(**options)
        model._actor_step(rows())
        flows.append(model.flow.state_dict())
    for other in flows[1:]:
        assert all(torch.equal(flows[0][name], value) for name, value in other.items())


def test_both_ways_start_from_the_same_noise():
    """A policy that is the flow's own map is at no distance from it."""
    model = small()
    seen = []
    model.policy.forward = lambda obs, noise: seen.append(noise) or noise * 0.1
    model.flow.forward = lambda obs, x, t: 0.0 * x
    model.flow_action = lambda obs, noise: seen.append(noise) or noise * 0.1
    model.step = lambda *rest: None
    assert model._actor_step(rows())["train/distill_loss"].item() == 0.0
    assert torch.equal(*seen)


@pytest.mark.parametrize(("q_agg", "value"), [("mean", 3.0), ("min", 1.0)])
def test_the_target_takes_the_mean_or_the_lowest_critic(q_agg, value):
    model = small(q_agg=q_agg)
    model.q_target.forward = lambda obs, action: torch.tensor([[1.0], [5.0]]).expand(-1, len(obs))
    terminated = torch.tensor([0.0, 1.0] * 8)
    torch.testing.assert_close(model._target(rows(terminated=terminated)), 1 + 0.9 * (1 - terminated) * value)


def test_the_normalised_term_is_free_of_the_rewards_size():
    losses = []
    for size in (1.0, 100.0):
        model = small(normalize_q_loss=True, distill_coef=0.0)
        model.q.forward = lambda obs, action, size=size: size * (action.sum(-1) + 3.0).expand(2, -1)
        model.step = lambda optimizer, loss, clip=None: losses.append(loss)
        model._actor_step(rows())
    torch.testing.assert_close(losses[0], losses[1])


def test_an_action_beyond_the_bounds_has_no_slope_of_the_critics():
    model = small(distill_coef=0.0)
    model.policy.forward = lambda obs, noise: out
    out = torch.tensor([[1.5, 0.5]] * 16, requires_grad=True)
    model.q.forward = lambda obs, action: action.sum(-1).expand(2, -1)
    model.step = lambda optimizer, loss, clip=None: loss.backward()
    model._actor_step(rows())
    assert (out.grad[:, 0] == 0).all() and (out.grad[:, 1] < 0).all()


def test_only_critics_are_normalised_behind_their_activation():
    model = FQL(SPEC, [16])
    assert [type(layer) for layer in model.q.layers] == [
        EnsembleLinear,
        nn.GELU,
        EnsembleNorm,
        EnsembleLinear,
    ]
    assert not any(
        isinstance(m, nn.LayerNorm | EnsembleNorm) for m in (*model.policy.modules(), *model.flow.modules())
    )


def test_every_part_moves_at_each_update():
    model = small()
    before = weights(model)
    assert finite(model.update(rows()))
    assert {n.split(".")[0] for n in differing(before, weights(model))} == {"policy", "flow", "q", "q_target"}


def test_it_draws_in_evaluation_and_is_the_same_after_a_reload():
    batch = rows(200, obs=4 + 2 * torch.randn(200, 3))
    model = fitted(small(normalize_obs=True), batch)
    model.update(batch)
    copy = reloaded(model, FQL(SPEC, [16, 16], normalize_obs=True))

    def drawn(net, seed):
        return net(batch.obs, torch.Generator().manual_seed(seed))

    ours = drawn(lambda obs, g: model.act(obs, (), g)[0], 1)
    assert torch.equal(ours, drawn(lambda obs, g: copy.act(obs, (), g)[0], 1))
    assert torch.equal(ours, drawn(lambda obs, g: provided(model).choose(obs, g, True), 1))
    assert not torch.equal(ours, drawn(lambda obs, g: model.act(obs, (), g)[0], 2))
    assert model.evaluation_draw(0) is not None
