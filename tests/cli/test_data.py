"""`rl data` as a user types it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

from rl_lightning.cli import main
from rl_lightning.datasets import load_dataset

from .conftest import Rl

SAC = """\
# SAC on Pendulum, tiny
model:
  class_path: SAC
  init_args: {network: {class_path: MLP, init_args: {hidden_dims: [8], activation: relu}}, critic_hidden_dims: [8]}
data: {class_path: OnlineData, init_args: {env: {id: Pendulum-v1}, num_envs: 2, batch_size: 8, learning_starts: 280}}
run: {env_steps: 300, eval_every: 300, eval_episodes: 1}
log: {tensorboard: false}
threads: 1
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A log folder with one short SAC run, `sac`."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "sac.yaml").write_text(SAC)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("RL_LOGS", str(folder / "logs"))
        assert main(["fit", "--config", "sac.yaml", "--name", "sac"]) == 0
    return folder / "logs"


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RL_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("D4RL_DATASET_DIR", str(tmp_path / "d4rl"))
    return tmp_path


def test_make_list_info_check(rl: Rl, folders: Path) -> None:
    assert "(empty)" in rl("data", "list").out
    made = rl("data", "make", "local/pendulum-random", "--rows", "450", "--seed", "3")
    assert made.code == 0 and "450 rows, 3 episodes" in made.out
    listed = json.loads(rl("data", "list", "--format", "json").out)
    (row,) = listed[0]["files"]
    assert row["name"] == "local/pendulum-random" and row["rows"] == 450 and row["episodes"] == 3
    assert "local/pendulum-random" in rl("data", "list").out
    info = json.loads(rl("data", "info", "local/pendulum-random", "--format=json").out)
    assert (
        info["env"] == "Pendulum-v1" and info["metadata"]["seed"] == 3 and info["metadata"]["kind"] == "local"
    )
    assert "sha256" in rl("data", "info", "local/pendulum-random").out
    checked = rl("data", "check", "local/pendulum-random")
    assert checked.code == 0 and checked.out.endswith("all is well\n")
    again = rl("data", "make", "local/pendulum-random", "--rows", "450")
    assert again.code == 3 and "is there already" in again.err
    assert rl("data", "make", "local/pendulum-random", "--rows", "100", "--force").code == 0
    assert load_dataset("local/pendulum-random").rows == 100
    with h5py.File(folders / "data" / "local" / "pendulum-random.hdf5") as file:
        assert {"observations", "actions", "rewards", "next_observations", "terminals", "timeouts"} <= set(
            file
        )


@pytest.mark.parametrize("with_next", [True, False])
def test_info_and_metadata_tell_the_same_mean_return(rl: Rl, folders: Path, with_next: bool) -> None:
    """An unfinished episode does not count, and a row that leads nowhere does."""
    made = rl("data", "make", "local/pendulum-random", "--rows", "450", "--num-envs", "1")
    assert made.code == 0
    if not with_next:
        with h5py.File(folders / "data" / "local" / "pendulum-random.hdf5", "a") as file:
            del file["next_observations"]
    info = json.loads(rl("data", "info", "local/pendulum-random", "--format=json").out)
    assert info["mean_return"] == pytest.approx(info["metadata"]["mean_return"], rel=1e-9)
    assert f"mean return {info['mean_return']:.2f}" in made.out and info["episodes"] == 3
    assert "unfinished" in info["metadata"]["read/last_episode"]
    (listed,) = json.loads(rl("data", "list", "--format", "json").out)[0]["files"]
    assert listed["mean_return"] == pytest.approx(info["mean_return"])


def test_check_of_bad_data_ends_with_3(rl: Rl, tmp_path: Path) -> None:
    rl("data", "make", "local/pendulum-random", "--rows", "450")
    path = tmp_path / "data" / "local" / "pendulum-random.hdf5"
    with h5py.File(path, "a") as file:
        file["observations"][7, 1] = np.nan
    result = rl("data", "check", "local/pendulum-random")
    assert result.code == 3 and " BAD values" in result.out and "look at: values" in result.out
    new = tmp_path / "mended.hdf5"
    assert "1 bad rows left out" in rl("data", "convert", str(path), str(new), "--drop-nonfinite").out
    assert rl("data", "check", str(new)).code == 0


