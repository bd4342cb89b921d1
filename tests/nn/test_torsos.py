"""The contract of every torso: stepping and unrolling agree, episodes do not leak, bad shapes are refused."""

from functools import partial

import pytest
import torch
from torch import nn

from rl_lightning.errors import ConfigError
from rl_lightning.factories import class_of
from rl_lightning.nn import CNN, MLP, RNN, NatureCNN, Network, SmallCNN, WindowTransformer, transformer
from rl_lightning.nn.init import ACTIVATIONS, orthogonal_
from rl_lightning.nn.make_torso import make_torso
from rl_lightning.nn.torso import FeedForward

VECTOR, IMAGE = (5,), (2, 10, 10)
TORSOS: dict[str, tuple[Network, tuple[int, ...]]] = {
    "mlp": (partial(MLP, hidden_dims=[16, 8]), VECTOR),
    "mlp-norm": (partial(MLP, hidden_dims=[16], activation="silu", layer_norm=True, init="default"), (2, 3)),
    "mlp-empty": (partial(MLP, hidden_dims=[]), VECTOR),
    "small-cnn": (partial(SmallCNN, hidden_dim=8), IMAGE),
    "cnn-flat": (partial(CNN, channels=[4], kernel_sizes=[3], strides=[2], hidden_dim=0), IMAGE),
    "gru": (partial(RNN, cell="gru", hidden_dim=7), VECTOR),
    "lstm": (
        partial(RNN, cell="lstm", hidden_dim=7, obs_encoder=partial(MLP, hidden_dims=[6], activation="relu")),
        VECTOR,
    ),
    "gru-cnn": (partial(RNN, cell="gru", hidden_dim=7, obs_encoder=partial(SmallCNN, hidden_dim=8)), IMAGE),
    "transformer": (
        partial(WindowTransformer, context_length=4, embed_dim=8, num_heads=2, num_layers=2),
        VECTOR,
    ),
    "transformer-two": (
        partial(WindowTransformer, context_length=2, embed_dim=8, num_heads=1, num_layers=1),
        VECTOR,
    ),
    "transformer-cnn": (
        partial(
            WindowTransformer, context_length=3, embed_dim=8, obs_encoder=partial(SmallCNN, hidden_dim=8)
        ),
        IMAGE,
    ),
}
MEMORY = [name for name, (network, _) in TORSOS.items() if class_of(network) in (RNN, WindowTransformer)]


def make(name: str, steps: int = 9, rows: int = 4):
    torch.manual_seed(0)
    network, shape = TORSOS[name]
    torso = make_torso(network, shape)
    obs = torch.randn(steps, rows, *shape)
    is_first = torch.rand(steps, rows) < 0.3
    return torso, obs, is_first


def step_through(torso, obs, carry, is_first):
    features = []
    for now, first in zip(obs, is_first, strict=True):
        carry = tuple(torch.where(first.view(-1, *[1] * (c.ndim - 1)), 0.0, c) for c in carry)
        feature, carry = torso.step(now, carry)
        features.append(feature)
    return torch.stack(features), carry


