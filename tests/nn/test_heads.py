"""Policy heads, critics and optimizers."""

from functools import partial

import pytest
import torch
from torch import nn

from rl_lightning.errors import ConfigError
from rl_lightning.functional import action_distributions
from rl_lightning.nn import MLP
from rl_lightning.nn.ensemble import EnsembleLinear
from rl_lightning.nn.heads.actors import (
    CategoricalHead,
    GaussianHead,
    MultiCategoricalHead,
    SquashedGaussianActor,
    make_policy_head,
)
from rl_lightning.nn.heads.critics import DiscreteQEnsemble, DiscreteQNet, QEnsemble, ValueHead, make_critics
from rl_lightning.optim import SGD, Adam, AdamW, RMSprop
from rl_lightning.types import EnvSpec

SPECS = {
    CategoricalHead: EnvSpec("a", (5,), action_kind="discrete", action_sizes=(3,)),
    MultiCategoricalHead: EnvSpec(
        "b", (5,), action_kind="multi_discrete", action_shape=(2,), action_sizes=(3, 2)
    ),
    GaussianHead: EnvSpec("c", (5,), action_kind="continuous", action_shape=(2,)),
}


@pytest.mark.parametrize("kind", SPECS)
def test_heads_sample_and_score_actions_of_the_spec(kind):
    spec = SPECS[kind]
    head = make_policy_head(spec, 6)
    assert type(head) is kind
    generator = torch.Generator().manual_seed(0)
    for lead in [(4,), (2, 4)]:
        params = head(torch.randn(*lead, 6))
        assert params.shape == (*lead, head.params_dim)
        for action in (head.sample(params, generator), head.mode(params)):
            assert action.shape == (*lead, *spec.action_shape)
            log_prob, entropy = head.evaluate(params, action)
            assert log_prob.shape == entropy.shape == torch.Size(lead)
            torch.testing.assert_close(head.log_prob(params, action), log_prob)
            torch.testing.assert_close(head.entropy(params), entropy)


def test_new_policies_are_almost_uniform():
    features = torch.randn(100, 6)
    probs = make_policy_head(SPECS[CategoricalHead], 6)(features).softmax(-1)
    assert (probs - 1 / 3).abs().max() < 0.05
    mean, log_std = make_policy_head(SPECS[GaussianHead], 6, log_std_init=-0.5)(features).chunk(2, -1)
    assert mean.abs().max() < 0.1 and (log_std == -0.5).all()


def test_multi_categorical_is_the_product_of_its_parts():
    head = MultiCategoricalHead(6, [3, 2])
    params, action = torch.randn(7, 5), torch.tensor([[2, 1]]).expand(7, 2)
    log_prob, entropy = head.evaluate(params, action)
    parts = params.split([3, 2], -1)
    expected = sum(
        action_distributions.categorical_log_prob(part, action[:, i]) for i, part in enumerate(parts)
    )
    torch.testing.assert_close(log_prob, expected)
    torch.testing.assert_close(entropy, sum(action_distributions.categorical_entropy(part) for part in parts))


@pytest.mark.parametrize("kind", [CategoricalHead, MultiCategoricalHead])
def test_heads_obey_the_mask(kind):
    head = make_policy_head(SPECS[kind], 6)
    legal = torch.tensor([False, True, False, False, True])[: head.params_dim].expand(50, -1)
    params = torch.randn(50, head.params_dim)
    only = torch.tensor([1, 1]) if kind is MultiCategoricalHead else torch.tensor(1)
    generator = torch.Generator().manual_seed(0)
    action = head.sample(params, generator, legal)
    assert (action == only).all() and (head.mode(params, legal) == only).all()
    log_prob, entropy = head.evaluate(params, action, legal)
    assert not log_prob.any() and not entropy.any()


def test_gaussian_log_std_is_learned():
    head = GaussianHead(6, 2)
    head.evaluate(head(torch.randn(4, 6)), torch.randn(4, 2))[1].sum().backward()
    assert head.log_std.grad.tolist() == [4.0, 4.0]


def test_unknown_kinds_of_action_are_refused():
    with pytest.raises(ConfigError, match="'text'"):
        make_policy_head(EnvSpec("d", (5,), action_kind="text"), 6)


def test_squashed_actor_keeps_its_bounds():
    actor = SquashedGaussianActor(MLP((3,), [8], "relu"), 2)
    mean, log_std = actor(1000 * torch.randn(64, 3))
    assert mean.shape == log_std.shape == (64, 2)
    assert log_std.min() >= -5 and log_std.max() <= 2