def test_one_recorded_episode_is_a_note_that_says_who_needs_more(rl: Rl, tmp_path: Path) -> None:
    """Whole, or in pieces: a policy learns from it, a dynamics model holds out rows."""
    rl("data", "make", "local/pendulum-random", "--rows", "200")
    path, pieces = tmp_path / "data" / "local" / "pendulum-random.hdf5", tmp_path / "pieces.hdf5"
    with h5py.File(path, "a") as file:
        file["observations"][70, 1] = np.nan
    assert rl("data", "convert", str(path), str(pieces), "--drop-nonfinite").code == 0
    with h5py.File(path, "a") as file:
        file["observations"][70, 1] = 0.5
        file["next_observations"][69] = file["observations"][70]
    for name in (str(path), str(pieces)):
        result = rl("data", "check", name)
        assert result.code == 0 and "BAD" not in result.out and "all is well" in result.out, result.out
        assert "dynamics, density and FQE" in result.out and "--data.split transition" in result.out
    rl("data", "make", "local/pendulum-random", "--rows", "400", "--force")
    assert "2, 2 of them whole" in (two := rl("data", "check", str(path)).out) and "--data.split" not in two


BAD = {
    "rows": lambda arrays: {**arrays, "actions": arrays["actions"][:-3]},
    "NaN": lambda arrays: {
        **arrays,
        "rewards": np.where(np.arange(450) == 7, np.nan, arrays["rewards"]),
    },
    "text": lambda arrays: {**arrays, "rewards": np.array([b"x"] * 450)},
    "one episode": lambda arrays: {key: array[:100] for key, array in arrays.items()},
}


@pytest.mark.parametrize("word", BAD)
def test_bad_rows_are_refused_before_anything_is_built(rl: Rl, tmp_path: Path, word: str) -> None:
    assert rl("data", "make", "local/pendulum-random", "--rows", "450").code == 0
    with h5py.File(tmp_path / "data" / "local" / "pendulum-random.hdf5") as file:
        arrays = {key: file[key][()] for key in file if isinstance(file[key], h5py.Dataset)}
    with h5py.File(tmp_path / "bad.hdf5", "w") as file:
        for key, array in BAD[word](arrays).items():
            file[key] = array
    words = ("--data.dataset", str(tmp_path / "bad.hdf5"), "--data.env.id", "Pendulum-v1")
    config = "gormpo/stages/dynamics" if word == "one episode" else "bc/hopper-medium"
    result = rl("fit", "--config", config, *words, "--name", "bad")
    assert result.code == 3 and word in result.err and "bad.hdf5" in result.err
    assert len(result.err.splitlines()) <= 3 and " on Pendulum-v1" not in result.out + result.err
    assert not list(tmp_path.rglob("bad/config.yaml")), "a run's folder was made for nothing"


VERBS = ("list", "info", "check", "make", "convert", "get", "publish")


@pytest.mark.parametrize("words", [("data",), *(("data", verb) for verb in VERBS)], ids="-".join)
def test_its_help_fits_one_screen(rl: Rl, words: tuple[str, ...]) -> None:
    result = rl(*words, "--help")
    lines = result.out.splitlines()
    assert result.code == 0 and lines[0].startswith(f"usage: rl {' '.join(words)}")
    assert len(lines) <= 24 and max(map(len, lines)) <= 80, (len(lines), max(lines, key=len))
    assert rl("help", *words).out == result.out


def test_help_names_every_verb_and_a_wrong_option_leads_there(rl: Rl) -> None:
    text = rl("data", "--help").out
    assert all(f"\n  {verb} " in text for verb in VERBS)
    assert "see: rl data convert --help" in rl("data", "convert", "a.npz", "b.hdf5", "--zzzz", "1").err