@pytest.mark.parametrize("name", TORSOS)
def test_unroll_equals_stepping_with_resets(name):
    torso, obs, is_first = make(name)
    carry = torso.initial_carry(4)
    assert all(len(part) == 4 and not part.any() for part in carry)
    # begin in the middle of an episode
    _, carry = torso.unroll(obs[:3], carry, torch.zeros_like(is_first[:3]))
    together, last = torso.unroll(obs, carry, is_first)
    apart, expected = step_through(torso, obs, carry, is_first)
    assert together.shape == (9, 4, torso.out_dim)
    torch.testing.assert_close(together, apart, atol=1e-5, rtol=1e-4)
    assert len(last) == len(expected)
    for ours, theirs in zip(last, expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", TORSOS)
def test_unrolling_in_two_parts_is_the_same(name):
    torso, obs, is_first = make(name)
    whole, _ = torso.unroll(obs, torso.initial_carry(4), is_first)
    first, carry = torso.unroll(obs[:4], torso.initial_carry(4), is_first[:4])
    second, _ = torso.unroll(obs[4:], carry, is_first[4:])
    torch.testing.assert_close(torch.cat((first, second)), whole, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", TORSOS)
def test_rows_and_episodes_do_not_see_each_other(name):
    """The gradient of one feature is zero outside its own row, its own episode and its own past."""
    torso, obs, is_first = make(name)
    is_first[:] = False
    is_first[4, 1] = True
    obs.requires_grad_()
    features, _ = torso.unroll(obs, torso.initial_carry(4), is_first)
    # weighted, because a plain sum of normalised features is constant
    (features[6, 1] * torch.linspace(1, 2, torso.out_dim)).sum().backward()
    reached = obs.grad.flatten(2).abs().sum(-1) > 0  # [T, B]
    assert reached[6, 1]
    reached[4:7, 1] = False
    assert not reached.any()


@pytest.mark.parametrize("name", MEMORY)
def test_memory_reaches_back(name):
    torso, obs, is_first = make(name)
    obs.requires_grad_()
    features, _ = torso.unroll(obs, torso.initial_carry(4), torch.zeros_like(is_first))
    (features[6, 1] * torch.linspace(1, 2, torso.out_dim)).sum().backward()
    assert obs.grad[5, 1].abs().sum() > 0


def test_long_rollouts_are_attended_in_chunks(monkeypatch):
    torso, obs, is_first = make("transformer")
    whole, _ = torso.unroll(obs, torso.initial_carry(4), is_first)
    monkeypatch.setattr(transformer, "CHUNK", 2)
    parts, _ = torso.unroll(obs, torso.initial_carry(4), is_first)
    torch.testing.assert_close(parts, whole, atol=1e-5, rtol=1e-4)


def test_window_ends_after_w_observations():
    torso, obs, is_first = make("transformer")  # window 4
    obs.requires_grad_()
    features, _ = torso.unroll(obs, torso.initial_carry(4), torch.zeros_like(is_first))
    (features[6, 1] * torch.linspace(1, 2, torso.out_dim)).sum().backward()
    reached = obs.grad[:, 1].abs().sum(-1) > 0
    assert reached.tolist() == [False] * 3 + [True] * 4 + [False] * 2


@pytest.mark.parametrize("name", [name for name in TORSOS if name not in MEMORY])
def test_feed_forward_torsos_take_any_leading_axes(name):
    torso, obs, _ = make(name)
    assert isinstance(torso, FeedForward) and torso.initial_carry(3) == ()
    torch.testing.assert_close(torso(obs)[2, 3], torso(obs[2, 3]), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["small-cnn", "gru-cnn", "transformer-cnn"])
def test_bytes_are_scaled_once_wherever_they_enter(name):
    torso, _, is_first = make(name)
    pixels = torch.randint(256, (9, 4, *IMAGE), dtype=torch.uint8)
    carry = torso.initial_carry(4)
    from_bytes, _ = torso.unroll(pixels, carry, is_first)
    from_floats, _ = torso.unroll(pixels.float() / 255, carry, is_first)
    torch.testing.assert_close(from_bytes, from_floats)
    stepped, _ = torso.step(pixels[0], carry)
    torch.testing.assert_close(stepped, from_floats[0], atol=1e-5, rtol=1e-4)


def test_a_fresh_torso_is_made_each_time():
    one, other = (make_torso(partial(MLP, hidden_dims=[4]), (3,)) for _ in range(2))
    assert one.layers[0].weight.data_ptr() != other.layers[0].weight.data_ptr()


def test_sizes():
    assert NatureCNN((4, 84, 84)).out_dim == 512
    assert sum(p.numel() for p in NatureCNN((4, 84, 84)).parameters()) == 1_684_128
    assert CNN((3, 84, 84), [8], [8], [4], hidden_dim=0).out_dim == 8 * 20 * 20
    assert RNN((3,), hidden_dim=9).out_dim == 9


def test_orthogonal_rows_have_the_gain_as_length():
    layer = orthogonal_(torch.nn.Linear(8, 4), 0.5)
    torch.testing.assert_close(layer.weight @ layer.weight.T, 0.25 * torch.eye(4), atol=1e-6, rtol=0)
    assert not layer.bias.any()


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_builds(name):
    assert MLP((3,), [4], name)(torch.zeros(2, 3)).shape == (2, 4)


class OfPictures(nn.Module):
    """Takes a shape; of flat observations it is given their width."""

    def __init__(self, shape, /):
        super().__init__()
        self.conv = nn.Conv2d(shape[0], 4, 3)


@pytest.mark.parametrize(
    ("network", "shape", "words"),
    [
        (partial(MLP, activation="rellu"), (3,), "'rellu'.*gelu.*relu.*tanh"),
        (partial(MLP, init="zeros"), (3,), "'zeros'.*default, orthogonal"),
        (partial(MLP, hidden_dims=[64, 0]), (3,), "positive"),
        (partial(RNN, cell="ltsm"), (3,), "'ltsm'.*gru, lstm"),
        (partial(RNN, obs_encoder=RNN), (3,), "without memory"),
        (partial(CNN, channels=[8, 8], kernel_sizes=[3], strides=[1, 1]), (3,), "2, 1 and 2"),
        (NatureCNN, (3, 10, 10), r"convolution 2.*kernel 4.*1x1.*SmallCNN"),
        (NatureCNN, (8,), "use MLP"),
        (partial(WindowTransformer, context_length=1), (3,), "at least 2"),
        (partial(WindowTransformer, embed_dim=10, num_heads=4), (3,), "divide"),
        (partial(MLP, hiden_dims=[8]), (3,), "network: MLP cannot be made of .*hiden_dims"),
        (dict, (3,), "network: dict cannot be made of"),
        (OfPictures, (3,), r"network: OfPictures cannot be made of \(3\): 'int' object"),
        (lambda width: nn.Linear(-width, 2), (3,), "network: <lambda> cannot be made of .*RuntimeError"),
    ],
)
def test_impossible_networks_say_what_is_wrong(network, shape, words):
    with pytest.raises(ConfigError, match=words):
        make_torso(network, shape)
