"""World models from recordings: episodes in a replay of windows, alone, first, or beside what is played."""

import numpy as np
import pytest
import torch
from contracts.artifacts import random_walks
from contracts.case import RunConfig
from contracts.families.dreamer import LAKE, dreamer

from rl_lightning.datamodules import SequenceData
from rl_lightning.datasets.in_memory import as_dataset, look_at
from rl_lightning.errors import ConfigError, DataError
from rl_lightning.replay import SequenceReplay
from rl_lightning.replay.recorded_sequences import fill_with_episodes
from rl_lightning.seeding import seed_globals
from rl_lightning.types import EnvSpec

SPEC = EnvSpec("x", (2,), action_kind="discrete", action_sizes=(3,))
LENGTHS = (4, 1, 6, 3)


def recorded(lengths=LENGTHS, **more):
    """Episode e begins with observations 100 e, 100 e + 1, ...; rewards count on; every other one terminates."""
    rows = {
        key: []
        for key in ("observations", "next_observations", "actions", "rewards", "terminals", "timeouts")
    }
    for e, length in enumerate(lengths):
        first = 100.0 * e + np.arange(length + 1)
        rows["observations"] += [[x, -x] for x in first[:-1]]
        rows["next_observations"] += [[x, -x] for x in first[1:]]
        rows["actions"] += [int(x) % 3 for x in first[:-1]]
        rows["rewards"] += list(first[1:])
        over = np.arange(length) == length - 1
        rows["terminals"] += list(over & (e % 2 == 0))
        rows["timeouts"] += list(over & (e % 2 == 1))
    arrays = {key: np.array(values) for key, values in rows.items()}
    return as_dataset({**arrays, "observations": np.float32(arrays["observations"]), **more})


@pytest.mark.parametrize("envs", [1, 2, 3])
def test_every_arrival_is_as_it_was_recorded(envs):
    buffer, rows = SequenceReplay(SPEC, envs, 2, 0, capacity=90), recorded()
    fill_with_episodes(buffer, rows, SPEC)
    assert sum(buffer.total) == rows.rows + rows.episodes
    seen = set()
    for env in range(envs):
        for t in range(buffer.total[env]):
            x = buffer.obs[env, t, 0].item()
            e, age = divmod(int(x), 100)
            seen.add((e, age))
            last = age == LENGTHS[e]
            assert bool(buffer.is_first[env, t]) == (age == 0) and buffer.age[env, t] == age
            assert buffer.reward[env, t] == (0.0 if age == 0 else x)  # of arriving here
            assert bool(buffer.terminated[env, t]) == (last and e % 2 == 0)
            assert bool(buffer.truncated[env, t]) == (last and e % 2 == 1)
            assert buffer.action[env, t] == (0 if last else int(x) % 3)
    assert seen == {(e, age) for e, length in enumerate(LENGTHS) for age in range(length + 1)}


def test_long_episodes_go_in_parts_without_a_seam():
    buffer = SequenceReplay(SPEC, 1, 3, 0, capacity=120, within_episode=True)
    fill_with_episodes(buffer, recorded((50, 7)), SPEC)
    assert buffer.total == [50 + 7 + 2] and buffer.is_first[0, :59].sum() == 2
    assert buffer.age[0, :51].tolist() == list(range(51))


def test_what_does_not_fit_says_how_large_to_make_the_buffer():
    with pytest.raises(ConfigError, match=r"14 rows in 4 episodes; the buffer holds 20.*capacity"):
        fill_with_episodes(SequenceReplay(SPEC, 1, 2, 0, capacity=20), recorded(), SPEC)


def opened(**settings):
    data = SequenceData(
        LAKE,
        num_envs=2,
        batch_size=8,
        sequence_length=6,
        train_every=4,
        train_ratio=24.0,
        dataset=random_walks(LAKE),
        **settings,
    )
    seed_globals(0)
    model = dreamer(3)(data.spec)
    data.configure(RunConfig(env_steps=200), 0)
    data.connect(model)
    data.open("fit")
    return data, model


def test_learning_starts_at_once_and_played_rows_follow():
    data, model = opened(pretrain=4, learning_starts=1000)
    before = len(data.buffer)
    assert data.learning_starts == 0 and before > 300 and data.updates_due() == 4
    block = data.next_block()
    model.training_step(block, 0)
    assert data.clock.update == 4 and data.clock.env_step == 0
    model.training_step(data.next_block(), 0)
    assert data.clock.env_step > 0 and len(data.buffer) > before