def test_mistakes(rl: Rl) -> None:
    cases = [
        (["data"], 2, "one of: list"),
        (["data", "lst"], 2, "did you mean 'list'"),
        (["data", "info"], 2, "needs one data set"),
        (["data", "info", "local/none"], 3, "rl data make local/none"),
        (["data", "make", "hopper-medium"], 2, "below local/"),
        (["data", "make", "local/pendulum-medum"], 3, "does not say what to record"),
        (["data", "make", "local/nothing-random"], 3, "--env ID"),
        (["data", "make", "local/pendulum-medium"], 3, "rl data publish"),
        (["data", "make", "local/x-random", "--env", "Pendulm-v1"], 2, "Pendulum-v1"),
        (["data", "convert", "a.npz"], 2, "needs two files"),
        (["data", "convert", "a.npz", "b.hdf5", "--action-low", "1"], 2, "belong together"),
        (["data", "get", "local/x"], 3, "rl data make"),
        (["data", "convert", "a.npz", "b.hdf5", "--ends", "done"], 2, "truncated or terminated"),
        (["data", "convert", __file__, "b.hdf5", "--columns", "speed=x"], 2, "--columns takes"),
        (["data", "make", "ogbench/antmaze-large-navigate"], 3, "rl data get"),
        (["data", "get", "d4rl/hopper-medium-v2", "--url", "http://127.0.0.1:9/x"], 3, "is there a network"),
        (["data", "publish", "x"], 2, "--level"),
        (["data", "list", "--format", "xml"], 2, "text or json"),
        (["data", "list", "--rows", "3"], 2, "no option"),
    ]
    for words, code, text in cases:
        result = rl(*words)
        assert (result.code, text in result.err) == (code, True), (words, result)
        assert len(result.err.splitlines()) <= 3 and result.out == "", words


def test_a_fetched_file_is_not_fetched_again(rl: Rl, folders: Path) -> None:
    path = folders / "data" / "d4rl" / "walker2d_medium-v2.hdf5"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x")
    assert "is here already" in rl("data", "get", "d4rl/walker2d-medium-v2").out
    Path(f"{path}.sha256").write_text("0" * 64 + "  x\n")
    assert "damaged" in rl("data", "get", "d4rl/walker2d-medium-v2").err


