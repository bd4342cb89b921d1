"""The next-frame network: counted to the last weight, and quiet where it must be."""

import copy
import math
import sys
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from rl_lightning.errors import ConfigError
from rl_lightning.kernels.malloc import set_malloc_thresholds
from rl_lightning.models.frames.frame_world import NextFramePredictor
from rl_lightning.nn.frames.frame_parts import MeanAttention, UpsampleConv, make_norm, timing_signal
from rl_lightning.nn.frames.latent_bits import to_bits, to_symbols, training_bits
from rl_lightning.nn.frames.reward_net import SpatialRewardNet
from rl_lightning.optim import Adafactor
from rl_lightning.types import EnvSpec

SMALL = {
    "base_channels": 8,
    "compress_steps": 2,
    "filter_double_steps": 1,
    "latent_filters": (8, 8),
    "latent_state_size": 8,
    "bottleneck_bits": 16,
}


def spec(channels: int = 1, height: int = 12, width: int = 10, frames: int = 4, actions: int = 3) -> EnvSpec:
    shape = (frames * channels, height, width)
    return EnvSpec("rl/Catch-v0", shape, "uint8", "discrete", (), (actions,), num_stack=frames)


def small(**more):
    return NextFramePredictor(spec(), **{"colors": 5, **SMALL, **more})


def stacks(count: int = 3, colors: int = 5) -> torch.Tensor:
    return torch.randint(colors, (count, 4, 12, 10), dtype=torch.uint8)


@pytest.fixture(scope="module")
def parity():
    with torch.device("meta"):
        recipe = partial(NextFramePredictor, colors=0, norm="instance", reward_net=SpatialRewardNet)
        return recipe(spec(3, 105, 80))


def test_parameters_of_the_original(parity):
    head = sum(p.numel() for p in parity.reward.parameters())
    assert head == 968_867
    assert sum(p.numel() for p in parity.parameters()) - head == 68_135_877


def test_arithmetic_of_the_original(parity):
    """11.09 GFLOP forward, told bits and reward head included; odd sizes come back from the halvings."""
    assert parity.net.sizes == [(105, 80), (52, 40), (26, 20), (13, 10), (6, 5), (3, 2)]
    odd = [layer.conv.output_padding for layer in parity.net.up]
    assert odd == [(0, 1), (1, 0), (0, 0), (0, 0), (1, 0)]
    net = parity.net.eval()
    with FlopCounterMode(display=False) as counter:
        found = net(
            torch.empty(1, 12, 105, 80, device="meta"),
            torch.zeros(1, dtype=torch.long, device="meta"),
            None,
            1.0,
            0.0,
            None,
        )
        parity.frame_logits(found), parity.reward(found.mid, found.fin)
    without_bits = counter.get_total_flops() / 1e9
    assert without_bits == pytest.approx(11.08, abs=0.02)  # the LSTM's sixteen steps are below a hundredth


@pytest.mark.parametrize("timing", [True, False])
def test_without_timing_a_thing_is_foretold_alike_wherever_it_is(timing):
    torch.manual_seed(0)
    recipe = partial(
        NextFramePredictor,
        **{"colors": 5, **SMALL, "bottleneck_bits": 0, "dropout": 0.0, "timing_signal": timing},
    )
    world = recipe(spec(height=64, width=64)).eval()
    here = torch.zeros(1, 4, 64, 64, dtype=torch.uint8)
    here[:, :, 28:30, 28:30] = 3
    there = here.roll((4, 8), (2, 3))  # by whole cells of the smallest map
    with torch.no_grad():
        told = [world.frame_logits(world.features(stack, torch.tensor([1]))) for stack in (here, there)]
    moved = told[0].roll((4, 8), (-2, -1))[..., 24:-16, 24:-16]
    near = torch.allclose(moved, told[1][..., 24:-16, 24:-16], atol=0.02)
    assert near is not timing


