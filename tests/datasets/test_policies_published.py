"""Published policies act as the run they come from; a replay becomes rows in the order they were played."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from rl_lightning.algorithms.online.sac import SAC
from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.datasets.formats.replay_rows import replay_rows
from rl_lightning.datasets.local_recipes import LocalRecipe, make_sparse, parse_recipe, sparse_rows
from rl_lightning.datasets.published_policies import PublishedPolicy, local_references, publish, read_about
from rl_lightning.errors import DataError
from rl_lightning.nn.mlp import MLP
from rl_lightning.replay.ring import RingBuffer
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.types import EnvSpec, Steps

SPEC = EnvSpec("Some-v0", (3,), action_shape=(2,), action_low=(-1.0, -1.0), action_high=(1.0, 1.0))


def checkpoint(tmp_path, **options):
    module = SAC(SPEC, **options)
    path = tmp_path / "best.ckpt"
    torch.save({"state_dict": module.state_dict(), "env_step": 7}, path)
    return module, path


@pytest.mark.parametrize(("activation", "norm"), [("relu", False), ("tanh", False), ("relu", True)])
def test_a_published_policy_acts_like_its_run(tmp_path, activation, norm):
    module, path = checkpoint(
        tmp_path,
        network=partial(MLP, hidden_dims=[16, 8], activation=activation, layer_norm=norm),
        critic_hidden_dims=[8],
    )
    file = publish(
        path, tmp_path / "x.safetensors", {"env_id": "Some-v0", "level": "medium", "activation": activation}
    )
    policy = PublishedPolicy.load(file)
    obs = torch.randn(5, 3)
    with torch.no_grad():
        for seed in (None, 3):
            explore = [torch.Generator().manual_seed(seed) if seed else None for _ in range(2)]
            assert torch.equal(policy.act(obs, explore[0]), module.act(obs, (), explore[1])[0])
    about = read_about(file)
    assert about["hidden_dims"] == [16, 8] and about["obs_dim"] == 3 and about["action_dim"] == 2
    assert about["algorithm"] == "SAC" and file.stat().st_size < 10_000 and len(policy.sha256) == 64


def test_only_sac_actors_are_published(tmp_path):
    torch.save({"state_dict": {"policy.weight": torch.ones(2)}}, tmp_path / "x.ckpt")
    with pytest.raises(DataError, match="no SAC actor"):
        publish(tmp_path / "x.ckpt", tmp_path / "y.safetensors", {})
    _, path = checkpoint(
        tmp_path, network=partial(MLP, hidden_dims=[1000, 1000], activation="relu"), critic_hidden_dims=[8]
    )
    with pytest.raises(DataError, match="less than 1"):
        publish(path, tmp_path / "y.safetensors", {})
    assert not (tmp_path / "y.safetensors").exists()


def test_damaged_policies_are_refused(tmp_path):
    (tmp_path / "x.safetensors").write_bytes(b"nothing")
    with pytest.raises(DataError, match="not a published policy"):
        PublishedPolicy.load(tmp_path / "x.safetensors")


def test_local_references(tmp_path, monkeypatch):
    monkeypatch.setenv("RL_DATA_DIR", str(tmp_path))
    _, path = checkpoint(tmp_path, network=partial(MLP, hidden_dims=[8]), critic_hidden_dims=[8])
    assert local_references("some") is None
    publish(path, tmp_path / "policies" / "some-medium.safetensors", {"return": 50.0, "random_return": 10.0})
    assert local_references("some") is None
    publish(path, tmp_path / "policies" / "some-expert.safetensors", {"return": 110.0})
    assert local_references("some") == (10.0, 110.0, "local")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("local/hopper-medium", LocalRecipe("hopper", "medium")),
        ("local/hopper-medium-expert", LocalRecipe("hopper", "medium-expert")),
        ("local/hopper-expert-narrow", LocalRecipe("hopper", "expert", "narrow")),
        ("local/my-env-medium-replay-sparse", LocalRecipe("my-env", "medium-replay", "sparse")),
    ],
)
def test_names_of_local_data(name, expected):
    assert parse_recipe(name) == expected


def test_names_that_say_nothing():
    with pytest.raises(DataError, match="does not say what to record"):
        parse_recipe("local/hopper-medum")


def play(num_envs: int, steps: int, lengths: int) -> Steps:
    """Observation = (env, time, episode): what follows a row can be told by looking."""
    time = np.arange(steps)[:, None].repeat(num_envs, 1)
    env = np.arange(num_envs)[None].repeat(steps, 0)
    obs = np.stack([env, time % lengths, time // lengths], -1).astype(np.float32)
    ended = time % lengths == lengths - 1
    terminated = ended & (time // lengths % 2 == 0)
    ends = [(int(t), int(n), obs[t, n] + [0, 1, 0]) for t, n in np.argwhere(ended)]
    last = np.stack(
        [np.arange(num_envs), np.full(num_envs, steps % lengths), np.full(num_envs, steps // lengths)], -1
    )
    action = np.zeros((steps, num_envs, 2), np.float32)
    first = time % lengths == 0
    return Steps(
        obs,
        action,
        time.astype(np.float32),
        terminated,
        ended & ~terminated,
        first,
        last.astype(np.float32),
        ends,
    )


@pytest.mark.parametrize("capacity", [60, 24])
def test_replay_rows_are_sorted_by_env(tmp_path, capacity):
    """Saved twice, so that there are two segments; a small ring has overwritten its oldest rows."""
    buffer, store = RingBuffer(SPEC, 3, capacity), SegmentStore(tmp_path)
    whole = play(3, 20, 4)
    for part in (slice(0, 8), slice(8, 20)):
        last = whole.obs[part.stop] if part.stop < 20 else whole.last_obs
        ends = [(t - part.start, n, obs) for t, n, obs in whole.ends if part.start <= t < part.stop]
        fields = [field[part] for field in whole[:6]]
        buffer.add(Steps(*fields, last, ends))
        saved = buffer.save(store)
    arrays = replay_rows(saved, store, SPEC, 3, "x").arrays
    rows = min(60, capacity)
    assert len(arrays["rewards"]) == rows and arrays["observations"][:, 0].tolist() == sorted(
        arrays["observations"][:, 0].tolist()
    )
    following = arrays["next_observations"] - arrays["observations"]
    assert (following == [0, 1, 0]).all()
    ends = arrays["terminals"] | arrays["timeouts"]
    assert ends.sum() == 3 * (rows // 3 // 4) and ends[rows // 3 - 1]
    inside = ~ends[:-1]
    assert (arrays["next_observations"][:-1] == arrays["observations"][1:])[inside].all()


def test_a_run_without_replay_is_refused(tmp_path):
    with pytest.raises(DataError, match="no replay"):
        replay_rows({"segments": []}, SegmentStore(tmp_path), SPEC, 1, "x")


def test_sparse_thins_out_high_rewards():
    from data_files import make_rows

    from rl_lightning.datasets.formats.raw import Raw

    arrays = make_rows([50] * 40, [False] * 40)
    raw, told = make_sparse(Raw("", arrays), 1000, np.random.default_rng(0))
    limit = told["sparse_reward"]
    high = (raw.arrays["rewards"] > limit).mean()
    assert len(raw.arrays["rewards"]) == 1000 and 0.01 < high < 0.08
    ends = (raw.arrays["timeouts"] | raw.arrays["terminals"])[:-1]
    jumps = (raw.arrays["next_observations"][:-1] != raw.arrays["observations"][1:]).any(1)
    assert not (jumps & ~ends).any()  # nothing is joined across a gap
    assert 1000 <= sparse_rows(1000) * 0.73 <= 1030
    whole = raw.infos["recorded_episode"]  # fragments of one episode keep its number
    assert told["recorded_episodes"] == len(np.unique(whole)) <= 40 < ends.sum()
    assert (np.diff(whole) >= 0).all() and (np.bincount(whole) <= 50).all()


def test_fragments_of_one_episode_are_held_out_together(tmp_path):
    from data_files import make_rows

    from rl_lightning.datamodules.offline_data import OfflineData
    from rl_lightning.datasets import load_dataset
    from rl_lightning.datasets.formats.hdf5 import write_hdf5
    from rl_lightning.datasets.formats.raw import Raw

    raw, _ = make_sparse(Raw("", make_rows([50] * 40, [False] * 40)), 1000, np.random.default_rng(0))
    path = write_hdf5(tmp_path / "sparse.hdf5", raw)
    rows = load_dataset(str(path))
    assert rows.episodes > 100 and len(rows.recording.unique()) <= 40
    data = OfflineData(str(path), val_fraction=0.3)
    data.configure(RunConfig(updates=1), 0)
    train, held = data._split(rows.recording)
    assert len(held) and not set(rows.recording[train].tolist()) & set(rows.recording[held].tolist())
    whole = load_dataset(str(write_hdf5(tmp_path / "whole.hdf5", Raw("", make_rows([5, 7], [False] * 2)))))
    assert torch.equal(whole.recording, whole.episode)