def test_from_a_run(rl: Rl, trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RL_LOGS", str(trained))
    assert rl("data", "make", "local/mine", "--run", "sac", "--rows", "210", "--num-envs", "1").code == 0
    data = load_dataset("local/mine")
    assert (
        data.about["policies"][0]["run"] == "sac" and data.spec.env_id == "Pendulum-v1" and data.rows == 210
    )
    replay = rl("data", "make", "local/pendulum-medium-replay", "--run", "sac")
    assert replay.code == 0, replay.err
    rows = load_dataset("local/pendulum-medium-replay")
    assert rows.rows >= 300 and "replay buffer of run sac" in rows.about["replay"]
    assert (rows.next_obs[:-1] == rows.obs[1:]).all(1)[~rows.truncated[:-1]].all()
    assert "weights only" in rl("data", "make", "local/a-replay", "--run", "sac", "--checkpoint", "best").err


@pytest.mark.parametrize("name", ["hopper-medium-replay", "hopper-mine", "detour-pixels-x"])
def test_a_name_that_speaks_of_another_env(
    rl: Rl, trained: Path, monkeypatch: pytest.MonkeyPatch, folders: Path, name: str
) -> None:
    monkeypatch.setenv("RL_LOGS", str(trained))
    result = rl("data", "make", f"local/{name}", "--run", "sac", "--rows", "10")
    assert result.code == 2 and "but run 'sac' plays Pendulum-v1" in result.err, result
    assert len(result.err.splitlines()) == 1 and not list(folders.rglob("*.hdf5"))


def test_publish_and_record(rl: Rl, trained: Path, monkeypatch: pytest.MonkeyPatch, folders: Path) -> None:
    monkeypatch.setenv("RL_LOGS", str(trained))
    published = rl("data", "publish", "sac", "--level", "medium", "--episodes", "1")
    assert published.code == 0 and "greedy" in published.out, published.err
    policy = folders / "data" / "policies" / "pendulum-medium.safetensors"
    assert policy.stat().st_size < 5000
    shutil.copy(policy, policy.with_name("pendulum-expert.safetensors"))
    for name in ("medium", "medium-expert", "expert-narrow", "medium-replay", "medium-sparse"):
        result = rl("data", "make", f"local/pendulum-{name}", "--rows", "60", "--num-envs", "1")
        assert result.code == 0, result.err
        data = load_dataset(f"local/pendulum-{name}")
        assert data.rows == 60 and data.about["policies"][0].get("sha256"), name
    assert data.about["sparse_keep"] == 0.1
    assert load_dataset("local/pendulum-medium-expert").truncated[29]
    assert "random to medium" in load_dataset("local/pendulum-medium-replay").about["replay"]


def test_demonstrations_of_a_table_are_converted_and_imitated(rl: Rl, tmp_path: Path) -> None:
    table = tmp_path / "demos.csv"
    lines = [f"{trial},{t},{t / 9:.3f},{trial},{(-1) ** t * 3}" for trial in range(3) for t in range(9)]
    table.write_text("\n".join(["trial,t,x,y,push", *lines]))
    assert "--columns" in rl("data", "check", str(table)).err
    new = str(tmp_path / "demos.hdf5")
    columns = "observations=x,y actions=push episode=trial"
    words = ("data", "convert", str(table), new, "--columns", columns)
    assert "27 rows" in rl(*words, "--action-low", "-2", "--action-high", "2", "--clip-actions").out
    checked = rl("data", "check", new)
    assert checked.code == 0 and "no rewards" in checked.out and "no terminals" in checked.out
    refused = rl("fit", "--config", "iql/hopper-medium", "--data.dataset", new, "--name", "refused")
    assert refused.code == 3 and "no 'rewards', which IQL learns from" in refused.err
    fitted = rl(
        "fit", "--config", "bc/hopper-medium", "--data.dataset", new, "--run.updates", "4", "--name", "bc"
    )
    assert fitted.code == 0, fitted.err


def test_help_fits_one_screen(rl: Rl) -> None:
    lines = rl("data", "--help").out.splitlines()
    assert len(lines) <= 25 and max(map(len, lines)) <= 120


OWN_ENV = """\
import gymnasium
from gymnasium.envs.classic_control import PendulumEnv

gymnasium.register("own_for_data/Pendulum-v0", entry_point=PendulumEnv, max_episode_steps=20)
"""


def test_bounds_and_rows_of_an_env_of_ones_own(rl: Rl, workdir: Path, monkeypatch):
    monkeypatch.setenv("RL_DATA_DIR", str(workdir / "data"))
    (workdir / "own_for_data.py").write_text(OWN_ENV)
    rows = np.zeros((40, 3), np.float32)
    np.savez(
        "own.npz", observations=rows, actions=np.linspace(-2, 2, 40, dtype=np.float32)[:, None],
        rewards=rows[:, 0], timeouts=np.zeros(40, bool), terminals=np.arange(40) % 20 == 19,
    )  # fmt: skip
    own = ("--env", "own_for_data/Pendulum-v0", "--import", "own_for_data")
    result = rl("data", "convert", "own.npz", "new.hdf5", *own)
    assert result.code == 0, result.err
    assert load_dataset("new.hdf5").action.abs().max() == pytest.approx(1.0)
    result = rl("data", "make", "local/own-random", "--rows", "60", *own)
    assert result.code == 0, result.err
    (workdir / "own.yaml").write_text(SAC.replace("Pendulum-v1", "own_for_data/Pendulum-v0"))
    assert rl("fit", "--config", "own.yaml", "--import", "own_for_data", "--name", "own").code == 0
    result = rl("data", "make", "local/own-run", "--run", "own", "--rows", "60", "--import", "own_for_data")
    assert result.code == 0, result.err