def test_the_palette_costs_less():
    with torch.device("meta"):
        world = NextFramePredictor(spec(1, 105, 80))
    assert world.logits.out_channels == 128 and world.net.embed.in_channels == 4 * 12


def test_timing_signal_by_hand():
    signal = timing_signal(8, 3, 2)[0]  # two timescales: 1 and 1e4
    assert signal[0, :, 0].tolist() == pytest.approx([math.sin(y) for y in range(3)], abs=1e-6)
    assert signal[2, :, 1].tolist() == pytest.approx([math.cos(y) for y in range(3)], abs=1e-6)
    assert signal[4, 0].tolist() == pytest.approx([math.sin(x) for x in range(2)], abs=1e-6)
    assert signal[1, :, 0].tolist() == pytest.approx([math.sin(y * 1e-4) for y in range(3)], abs=1e-6)


def test_attention_weighs_space_and_not_channels():
    """A map that looks at one place returns the channels there; the original mixed places and heads up."""
    attend = MeanAttention(2, 10)
    torch.nn.init.zeros_(attend.maps.bias)
    attend.maps.weight.data.zero_()
    attend.maps.weight.data[0, 0] = 100.0  # head 0: wherever channel 0 is large
    attend.out.weight.data.copy_(torch.eye(10))
    attend.out.bias.data.zero_()
    x = torch.zeros(1, 2, 3, 4)
    x[0, 0, 1, 2], x[0, 1, 1, 2], x[0, 1, 0, 0] = 1.0, 7.0, 5.0
    found = attend(x)[0]
    assert found[:2].tolist() == pytest.approx([1.0, 7.0], abs=1e-4)
    assert found[2:4].tolist() == pytest.approx([1 / 12, 1.0]) == found[8:].tolist()


@given(st.lists(st.integers(0, 255), min_size=1, max_size=6))
def test_symbols_are_bits(numbers):
    symbols = torch.tensor([numbers])
    bits = to_bits(symbols)
    assert set(bits.unique().tolist()) <= {-1.0, 1.0} and torch.equal(to_symbols(bits), symbols)


def test_bits_go_from_soft_to_hard():
    torch.manual_seed(0)
    logits = torch.randn(50, 64, requires_grad=True)
    soft, hard = training_bits(logits, 0.1, 0.0), training_bits(logits, 0.1, 1.0)
    assert not torch.isclose(soft.abs(), torch.ones(())).any() and torch.allclose(hard.abs(), torch.ones(()))
    turned = (hard * logits.sign() < 0)[logits.abs() > 0.4].float().mean()  # beyond the noise's bound
    assert 0.07 < turned < 0.13
    hard.sum().backward()
    assert logits.grad.abs().sum() > 0


def test_imagination_repeats_itself_without_dropout_and_by_its_generator():
    torch.manual_seed(0)
    world = small(reward_net=SpatialRewardNet, predict_termination=True).eval()
    world.latent_anneal.fill_(1.0)
    stack, action = stacks(), torch.tensor([0, 1, 2])
    draws = [torch.Generator().manual_seed(seed) for seed in (1, 1, 2)]
    one, same, other = (world.features(stack, action, generator=g) for g in draws)
    assert torch.equal(one.fin, same.fin) and not torch.equal(one.fin, other.fin)
    told = world.predict_step(stack, action, None, None, draws[0])
    assert told.frame.dtype == torch.uint8 and told.frame.shape == (3, 1, 12, 10)
    assert set(told.reward.tolist()) <= {-1.0, 0.0, 1.0} and told.terminated.dtype == torch.bool


def test_bits_stay_out_until_they_are_learned():
    world = small().eval()
    draws = [torch.Generator().manual_seed(seed) for seed in (1, 2)]
    one, other = (world.features(stacks(), torch.tensor([0, 1, 2]), generator=g) for g in draws)
    assert world.latent_anneal == 0 and one.fin.shape == other.fin.shape
    stack = stacks()
    one, other = (world.features(stack, torch.tensor([0, 1, 2]), generator=g) for g in draws)
    assert torch.equal(one.fin, other.fin)


