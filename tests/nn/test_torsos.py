"""The contract of every torso: stepping and unrolling agree, episodes do not leak, bad shapes are refused."""

import pytest
import torch

from rl_lightning.errors import ConfigError
from rl_lightning.nn import CNN, MLP, RNN, NatureCNN, Network, SmallCNN, WindowTransformer, transformer
from rl_lightning.nn.init import ACTIVATIONS, orthogonal_
from rl_lightning.nn.torso import FeedForward

VECTOR, IMAGE = (5,), (2, 10, 10)
TORSOS: dict[str, tuple[Network, tuple[int, ...]]] = {
    "mlp": (MLP([16, 8]), VECTOR),
    "mlp-norm": (MLP([16], "silu", layer_norm=True, init="default"), (2, 3)),
    "mlp-empty": (MLP([]), VECTOR),
    "small-cnn": (SmallCNN(hidden_dim=8), IMAGE),
    "cnn-flat": (CNN([4], [3], [2], hidden_dim=0), IMAGE),
    "gru": (RNN("gru", 7), VECTOR),
    "lstm": (RNN("lstm", 7, obs_encoder=MLP([6], "relu")), VECTOR),
    "gru-cnn": (RNN("gru", 7, obs_encoder=SmallCNN(hidden_dim=8)), IMAGE),
    "transformer": (WindowTransformer(context_length=4, embed_dim=8, num_heads=2, num_layers=2), VECTOR),
    "transformer-two": (WindowTransformer(context_length=2, embed_dim=8, num_heads=1, num_layers=1), VECTOR),
    "transformer-cnn": (
        WindowTransformer(context_length=3, embed_dim=8, obs_encoder=SmallCNN(hidden_dim=8)),
        IMAGE,
    ),
}
MEMORY = [name for name, (recipe, _) in TORSOS.items() if isinstance(recipe, RNN | WindowTransformer)]


def make(name: str, steps: int = 9, rows: int = 4):
    torch.manual_seed(0)
    recipe, shape = TORSOS[name]
    torso = recipe.build(shape)
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


def test_build_makes_a_fresh_torso_each_time():
    recipe = MLP([4])
    assert recipe.build((3,)).layers[0].weight.data_ptr() != recipe.build((3,)).layers[0].weight.data_ptr()


def test_sizes():
    assert NatureCNN().build((4, 84, 84)).out_dim == 512
    assert sum(p.numel() for p in NatureCNN().build((4, 84, 84)).parameters()) == 1_684_128
    assert CNN([8], [8], [4], hidden_dim=0).build((3, 84, 84)).out_dim == 8 * 20 * 20
    assert RNN(hidden_dim=9).build((3,)).out_dim == 9


def test_orthogonal_rows_have_the_gain_as_length():
    layer = orthogonal_(torch.nn.Linear(8, 4), 0.5)
    torch.testing.assert_close(layer.weight @ layer.weight.T, 0.25 * torch.eye(4), atol=1e-6, rtol=0)
    assert not layer.bias.any()


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_builds(name):
    assert MLP([4], name).build((3,))(torch.zeros(2, 3)).shape == (2, 4)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: MLP(activation="rellu"), "'rellu'.*gelu.*relu.*tanh"),
        (lambda: MLP(init="zeros"), "'zeros'.*default, orthogonal"),
        (lambda: MLP([64, 0]), "positive"),
        (lambda: RNN(cell="ltsm"), "'ltsm'.*gru, lstm"),
        (lambda: RNN(obs_encoder=RNN()).build((3,)), "without memory"),
        (lambda: CNN([8, 8], [3], [1, 1]), "2, 1 and 2"),
        (lambda: NatureCNN().build((3, 10, 10)), r"convolution 2.*kernel 4.*1x1.*SmallCNN"),
        (lambda: NatureCNN().build((8,)), "use MLP"),
        (lambda: WindowTransformer(context_length=1), "at least 2"),
        (lambda: WindowTransformer(embed_dim=10, num_heads=4), "divide"),
    ],
)
def test_impossible_recipes_say_what_is_wrong(build, words):
    with pytest.raises(ConfigError, match=words):
        build()