@pytest.mark.parametrize("layer_norm", [False, True])
def test_q_ensemble_equals_its_members_apart(layer_norm):
    ensemble = QEnsemble(3, 5, 2, [16, 8], "relu", layer_norm)
    obs, action = torch.randn(10, 5), torch.randn(10, 2)
    together = ensemble(obs, action)
    assert together.shape == (3, 10)
    for member in range(3):
        out = torch.cat((obs, action), -1)
        for layer in ensemble.layers:
            if isinstance(layer, EnsembleLinear):
                out = nn.functional.linear(out, layer.weight[member].T, layer.bias[member, 0])
            elif isinstance(layer, nn.ReLU):
                out = out.relu()
            else:
                out = nn.functional.layer_norm(out, out.shape[-1:])
        torch.testing.assert_close(together[member], out.squeeze(-1), atol=1e-5, rtol=1e-4)


def test_q_ensemble_members_differ_and_start_like_linear():
    layer = EnsembleLinear(2, 100, 300)
    assert not torch.equal(layer.weight[0], layer.weight[1])
    reference = nn.Linear(100, 300)
    assert layer.weight.abs().max().item() == pytest.approx(reference.weight.abs().max().item(), rel=0.01)
    assert layer.weight.std().item() == pytest.approx(reference.weight.std().item(), rel=0.02)
    assert layer.bias.abs().max() <= 0.1


def test_members_gradients_are_apart():
    ensemble = QEnsemble(2, 5, 2, [8])
    ensemble(torch.randn(4, 5), torch.randn(4, 2))[0].sum().backward()
    for parameter in ensemble.parameters():
        assert parameter.grad[0].any() and not parameter.grad[1].any()


def test_q_ensemble_on_a_torso():
    torso = MLP((2, 3), [6], "relu")
    ensemble = QEnsemble(2, torso, 2, [8])
    obs, action = torch.randn(4, 2, 3), torch.randn(4, 2)
    plain = ensemble.layers(torch.cat((torso(obs), action), -1)).squeeze(-1)
    torch.testing.assert_close(ensemble(obs, action), plain)
    assert any(p is q for p in ensemble.parameters() for q in torso.parameters())


def test_value_head_drops_the_last_axis():
    assert ValueHead(6)(torch.randn(3, 4, 6)).shape == (3, 4)


def test_discrete_q_shapes():
    torsos = [MLP((5,), [8], "relu") for _ in range(2)]
    assert DiscreteQNet(torsos[0], 3)(torch.randn(4, 5)).shape == (4, 3)
    ensemble = DiscreteQEnsemble(torsos, 3)
    obs = torch.randn(4, 5)
    assert ensemble(obs).shape == (2, 4, 3)
    torch.testing.assert_close(ensemble(obs)[1], ensemble.nets[1](obs))


def test_dueling_advantages_average_to_nothing():
    net = DiscreteQNet(MLP((5,), [8], "relu"), 3, dueling=True)
    obs = torch.randn(4, 5)
    torch.testing.assert_close(net(obs).mean(-1), net.value(net.torso(obs)).squeeze(-1))


@pytest.mark.parametrize("make", [Adam, AdamW, RMSprop, SGD, partial(SGD, momentum=0.9, nesterov=True)])
def test_optimizers_step_downhill(make):
    parameter = nn.Parameter(torch.ones(3))
    optimizer = make([parameter], 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        parameter.square().sum().backward()
        optimizer.step()
    assert (parameter < 1).all() and optimizer.param_groups[0]["lr"] == 0.1


def test_fused_kernels_and_settings_arrive():
    group = Adam([nn.Parameter(torch.ones(3))], 0.1, (0.8, 0.9), 1e-5, 0.1).param_groups[0]
    assert group["fused"] and group["betas"] == (0.8, 0.9) and group["eps"] == 1e-5
    assert group["weight_decay"] == 0.1


@pytest.mark.parametrize(
    "make",
    [partial(Adam, betas=(1.0, 0.9)), partial(AdamW, eps=0.0), partial(SGD, nesterov=True)],
)
def test_impossible_optimizers_are_refused(make):
    with pytest.raises(ConfigError):
        make([nn.Parameter(torch.ones(3))], 0.1)


def test_dropout_beside_a_network_of_ones_own_is_refused():
    """It would be left out in silence."""
    with pytest.raises(ConfigError, match=r"critic_dropout 0\.1 is of plain layers"):
        make_critics(2, 3, 2, [8], MLP, dropout=0.1)
    assert make_critics(2, 3, 2, [8], MLP).ensemble_size == 2
