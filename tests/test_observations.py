"""Dict observations with pictures: one row of bytes, its parts, and the networks that see them."""

from functools import partial

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from rl_lightning.algorithms import DQN, PPO, SAC, TD3_BC
from rl_lightning.datamodules import OfflineData, OnlineData, OnPolicyData
from rl_lightning.datasets import load_dataset
from rl_lightning.datasets.formats.hdf5 import write_hdf5
from rl_lightning.datasets.formats.raw import Raw
from rl_lightning.envs.make import EnvConfig, make_env, make_envs, probe_spec
from rl_lightning.envs.spaces import ObsEncoder, obs_parts
from rl_lightning.errors import ConfigError, DataError, EnvError
from rl_lightning.models.normalizers import RunningObsNorm
from rl_lightning.models.rssm.parts import MultiDecoder
from rl_lightning.nn import CNN, MLP, RNN, MultiInput, NatureCNN, SmallCNN
from rl_lightning.nn.make_torso import make_torso, network_of_pictures
from rl_lightning.observations import ObsLayout
from rl_lightning.replay import Replay
from rl_lightning.types import EnvSpec, Steps

XOR = EnvConfig("rl/Xor-v0", kwargs={"screen_size": 6})
pictures = st.builds(
    lambda h, w, c: spaces.Box(0, 255, (h, w, c) if c else (h, w), np.uint8),
    st.integers(5, 9),
    st.integers(5, 9),
    st.sampled_from([0, 1, 3]),
)
numbers = st.one_of(
    st.builds(lambda n: spaces.Box(-5.0, 5.0, (n,), np.float32), st.integers(1, 5)),
    st.builds(lambda n: spaces.Discrete(n, start=-1), st.integers(1, 4)),
    st.builds(lambda n: spaces.MultiBinary(n), st.integers(1, 3)),
)
dicts = st.lists(st.one_of(pictures, numbers), min_size=1, max_size=4).map(
    lambda leaves: spaces.Dict({f"k{9 - i}": leaf for i, leaf in enumerate(leaves)})
)


@settings(max_examples=60, deadline=None)
@given(dicts, pictures, st.integers(0, 1000))
def test_every_part_comes_back_as_it_went_in(space, picture, seed):
    space = spaces.Dict({"inner": space, "image": picture})
    space.seed(seed)
    encoder, obs = ObsEncoder(space), space.sample()
    row = encoder(obs)
    assert row.dtype == np.uint8 and row.shape == encoder.encoded.shape and len(row) % 4 == 0
    parts = encoder.layout.split(torch.from_numpy(row)[None])
    assert parts.keys() == {part.name for part in obs_parts(space)}
    for key, leaf in space["inner"].spaces.items():
        value, part = obs["inner"][key], parts[f"inner.{key}"][0].numpy()
        if isinstance(leaf, spaces.Discrete):
            assert part.argmax() == value - leaf.start and part.sum() == 1.0
        elif leaf.dtype == np.uint8 and len(leaf.shape) > 1:
            channels = np.moveaxis(value, -1, 0) if value.ndim == 3 else value[None]
            assert part.dtype == np.uint8 and np.array_equal(part, channels)
        else:
            assert part.dtype == np.float32 and np.array_equal(part, np.float32(value))


def test_a_dict_of_vectors_stays_the_row_that_it_was():
    space = spaces.Dict({"b": spaces.Box(-1, 1, (2,), np.float32), "a": spaces.Discrete(3)})
    encoder = ObsEncoder(space)
    row = encoder({"b": np.array([0.5, -0.5], np.float32), "a": 1})
    assert row.dtype == np.float32 and row.tolist() == [0, 1, 0, 0.5, -0.5]
    parts = encoder.layout.split(torch.from_numpy(row))
    assert parts["a"].tolist() == [0, 1, 0] and parts["b"].tolist() == [0.5, -0.5]