def test_latent_is_used_for_a_sample_or_not_at_all():
    torch.manual_seed(0)
    world = small(dropout=0.0, residual_dropout=0.0, norm="layer").train()
    stack, action, target = stacks(64), torch.zeros(64, dtype=torch.long), stacks(64)[:, :1]
    without = world.features(stack, action, None, target, 0.0).mid
    used = (world.features(stack, action, None, target, 1.0).mid != without).flatten(1)
    share = used.any(1).float().mean()
    assert 0.65 < share < 0.95 and (used.float().mean(1)[used.any(1)] > 0.9).all()


def test_memory_is_filled_from_the_past_and_empty_before_an_episode():
    torch.manual_seed(0)
    world = small(recurrent_state_size=3).eval()
    past = torch.stack([stacks(), stacks()], 1)
    actions = torch.zeros(3, 2, dtype=torch.long)
    none = world.warm_up_state(past, actions, torch.zeros(3, 2, dtype=torch.bool))
    assert none.shape == (3, 3, 12, 10) and not none.any()
    last = world.warm_up_state(past, actions, torch.tensor([[False, True]] * 3))
    both = world.warm_up_state(past, actions, torch.ones(3, 2, dtype=torch.bool))
    assert last.any() and not torch.equal(last, both)
    with torch.no_grad():
        step = world.next_state(None, world.features(past[:, 1], actions[:, 1]))
    assert torch.equal(step, last)
    stack = stacks()
    fin = [world.features(stack, actions[:, 0], state).fin for state in (None, both)]
    assert not torch.equal(*fin)


@settings(max_examples=10, deadline=None)
@given(st.integers(4, 21), st.integers(4, 21), st.integers(1, 2), st.sampled_from(["layer", "instance"]))
def test_any_size_comes_back(height, width, levels, norm):
    world = partial(
        NextFramePredictor,
        colors=3,
        base_channels=4,
        compress_steps=levels,
        filter_double_steps=1,
        bottleneck_bits=8,
        latent_filters=(4, 4),
        norm=norm,
        reward_net=SpatialRewardNet,
    )
    if norm == "instance" and max(height, width) >> levels == 1:
        with pytest.raises(ConfigError, match="more than one pixel"):
            world(spec(1, height, width))
        return
    made = world(spec(1, height, width)).train()
    stack = torch.randint(3, (2, 4, height, width), dtype=torch.uint8)
    found = made.features(stack, torch.tensor([0, 1]), None, stack[:, :1], 0.5)
    assert made.frame_logits(found).shape == (2, 3, 1, height, width)
    assert made.reward(found.mid, found.fin).shape == (2, 3)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"compress_steps": 4}, "at most 3 fit"),
        ({"bottleneck_bits": 12}, "multiple of 8"),
        ({"norm": "batch"}, "layer or instance"),
        ({"reward_net": torch.nn.Linear}, "only RewardNet may stand"),
        ({"base_channels": 0}, "at least 1"),
        ({"colors": 300}, "at most 256"),
    ],
)
def test_senseless_sizes_are_refused(given, told):
    with pytest.raises(ConfigError, match=told):
        small(**given)


def test_world_of_another_game_is_refused():
    world = small()
    world.check_compatible(spec(), "here")
    with pytest.raises(ConfigError, match="a world of rl/Catch-v0; this run plays ALE/Pong-v5"):
        world.check_compatible(spec()._replace(env_id="ALE/Pong-v5"), "here")
    with pytest.raises(ConfigError, match="3 actions"):
        world.check_compatible(spec(actions=4), "here")