@pytest.mark.parametrize("fraction", [0.0, 0.25, 1.0])
def test_a_fraction_of_each_batch_is_drawn_from_the_recording(fraction):
    data, model = opened(dataset_fraction=fraction, pretrain=1)
    assert len(data.named("dataset")) > 300 and len(data.buffer) == 0
    model.training_step(data.next_block(), 0)
    assert data.drawn == [("dataset", 8)]  # nothing was played yet
    while not data.buffer.ready:
        model.training_step(data.next_block(), 0)
    model.training_step(data.next_block(), 0)
    batch = data.next_batch()
    recorded = round(8 * fraction)
    assert sum(n for name, n in data.drawn if name == "dataset") == recorded and batch.obs.shape[:2] == (8, 6)
    own = data.named("dataset").gather(batch.index[:recorded])
    assert torch.equal(own.obs, batch.obs[:recorded])
    played = data.buffer.gather(batch.index[recorded:])
    assert torch.equal(played.obs, batch.obs[recorded:])


def test_a_fraction_of_nothing_is_refused():
    with pytest.raises(ConfigError, match="dataset_fraction is of dataset"):
        SequenceData(LAKE, dataset_fraction=0.5)


def test_data_of_another_env_are_refused():
    with pytest.raises(DataError, match="observations have shape 2, those of rl/FrozenLake2x2-v0"):
        SequenceData(LAKE, dataset=recorded())


def test_data_without_rewards_are_refused():
    arrays = {key: value for key, value in random_walks(LAKE).items() if key != "rewards"}
    data = SequenceData(LAKE, sequence_length=4, dataset=arrays)
    data.configure(RunConfig(env_steps=200), 0)
    with pytest.raises(DataError, match="no 'rewards', which Dreamer learns from"):
        data.connect(dreamer(3)(data.spec))


def halves(tmp_path, number):
    """A part of the walks as a file."""
    whole = random_walks(LAKE)
    ends = np.flatnonzero(whole["terminals"] | whole["timeouts"]) + 1
    middle = int(ends[len(ends) // 3])
    part = slice(None, middle) if number == 0 else slice(middle, None)
    path = tmp_path / f"walks-{number}.npz"
    np.savez(path, **{key: value[part] for key, value in whole.items()})
    return str(path)


@pytest.mark.parametrize("fraction", [None, 0.5])
def test_of_several_data_sets_windows_are_drawn_by_weight(tmp_path, fraction):
    names = {halves(tmp_path, 0): 3.0, halves(tmp_path, 1): 1.0}
    data = SequenceData(
        LAKE, num_envs=2, batch_size=400, sequence_length=6, dataset=names, dataset_fraction=fraction
    )
    model = dreamer(3)(data.spec)
    data.configure(RunConfig(env_steps=200), 0)
    data.connect(model)
    data.open("fit")
    assert data.ready() and len(data.named("dataset-1")) > len(data.named("dataset")) > 60
    batch = data.next_batch()
    counts = dict(data.drawn)
    assert batch.obs.shape[:2] == (400, 6) and sum(counts.values()) == 400
    assert counts["dataset"] == pytest.approx(300, abs=40) and "replay" not in counts
    data.gather(data.random_act, 40)
    counts = dict((data.next_batch(), data.drawn)[1])
    recorded = counts["dataset"] + counts["dataset-1"]
    rows = len(data.named("dataset")) + len(data.named("dataset-1"))
    wanted = 200 if fraction else 400 * rows / (rows + len(data.buffer))
    assert recorded == pytest.approx(wanted, abs=50)


def test_a_replay_beside_a_data_set_asks_for_weights(tmp_path):
    with pytest.raises(ConfigError, match="replay/RUN: 1"):
        SequenceData(LAKE, dataset=halves(tmp_path, 0), replay_from="dreamer-1")
    with pytest.raises(ConfigError, match="must be positive"):
        SequenceData(LAKE, dataset={halves(tmp_path, 0): 0.0})
    with pytest.raises(ConfigError, match="here it is one"):
        look_at({halves(tmp_path, 0): 1.0, halves(tmp_path, 1): 1.0})
