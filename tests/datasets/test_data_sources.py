"""Names, folders, references, downloads, Minari: where data come from and what they are measured by."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
from data_files import make_rows, write

from rl_lightning.datasets import load_dataset, normalized_score
from rl_lightning.datasets.d4rl_files import D4RL_FILES
from rl_lightning.datasets.data_files import d4rl_file, data_dir, locate
from rl_lightning.datasets.formats.minari_reader import get_minari
from rl_lightning.datasets.references import d4rl_reference
from rl_lightning.datasets.rows.checks import examine
from rl_lightning.datasets.summary import data_folders, dataset_name
from rl_lightning.errors import DataError


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("RL_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("D4RL_DATASET_DIR", str(tmp_path / "d4rl"))
    (tmp_path / "d4rl").mkdir()
    return tmp_path


def hopper_rows() -> dict[str, np.ndarray]:
    return make_rows([5, 4], [True, False], 11, 3)


@pytest.mark.parametrize(
    ("name", "ret", "score"),
    [
        ("d4rl/hopper-medium-v2", 3234.3, 100.0),
        ("hopper-medium-v2", -20.272305, 0.0),
        ("walker2d-random-v0", (1.629008 + 4592.3) / 2, 50.0),
        ("antmaze-umaze-v2", 0.25, 25.0),
        ("ant-medium-v2", 3879.7, 100.0),
        ("maze2d-umaze-v1", 161.86, 100.0),
        ("maze2d-umaze-dense-v1", 193.66285642381482, 100.0),
        ("kitchen-complete-v0", 1.0, 25.0),
    ],
)
def test_normalized_scores(name, ret, score):
    assert normalized_score(name, ret) == pytest.approx(score)


def test_unknown_references():
    with pytest.raises(DataError, match="no reference returns"):
        normalized_score("cartpole-medium-v0", 1.0)
    assert d4rl_reference("hopper_medium-v2.hdf5").high == 3234.3


def test_data_folder_is_outside_of_the_checkout(monkeypatch, tmp_path):
    monkeypatch.delenv("RL_DATA_DIR")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    assert data_dir() == tmp_path / "xdg" / "rl_lightning" / "data"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_dir() == tmp_path / ".local" / "share" / "rl_lightning" / "data"


def test_d4rl_files_are_found_in_either_folder(folders):
    assert d4rl_file("d4rl/hopper-medium-replay-v2") == "hopper_medium_replay-v2.hdf5"
    assert len(D4RL_FILES) == 91 and D4RL_FILES["antmaze-umaze-v2"][1].startswith("Ant_maze_u-maze")
    weights = {"algorithm": b"SAC", "iteration": 9, "policy/fc0/weight": np.ones((256, 11))}
    write(folders / "d4rl" / "hopper_medium-v2.hdf5", hopper_rows(), weights)
    data = load_dataset("d4rl/hopper-medium-v2")
    assert data.about["algorithm"] == "SAC" and data.about["iteration"] == 9
    assert "policy/fc0/weight" not in data.about
    assert (
        data.spec.env_id == "Hopper-v5"
        and data.reference.kind == "D4RL"
        and data.spec.max_episode_steps == 1000
    )
    assert "Hopper-v5" in data.about["evaluation"]
    own = folders / "data" / "d4rl"
    own.mkdir(parents=True)
    write(own / "hopper_medium-v2.hdf5", hopper_rows())
    assert locate("d4rl/hopper-medium-v2").path.parent == own
    names = [row["name"] for shelf in data_folders() for row in shelf.files]
    assert names == ["d4rl/hopper-medium-v2"] * 2


@pytest.mark.parametrize(
    ("name", "steps", "reference"),
    [
        ("hopper-medium-replay-v0", 1000, 3234.3),
        ("walker2d-medium-replay-v0", 1000, 4592.3),
        ("halfcheetah-full-replay-v2", 1000, 12135.0),
        ("antmaze-large-diverse-v0", 1000, 1.0),
        ("antmaze-umaze-v2", 700, 1.0),
        ("pen-human-v0", 100, 3076.8331017826877),
        ("door-cloned-v0", 200, 2880.5693087298737),
        ("hammer-expert-v1", 200, 12794.134825156867),
        ("relocate-human-v1", 200, 4233.877797728884),
        ("kitchen-mixed-v0", 280, 4.0),
        ("maze2d-medium-v1", 600, 277.39),
        ("maze2d-large-dense-v1", 800, 303.4857382709002),
    ],
)
def test_every_family_of_d4rl_is_read_by_the_name_of_its_server(folders, name, steps, reference):
    file = D4RL_FILES[name][1]
    write(folders / "d4rl" / file, make_rows([5, 4], [True, False]))
    data = load_dataset(f"d4rl/{name}")
    assert data.spec.max_episode_steps == steps and data.reference.high == reference
    assert dataset_name(folders / "d4rl" / file) == f"d4rl/{name}"


def test_all_families_have_references():
    assert all(d4rl_reference(name) is not None for name in D4RL_FILES)
    files = [file for _, file in D4RL_FILES.values()]
    assert len(set(files)) == len(files), "one folder holds them all"


def test_d4rl_actions_are_clipped_and_told(folders):
    rows = hopper_rows()
    rows["actions"][2, 0] = 1.5
    write(folders / "d4rl" / "hopper_medium-v2.hdf5", rows)
    data = load_dataset("d4rl/hopper-medium-v2")
    assert data.action.max() == 1 and data.about["read/actions"].startswith("1 rows clipped")


def test_shelves_tell_of_damaged_files(folders):
    (folders / "data" / "local").mkdir(parents=True)
    (folders / "data" / "local" / "bad.hdf5").write_bytes(b"x")
    good = write(folders / "data" / "local" / "good.hdf5", hopper_rows())
    bad, fine = data_folders()[0].files
    assert "damaged" in bad["note"] and bad["rows"] is None
    assert (fine["rows"], fine["episodes"]) == (9, 2) and dataset_name(good) == "local/good"


def topics(path: Path) -> dict[str, tuple[bool, str]]:
    return {finding.topic: (finding.bad, finding.text) for finding in examine(locate(str(path)))}


def test_check_finds_shifted_next_observations(tmp_path):
    rows = make_rows([6, 5, 7, 4], [True, False, True, True])
    good = topics(write(tmp_path / "good.hdf5", rows))
    assert not any(bad for bad, _ in good.values()) and good["teleports"][1].startswith("0 of 3")
    rows["next_observations"][:-1] = rows["observations"][1:]
    bad, text = topics(write(tmp_path / "shifted.hdf5", rows))["teleports"]
    assert bad and text.startswith("3 of 3") and "shifted" in text


def test_check_finds_jumps_nans_actions_and_lone_episodes(tmp_path):
    rows = make_rows([9], [False])
    rows["next_observations"][4] += 5
    rows["observations"][2, 2] = np.nan
    rows["actions"][0] = 3
    found = topics(write(tmp_path / "bad.hdf5", rows))
    assert {topic for topic, (bad, _) in found.items() if bad} == {"values", "jumps", "actions"}
    assert "'observations' in 1 rows, first 2" in found["values"][1]
    one = make_rows([9], [False])
    bad, text = topics(write(tmp_path / "one.hdf5", one))["episodes"]
    assert not bad and "--data.split transition" in text, (
        "a policy can be trained; models need a second episode"
    )


@pytest.mark.parametrize(("scale", "bad"), [(1.0, False), (3.0, True)])
def test_check_finds_observations_that_a_filter_scaled(tmp_path, scale, bad):
    rows = make_rows([6, 5], [False, False], 3, 1)
    angle = np.linspace(0, 3, 11)
    rows["observations"] = scale * np.stack([np.cos(angle), np.sin(angle), angle], 1).astype(np.float32)
    del rows["next_observations"]
    found = topics(write(tmp_path / "a.hdf5", rows, {"env_id": "Pendulum-v1"}))
    assert ("observed" in found) == bad and (
        not bad or "none that Pendulum-v1 observes" in found["observed"][1]
    )
    assert "observed" not in topics(write(tmp_path / "b.hdf5", rows, {"env_id": "os:path-v0"}))


def test_check_asks_the_termination_rule(tmp_path):
    rows = make_rows([6, 5], [True, False], 11, 3)
    for key in ("observations", "next_observations"):
        rows[key][:, 1] = rows[key][:, 1] * 1e-3  # angle: never fallen
        rows[key][:, 0] = 1.2
    metadata = {"env_id": "Hopper-v5"}
    bad, text = topics(write(tmp_path / "a.hdf5", rows, metadata))["rule"]
    assert bad and "misses 1 terminals" in text
    rows["next_observations"][5, 0] = 0.3
    assert not topics(write(tmp_path / "b.hdf5", rows, metadata))["rule"][0]


def test_minari_fetches_its_own(monkeypatch, tmp_path):
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    asked = []

    def download(name):
        asked.append(name)
        if name == "no/such-v0":
            raise ValueError("not on the server")
        (tmp_path / "minari" / name / "data").mkdir(parents=True)
        (tmp_path / "minari" / name / "data" / "metadata.json").write_text("{}")

    monkeypatch.setattr(minari, "download_dataset", download)
    assert get_minari("a/b-v0").startswith(str(tmp_path / "minari" / "a")) and asked == ["a/b-v0"]
    with pytest.raises(DataError, match=r"could not fetch it \(not on the server\)"):
        get_minari("no/such-v0")


def test_minari(tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    import gymnasium

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    with pytest.raises(DataError, match="rl data get minari/test/pendulum-v0"):
        load_dataset("minari/test/pendulum-v0")
    from minari.data_collector import EpisodeBuffer

    env, buffers = gymnasium.make("Pendulum-v1"), []
    env.action_space.seed(0)
    for seed in range(3):
        obs, actions = [env.reset(seed=seed)[0]], [env.action_space.sample() for _ in range(20)]
        rewards = []
        for action in actions:
            following, reward, *_ = env.step(action)
            obs.append(following)
            rewards.append(float(reward))
        flags = [False] * 20
        buffers.append(
            EpisodeBuffer(
                seed, seed, None, np.array(obs), np.array(actions), rewards, flags, [*flags[1:], True], None
            )
        )
    minari.create_dataset_from_buffers("test/pendulum-v0", buffers, env=env)
    env.close()
    data = load_dataset("minari/test/pendulum-v0")
    assert data.spec.env_id == "Pendulum-v1" and data.lengths().tolist() == [20] * 3
    assert data.action.abs().max() <= 1 and data.action.abs().max() > 0.8 and data.spec.action_high == (2.0,)
    assert (data.next_obs[:19] == data.obs[1:20]).all() and len(data.sha256) == 64
    (listed,) = (row for shelf in data_folders() for row in shelf.files)
    assert (listed["name"], listed["rows"], listed["episodes"]) == ("minari/test/pendulum-v0", 60, 3)
    few = SimpleNamespace(available=1000)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: few)
    with pytest.raises(DataError, match="minari/test/pendulum-v0: unpacks to"):
        load_dataset("minari/test/pendulum-v0")
