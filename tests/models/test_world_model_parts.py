"""The parts of World Models: sizes of the paper, what each sees, and what a population of controllers does."""

import pytest
import torch

from rl_lightning.errors import ConfigError
from rl_lightning.models.world_models.controller import Controller
from rl_lightning.models.world_models.episode_store import Recording
from rl_lightning.models.world_models.image_vae import ImageVAE, check_frames
from rl_lightning.models.world_models.mdn_rnn_net import LOG_STD_MAX, LOG_STD_MIN, MDNRNNNet
from rl_lightning.models.world_models.vision_memory import VisionMemoryModel, action_input
from rl_lightning.types import EnvSpec

CAR = EnvSpec("car", (3, 64, 64), "uint8", "continuous", (3,))
DODGE = EnvSpec("dodge", (1, 64, 64), "uint8", "discrete", (), (3,))


def count(module: torch.nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


def test_the_paper_s_sizes():
    assert count(ImageVAE()) == 4_348_547
    assert count(MDNRNNNet(predict_reward=False, predict_termination=False)) == 422_368
    assert Controller(32 + 256, CAR).size == 867
    one = EnvSpec("doom", (3, 64, 64), "uint8", "continuous", (1,))
    assert Controller(64 + 2 * 512, one).size == 1_088 + 1, "the paper's 1,088 have no bias"


def test_frames_of_bytes_and_of_numbers_are_seen_alike():
    net, frames = ImageVAE(1, 4, 2), torch.randint(0, 256, (2, 1, 64, 64), dtype=torch.uint8)
    from_bytes, from_numbers = net(frames), net(frames.float() / 255.0)
    assert torch.equal(from_bytes.mean, from_numbers.mean)
    whole = net.encode_all(frames)
    assert torch.allclose(whole.mean, from_bytes.mean) and torch.allclose(whole.log_var, from_bytes.log_var)
    assert net.decode(from_bytes.mean).shape == frames.shape


def test_only_frames_of_64_are_taken():
    assert check_frames((3, 64, 64), "uint8", "VAE") == 3
    for shape, kind in (((3, 32, 32), "uint8"), ((4,), "float32")):
        with pytest.raises(ConfigError, match="64 x 64 bytes"):
            check_frames(shape, kind, "VAE")


@pytest.mark.parametrize("joint", [False, True])
def test_unrolling_is_stepping(joint):
    torch.manual_seed(0)
    net = MDNRNNNet(4, 2, 8, 3, joint)
    code, action = torch.randn(3, 5, 4), torch.randn(3, 5, 2)
    out, last = net.unroll(code, action, net.initial_carry(3))
    carry = net.initial_carry(3)
    for t in range(5):
        carry = net.step(code[:, t], action[:, t], carry)
        assert torch.allclose(out[:, t], carry[0], atol=1e-6)
    assert torch.allclose(last[1], carry[1], atol=1e-6)
    guess = net.predict(out)
    assert guess.reward.shape == guess.terminated.shape == (3, 5)
    assert net.log_prob(guess, torch.randn(3, 5, 4)).shape == (3, 5)


def test_widths_of_the_mixture_are_bounded():
    net = MDNRNNNet(4, 2, 8, 3)
    with torch.no_grad():
        net.head.bias.fill_(100.0)
    assert net.predict(torch.zeros(1, 8)).log_std.max() == LOG_STD_MAX
    with torch.no_grad():
        net.head.bias.fill_(-100.0)
    assert net.predict(torch.zeros(1, 8)).log_std.min() == LOG_STD_MIN


def test_heads_can_be_left_out():
    net = MDNRNNNet(4, 2, 8, 3, predict_reward=False, predict_termination=True)
    guess = net.predict(torch.zeros(2, 8))
    assert guess.reward is None and guess.terminated.shape == (2,)


@pytest.mark.parametrize("hidden", [0, 5])
@pytest.mark.parametrize("spec", [CAR, DODGE], ids=["continuous", "discrete"])
def test_a_population_acts_as_its_members_do(spec, hidden):
    torch.manual_seed(1)
    control = Controller(6, spec, hidden)
    numbers, features = torch.randn(4, control.size), torch.randn(4, 7, 6)
    together = control(numbers, features)
    for p in range(4):
        assert torch.allclose(together[p], control(numbers[p : p + 1], features[p : p + 1])[0], atol=1e-6)
    if spec is CAR:
        assert together.abs().max() <= 1.0
        if not hidden:
            weight, bias = numbers[0, :18].view(6, 3), numbers[0, 18:]
            assert torch.allclose(together[0], torch.tanh(features[0] @ weight + bias), atol=1e-5)
    else:
        assert (together.sum(-1) == 1).all() and set(together.unique().tolist()) <= {0.0, 1.0}
        assert torch.equal(control.to_env_action(together), together.argmax(-1))
        assert torch.equal(action_input(control.to_env_action(together), spec), together)


def test_what_a_controller_sees():
    world = VisionMemoryModel(
        {"channels": 1, "latent_dim": 4, "depth": 2}, {"latent_dim": 4, "action_dim": 3, "hidden_dim": 5}
    )
    code, carry = torch.ones(2, 4), (torch.full((2, 5), 2.0), torch.full((2, 5), 3.0))
    assert world.features(code, carry, False)[0].tolist() == [1.0] * 4 + [2.0] * 5
    assert world.features(code, carry, True)[0].tolist() == [1.0] * 4 + [2.0] * 5 + [3.0] * 5
    assert world.feature_width(True) == 14


def test_a_recording_travels_as_weights():
    rows = Recording.from_spec(DODGE)
    frames = torch.arange(5, dtype=torch.uint8).reshape(5, 1, 1, 1).expand(5, 1, 64, 64).numpy()
    first = torch.tensor([1, 0, 0, 1, 0], dtype=torch.bool)
    flags = {"terminated": ~first, "truncated": ~first, "is_first": first}
    rows.append(
        {"obs": frames, "action": torch.arange(5).numpy(), "reward": torch.ones(5).numpy()}
        | {name: flag.numpy() for name, flag in flags.items()}
    )
    part = rows.exported("")
    again = Recording(**part.init_args)
    again.load_state_dict(rows.state_dict())
    assert len(again) == 5 and again.episodes == 2
    window = again.windows(torch.tensor([1, 3]), 2)
    assert window.obs[:, :, 0, 0, 0].tolist() == [[1, 2], [3, 4]]
    assert window.action.tolist() == [[1, 2], [3, 4]] and window.is_first.tolist() == [
        [False, False],
        [True, False],
    ]