def test_a_spec_is_of_plain_values_and_a_pixel_takes_a_byte():
    spec = probe_spec(XOR)
    assert spec.is_bytes and not spec.is_pixels and spec.obs_shape == (4 * 3 + 36,)
    assert spec.obs_parts == (("image", "picture", (1, 6, 6)), ("proprio", "vector", (3,)))
    replay = Replay(spec, 2, capacity=100)
    assert replay.store.rows.shape[1] == 2 * (48 // 4) + 1 + 3


@pytest.mark.parametrize("n_step", [1, 3])
def test_replay_gives_back_the_very_bytes(n_step):
    spec = probe_spec(XOR)
    random = np.random.default_rng(0)
    obs = random.integers(0, 256, (9, 1, *spec.obs_shape), np.uint8)
    obs[:, :, 12:24] = 255  # as a number that would be NaN
    flags = np.zeros((8, 1), bool)
    steps = Steps(
        obs[:-1], np.zeros((8, 1), np.int64), np.ones((8, 1), np.float32), flags, flags, flags, obs[-1], []
    )
    replay = Replay(spec, 1, capacity=20)
    replay.add(steps)
    batch = replay.sample(64, torch.Generator().manual_seed(0), n_step, 0.9)
    for row, following, index in zip(batch.obs, batch.next_obs, batch.index.tolist(), strict=True):
        assert row.dtype == torch.uint8 and np.array_equal(row.numpy(), obs[index, 0])
        assert np.array_equal(following.numpy(), obs[min(index + n_step, 8), 0])


def test_numbers_that_are_not_finite_are_named_beside_pictures():
    envs = make_envs(XOR, 2)
    envs.reset(seed=0)
    bad = envs.envs[1].unwrapped
    plain = bad._obs
    bad._obs = lambda: plain() | {"proprio": np.array([0, np.nan, 0], np.float32)}
    with pytest.raises(EnvError, match=r"env 1\) returned nan as observation\[1\]"):
        envs.step(np.zeros(2, np.int64))


def layout(**shapes):
    kinds = {1: "vector", 3: "picture"}
    return ObsLayout.of([(name, kinds[len(shape)], shape) for name, shape in shapes.items()])


def test_encoders_are_chosen_by_the_space_and_replaced_by_name():
    named = [("image", "picture", (3, 64, 64)), ("task", "discrete", (5,)), ("grid", "picture", (1, 8, 8))]
    parts = ObsLayout.of(named)
    net = MultiInput(parts, encoders={"grid": partial(CNN, channels=[4], kernel_sizes=[3], strides=[1])})
    kinds = dict(zip(net.seen, (type(encoder).__name__ for encoder in net.encoders), strict=True))
    assert kinds == {"image": "NatureCNN", "task": "Embedding", "grid": "CNN"}
    assert net(torch.zeros(2, parts.width, dtype=torch.uint8)).shape == (2, net.out_dim)


def test_what_is_ignored_is_not_seen():
    parts = layout(image=(1, 6, 6), proprio=(3,))
    net = MultiInput(parts, ignore=["image"], trunk=partial(MLP, hidden_dims=[8]))
    rows = torch.randint(0, 256, (2, parts.width), dtype=torch.uint8)
    rows[:, :12] = rows[:1, :12] = torch.tensor([1.0, 2.0, 3.0]).view(torch.uint8)
    assert torch.equal(net(rows)[0], net(rows)[1])


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"encoders": {"imgae": MLP}}, "no part 'imgae'"),
        ({"ignore": ["x"]}, "no part 'x'"),
        ({"ignore": ["image", "proprio"]}, "leaves no part"),
        ({"encoders": {"image": RNN}}, "without memory"),
        ({"trunk": RNN}, "without memory"),
    ],
)
def test_parts_that_are_not_there_are_named(settings, word):
    with pytest.raises(ConfigError, match=word):
        MultiInput(layout(image=(1, 6, 6), proprio=(3,)), **settings)


def test_a_plain_network_stands_on_the_encoders_and_memory_behind_them():
    parts = layout(image=(1, 6, 6), proprio=(3,))
    over = make_torso(partial(MLP, hidden_dims=[7]), parts)
    assert isinstance(over, MultiInput) and over.out_dim == 7
    rows = torch.zeros(4, 2, parts.width, dtype=torch.uint8)
    memory = make_torso(partial(RNN, hidden_dim=5), parts)
    assert memory.unroll(rows, memory.initial_carry(2), torch.zeros(4, 2, dtype=torch.bool))[0].shape == (
        4,
        2,
        5,
    )


def test_one_array_is_no_dict():
    with pytest.raises(ConfigError, match="MultiInput is for Dict observations"):
        make_torso(MultiInput, (4,))


def test_what_sees_one_array_refuses_several():
    with pytest.raises(ConfigError, match="TD3_BC sees one array; rl/Xor-v0 shows 2, pictures among"):
        TD3_BC(probe_spec(XOR))


def test_a_picture_gets_a_cnn_where_nobody_says_what_sees_it():
    large = EnvSpec("p", (3, 84, 84), "uint8", action_shape=(1,))
    assert network_of_pictures(large) is NatureCNN
    assert network_of_pictures(large._replace(obs_shape=(1, 8, 8))) is SmallCNN
    assert network_of_pictures(EnvSpec("v", (4,))) is None
    with torch.device("meta"):
        weights = sum(p.numel() for p in SAC(large).parameters())
    assert weights < 10_000_000


def test_frames_as_the_env_draws_them_are_told():
    data = OnPolicyData(EnvConfig("rl/Xor-v0", kwargs={"screen_size": 160}), num_envs=1)
    assert any("160 x 160" in line and "env/image" in line for line in data.notes())
    assert not OnPolicyData(XOR, num_envs=1).notes()


def test_only_numbers_are_normed():
    parts = layout(image=(1, 6, 6), proprio=(3,))
    norm = RunningObsNorm(parts)
    numbers = torch.randn(50, 3) * 4 + 2
    rows = torch.cat((numbers.view(torch.uint8), torch.randint(0, 256, (50, 36), dtype=torch.uint8)), -1)
    norm.update(rows)
    seen = parts.split(norm(rows))
    assert torch.equal(seen["image"], parts.split(rows)["image"])
    expected = (numbers - numbers.mean(0)) / numbers.std(0, correction=0)
    torch.testing.assert_close(seen["proprio"], expected, rtol=1e-4, atol=1e-4)
    apart = norm(parts.split(rows))
    assert torch.equal(apart["proprio"], seen["proprio"]) and torch.equal(apart["image"], seen["image"])