def reference_adafactor(params, grads_of, steps):
    """Adafactor as the original's copy computes it: relative steps, factored over the last two axes."""
    state = [{} for _ in params]
    for t in range(1, steps + 1):
        beta = 1.0 - t**-0.8
        for p, g, s in zip(params, grads_of(), state, strict=True):
            square = g * g + 1e-30
            if g.ndim >= 2:
                s["row"] = s.get("row", 0.0) * beta + (1 - beta) * square.mean(-1)
                s["column"] = s.get("column", 0.0) * beta + (1 - beta) * square.mean(-2)
                row = (s["row"] / s["row"].mean(-1, keepdim=True)).rsqrt()[..., None]
                update = g * row * s["column"].rsqrt()[..., None, :]
            else:
                s["all"] = s.get("all", 0.0) * beta + (1 - beta) * square
                update = g * s["all"].rsqrt()
            update = update / max(1.0, float(update.square().mean().sqrt()))
            rate = max(1e-3, float(p.square().mean().sqrt())) * min(0.01, t**-0.5)
            p.data.sub_(rate * update)


@pytest.mark.parametrize("scale", [1.0, 0.01])
def test_adafactor_is_the_originals(scale):
    """Also where gradients are small, which torch's own default eps does not survive."""

    def net():
        torch.manual_seed(3)
        return torch.nn.Sequential(
            torch.nn.Conv2d(2, 6, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(54, 4)
        )

    torch.manual_seed(0)
    x, y = torch.randn(16, 2, 5, 5), torch.randint(4, (16,))
    ours, theirs = net(), net()
    optimizer = Adafactor(ours.parameters(), 0.01)

    def grads(model):
        return torch.autograd.grad(scale * F.cross_entropy(model(x), y), list(model.parameters()))

    for _ in range(100):
        for p, g in zip(ours.parameters(), grads(ours), strict=True):
            p.grad = g
        optimizer.step()
    reference_adafactor(list(theirs.parameters()), lambda: grads(theirs), 100)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert (p - q).abs().max() < 1e-6


def test_adafactor_moves_as_torchs_and_shares_its_checkpoints():
    """Kernels of convolutions, a wide matrix, a vector, and a weight that is laid out channels-last."""

    def weights():
        torch.manual_seed(1)
        shapes = [(6, 5, 4, 4), (7, 3, 3, 3), (90, 70), (11,), (8, 4, 4, 4)]
        found = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
        found[-1].data = found[-1].data.to(memory_format=torch.channels_last)
        return found

    ours, theirs = weights(), weights()
    mine = Adafactor(ours, 0.01, weight_decay=0.01)
    peer = torch.optim.Adafactor(theirs, 0.01, eps=(1e-15, 1e-3), weight_decay=0.01, foreach=False)
    for step in range(30):
        for p, q in zip(ours, theirs, strict=True):
            p.grad = torch.randn(p.shape) * 10.0 ** -(step % 4)
            q.grad = p.grad.clone()
        mine.step()
        peer.step()
        if step == 15:
            peer.load_state_dict(copy.deepcopy(mine.state_dict()))
    for p, q in zip(ours, theirs, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [(40, 30), (5, 4)])
@pytest.mark.parametrize("affine", [True, False])
def test_norm_over_space_is_the_same_without_gradients(size, affine):
    torch.manual_seed(0)
    norm = make_norm("instance", 6, affine)
    for p in norm.parameters():
        p.data.normal_()
    x = (3.0 + 2.0 * torch.randn(2, 6, *size)).to(memory_format=torch.channels_last)
    expected = norm(x)
    with torch.no_grad():
        found = norm(x)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert found.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("odd", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_doubling_by_quarters_is_the_transposed_convolution(odd):
    torch.manual_seed(0)
    layer, x = UpsampleConv(5, 3, odd), torch.randn(2, 5, 4, 6)
    expected = layer(x)
    layer.prepare()
    with torch.no_grad():
        found = layer(x)
    assert found.shape[-2:] == (8 + odd[0], 12 + odd[1]) and bool(layer.quarters) == any(odd)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_pages_are_kept_where_the_system_can():
    assert set_malloc_thresholds() == sys.platform.startswith("linux")