def test_policy_and_value_have_networks_of_their_own():
    spec = EnvSpec("x", (3,), action_shape=(1,))
    agent = PPO(spec, actor_network=partial(MLP, hidden_dims=[5]), critic_network=partial(RNN, hidden_dim=6))
    assert agent.torso.out_dim == 5 and agent.value_torso.out_dim == 6 and agent.recurrent
    carry = agent.initial_carry(2)
    action, after = agent.act(torch.zeros(2, 3), carry, torch.Generator())
    assert action.shape == (2, 1) and len(after) == len(carry) == 1
    with pytest.raises(ConfigError, match="share_network"):
        PPO(spec, share_network=True, critic_network=MLP)
    sac = SAC(spec, actor_network=partial(MLP, hidden_dims=[5]), critic_network=partial(MLP, hidden_dims=[6]))
    assert sac.actor.torso.out_dim == 5 and sac.q(torch.zeros(4, 3), torch.zeros(4, 1)).shape == (2, 4)
    with pytest.raises(ConfigError, match="critic_hidden_dims"):
        SAC(spec, critic_network=MLP, critic_hidden_dims=[8])


def test_an_adapter_gives_the_row_of_a_dict():
    env = make_env(XOR)
    row, _ = env.reset(seed=3)
    raw, _ = env.unwrapped.reset(seed=3)
    assert row.shape == (48,) and env.encode(raw).shape == (48,)


@pytest.mark.slow
@pytest.mark.parametrize("hidden", ["image", "proprio"])
def test_neither_part_alone_answers(hidden):
    from lightning.pytorch import Trainer

    data = OnlineData(XOR, num_envs=4, batch_size=64, learning_starts=200, train_every=8)
    agent = DQN(data.spec, partial(MultiInput, ignore=[hidden], trunk=MLP), lr=1e-3, gamma=0.5)
    trainer = Trainer(max_steps=2000, logger=False, enable_progress_bar=False, enable_checkpointing=False)
    trainer.fit(agent, datamodule=data)
    assert trainer.validate(agent, datamodule=data, verbose=False)[0]["eval/return"] <= 0.6


@pytest.mark.parametrize(
    "parts",
    [
        "image",
        [["image", "picture", [1, 6, 7]], ["proprio", "vector", [3]]],
        [["image", "picture", [36]], ["proprio", "vector", [3]]],
        [["image", "film", [1, 6, 6]], ["proprio", "vector", [3]]],
        [["image", "picture", [1, -6, -6]], ["proprio", "vector", [3]]],
        [[["image"], "picture", None]],
    ],
)
def test_a_file_whose_parts_do_not_fit_its_rows_is_refused(parts, tmp_path):
    arrays = {"observations": np.zeros((4, 48), np.uint8), "actions": np.zeros((4, 1), np.float32)}
    ends = {"rewards": np.zeros(4), "terminals": np.zeros(4, bool), "timeouts": np.array([0, 0, 0, 1], bool)}
    write_hdf5(tmp_path / "bad.hdf5", Raw("", arrays | ends, {}, {"obs_parts": parts}))
    with pytest.raises(DataError, match="obs_parts do not fit rows of 48 bytes"):
        load_dataset(str(tmp_path / "bad.hdf5"))


def test_a_recording_holds_all_parts(tmp_path):
    random = np.random.default_rng(0)
    obs = random.integers(0, 256, (40, 48), np.uint8)
    obs[:, :12] = np.ones(3, np.float32).view(np.uint8)
    arrays = {
        "observations": obs,
        "next_observations": obs[::-1].copy(),
        "actions": np.zeros((40, 1), np.float32),
    }
    ends = {"rewards": np.zeros(40), "terminals": np.arange(40) % 10 == 9, "timeouts": np.zeros(40, bool)}
    parts = [["image", "picture", [1, 6, 6]], ["proprio", "vector", [3]]]
    write_hdf5(tmp_path / "x.hdf5", Raw("", arrays | ends, {}, {"obs_parts": parts}))
    data = OfflineData(str(tmp_path / "x.hdf5"), batch_size=16)
    assert data.spec.is_bytes and data.dataset.obs.dtype == torch.uint8
    data.open("fit")
    assert data.rows.shape[1] == 2 * 12 + 4
    batch = data.train_rows()
    assert np.array_equal(batch.obs.numpy(), obs) and np.array_equal(batch.next_obs.numpy(), obs[::-1])


@pytest.mark.parametrize(
    ("settings", "word"),
    [({"decoders": {"imgae": None}}, "decoder: .* no part 'imgae'"), ({"ignore": ["x"]}, "'x'")],
)
def test_a_decoder_names_the_parts_too(settings, word):
    with pytest.raises(ConfigError, match=word):
        MultiDecoder(8, 4, layout(image=(1, 6, 6), proprio=(3,)), **settings)
