"""Fetching from a server that cuts, lies and serves wrong bytes: nothing half-written is taken for a file."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from data_files import make_rows, write
from flaky_server import serving
from test_ogbench import compact

from rl_lightning.datasets import download as fetching
from rl_lightning.datasets import load_dataset
from rl_lightning.datasets.download import get_dataset, part_of, recorded_digest
from rl_lightning.datasets.hub_files import get_repository
from rl_lightning.datasets.remote_files import RemoteFile, remote_file
from rl_lightning.datasets.summary import data_folders
from rl_lightning.errors import DataError

NAME, FILE = "d4rl/walker2d-medium-v2", "gym_mujoco_v2/walker2d_medium-v2.hdf5"


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("RL_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("D4RL_DATASET_DIR", str(tmp_path / "d4rl"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(fetching, "CHUNK", 4096)
    return tmp_path / "data"


@pytest.fixture
def served(tmp_path):
    root = tmp_path / "served"
    (root / "gym_mujoco_v2").mkdir(parents=True)
    write(root / FILE, make_rows([500, 400], [True, False], 17, 6))
    with serving(root) as (base, faults):
        yield base, faults, root


def get(base: str, name: str = NAME, **more):
    told, marks = [], []
    text = get_dataset(
        name, lambda done, size: marks.append((done, size)), told.append, mirrors=[base], **more
    )
    return text, told, marks


def alone(base: str) -> str:
    return f"{base}/{FILE}"


def refused(base: str, *words: str) -> list[str]:
    told: list[str] = []
    with pytest.raises(DataError) as caught:
        get_dataset(NAME, lambda *_: None, told.append, url=alone(base))
    for word in words:
        assert word in str(caught.value), str(caught.value)
    assert not remote_file(NAME).path.exists() and not [
        each for shelf in data_folders() for each in shelf.files
    ]
    return told


def test_a_file_arrives_whole_and_is_shared(served):
    base, faults, root = served
    text, told, marks = get(base)
    path = remote_file(NAME).path
    assert path.read_bytes() == (root / FILE).read_bytes()
    assert marks[-1] == (path.stat().st_size,) * 2 and len(marks) > 3 and str(path) in text
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert recorded_digest(path) == digest == load_dataset(NAME).sha256 and told[0].startswith(
        f"{base}/{FILE} ("
    )
    left = sorted(each.name for each in path.parent.iterdir() if not each.name.endswith(".lock"))
    assert left == [path.name, f"{path.name}.sha256"]
    again, _, _ = get(base)
    assert "is here already" in again and len(faults.requests) == 1


def test_a_cut_is_resumed(served):
    base, faults, root = served
    faults.cut_after = [28_672, 20_480]
    _, told, _ = get(base)
    assert remote_file(NAME).path.read_bytes() == (root / FILE).read_bytes()
    assert [(wanted, status) for _, wanted, status in faults.requests] == [
        (None, 200), ("bytes=28672-", 206), ("bytes=49152-", 206),
    ]  # fmt: skip
    assert "resumed at 28.7 kB" in told[1]


def test_another_command_goes_on_where_the_last_one_stopped(served):
    base, faults, root = served
    faults.cut_after = [28_672, 0, 0, 0]
    refused(base, "28672 bytes arrived", "the same command resumes it", "--mirror SERVER")
    part = part_of(remote_file(NAME).path)
    assert part.stat().st_size == 28_672 and part.suffix == ".part"
    faults.cut_after = []
    get_dataset(NAME, lambda *_: None, print, url=alone(base))
    assert faults.requests[-1][1:] == ("bytes=28672-", 206) and not part.exists()
    assert remote_file(NAME).path.read_bytes() == (root / FILE).read_bytes()


def test_a_file_that_changed_in_between_is_begun_anew(served):
    base, faults, root = served
    faults.cut_after = [30_000, 0]
    refused(base)
    write(root / FILE, make_rows([300, 700], [True, True], 17, 6))
    get_dataset(NAME, lambda *_: None, print, url=alone(base))
    assert faults.requests[-1][2] == 200
    assert remote_file(NAME).path.read_bytes() == (root / FILE).read_bytes()


@pytest.mark.parametrize("fault", ["no ranges", "weak tag", "part too long"])
def test_what_cannot_be_resumed_is_begun_anew(served, fault):
    base, faults, root = served
    faults.tag = 'W/"weak"' if fault == "weak tag" else None
    faults.cut_after = [30_000, 0]
    refused(base)
    if fault == "part too long":
        part = part_of(remote_file(NAME).path)
        part.write_bytes(bytes((root / FILE).stat().st_size + 5))
    faults.ranges = fault != "no ranges"
    get_dataset(NAME, lambda *_: None, print, url=alone(base))
    assert remote_file(NAME).path.read_bytes() == (root / FILE).read_bytes()


def test_parts_of_two_places_are_not_joined(served, tmp_path):
    base, faults, root = served
    (root / "other").mkdir()
    (root / "other" / "gym_mujoco_v2").mkdir()
    write(root / "other" / FILE, make_rows([300, 700], [True, True], 17, 6))
    faults.cut_after = [30_000, 0]
    refused(base)
    get_dataset(NAME, lambda *_: None, print, url=alone(f"{base}/other"))
    assert faults.requests[-1][1:] == (None, 200)
    assert remote_file(NAME).path.read_bytes() == (root / "other" / FILE).read_bytes()


def test_what_came_is_kept_while_other_places_refuse(served):
    base, faults, root = served
    faults.cut_after = [28_672, 0, 0]
    told: list[str] = []
    file = remote_file(NAME)._replace(urls=(alone(base), f"{base}/nowhere/{FILE}"))
    with pytest.raises(DataError, match="the same command resumes it"):
        fetching.fetch(file, None, told.append)
    assert part_of(file.path).stat().st_size == 28_672 and "404" in told[-1]
    faults.cut_after = []
    fetching.fetch(file)
    assert faults.requests[-1][1:] == ("bytes=28672-", 206)
    assert file.path.read_bytes() == (root / FILE).read_bytes()


def test_mirrors_are_tried_in_order(served):
    base, faults, _ = served
    file = remote_file(NAME, None, [f"{base}/nowhere", base])
    assert [url.partition(FILE)[0] for url in file.urls[:3]] == [
        f"{base}/nowhere/", f"{base}/", "https://rail.eecs.berkeley.edu/datasets/offline_rl/",
    ]  # fmt: skip
    assert file.urls[3] == "hub:imone/D4RL/walker2d_medium-v2.hdf5"
    told: list[str] = []
    get_dataset(NAME, lambda *_: None, told.append, mirrors=[f"{base}/nowhere", base])
    assert "404" in told[0] and [status for *_, status in faults.requests] == [404, 200]


def test_a_server_that_promises_more_than_it_sends(served):
    base, faults, _ = served
    faults.extra = 50
    refused(base, "bytes arrived")


def test_a_server_that_promises_less_than_the_file_has(served):
    base, faults, _ = served
    faults.claimed = 40_000
    refused(base, "damaged")
    assert not part_of(remote_file(NAME).path).exists()


def test_a_server_that_sends_another_part(served):
    base, faults, _ = served
    faults.cut_after = [30_000]
    faults.wrong_range = True
    refused(base, "another part than was asked for")


def test_without_a_size_a_cut_is_seen_in_the_file(served):
    base, faults, _ = served
    faults.sized, faults.cut_after = False, [30_000]
    refused(base, "damaged")


def known(base: str, content: bytes, size: int = 0) -> RemoteFile:
    file = remote_file(NAME, alone(base))
    return file._replace(size=size or len(content), sha256=hashlib.sha256(content).hexdigest())


def test_wrong_bytes(served):
    base, faults, root = served
    content = (root / FILE).read_bytes()
    faults.swap = content[:-1] + bytes([content[-1] ^ 1])
    file = known(base, content)
    with pytest.raises(DataError, match="sent a file of sha256"):
        fetching.fetch(file)
    assert not file.path.exists() and not part_of(file.path).exists()
    with pytest.raises(
        DataError, match=f"has {len(content)} bytes, the file {len(content) + 1}: another file"
    ):
        fetching.fetch(known(base, content, len(content) + 1))
    faults.swap = b"<html>not found</html>"
    refused(base, "not HDF5")
    faults.swap = None
    assert fetching.fetch(file) == file.sha256


def test_the_next_place_makes_up_for_wrong_bytes(served):
    base, _, root = served
    (root / "wrong" / "gym_mujoco_v2").mkdir(parents=True)
    (root / "wrong" / FILE).write_bytes(b"nothing" * 1000)
    told: list[str] = []
    get_dataset(NAME, lambda *_: None, told.append, mirrors=[f"{base}/wrong", base])
    assert "not HDF5" in told[1] and remote_file(NAME).path.is_file()


def test_a_later_download_that_differs_is_refused(served):
    base, _, root = served
    get(base)
    path = remote_file(NAME).path
    path.unlink()
    write(root / FILE, make_rows([3], [True], 17, 6))
    with pytest.raises(DataError, match="the last download's is"):
        get_dataset(NAME, lambda *_: None, print, url=alone(base))
    assert not path.exists()


def test_a_file_that_was_damaged_here_is_told(served):
    base, _, _ = served
    get(base)
    path = remote_file(NAME).path
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(DataError, match=r"damaged. Delete it"):
        get(base)


def test_ogbench(served):
    base, _, root = served
    np.savez_compressed(root / "cube-single-play-v0.npz", **compact())
    get(base, "ogbench/cube-single-play-singletask-task2-v0")
    assert load_dataset("ogbench/cube-single-play-v0").rows == 5
    whole = (root / "cube-single-play-v0.npz").read_bytes()
    (root / "scene-play-v0.npz").write_bytes(whole[:-30])
    with pytest.raises(DataError, match="ogbench/scene-play-v0"):
        get_dataset("ogbench/scene-play-v0", lambda *_: None, print, url=f"{base}/scene-play-v0.npz")


def test_nobody_listens():
    with pytest.raises(DataError, match=r"cannot be fetched .*network"):
        get_dataset(NAME, lambda *_: None, print, url=f"http://127.0.0.1:9/{FILE}")


@pytest.mark.parametrize(
    ("name", "word"),
    [("local/x", "rl data make"), ("d4rl/nothing-v2", "none of the files"), ("hub:a/b/../../c", "none of")],
)
def test_what_cannot_be_fetched(name, word):
    with pytest.raises(DataError, match=word):
        remote_file(name)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x/y", "hub:one", "http:///x"])
def test_only_http_and_the_hub_are_fetched(url):
    with pytest.raises(DataError, match=r"only http|hub:USER"):
        remote_file(NAME, url)


def stand_in(monkeypatch, served: Path) -> list[tuple]:
    """The Hub's client, on files here."""
    calls: list[tuple] = []

    def hf_hub_download(repository, name, repo_type, local_dir):
        calls.append((repository, name, repo_type))
        source = served / repository / name
        if not source.is_file():
            raise OSError(f"404: {name}")
        local_dir.mkdir(parents=True, exist_ok=True)
        (local_dir / name).write_bytes(source.read_bytes())
        return str(local_dir / name)

    def snapshot_download(repository, repo_type, local_dir):
        calls.append((repository, repo_type))
        (local_dir / "meta").mkdir(parents=True)
        (local_dir / "meta" / "info.json").write_text("{}")

    client = types.ModuleType("huggingface_hub")
    client.hf_hub_download, client.snapshot_download = hf_hub_download, snapshot_download
    monkeypatch.setitem(sys.modules, "huggingface_hub", client)
    return calls


def test_a_file_of_the_hub(tmp_path, monkeypatch):
    folder = tmp_path / "hub" / "some" / "repo"
    folder.mkdir(parents=True)
    calls = stand_in(monkeypatch, tmp_path / "hub")
    write(folder / "walker2d_medium-v2.hdf5", make_rows([5, 4], [True, False], 17, 6))
    get_dataset(NAME, lambda *_: None, print, url="hub:some/repo/walker2d_medium-v2.hdf5")
    assert load_dataset(NAME).rows == 9 and calls == [("some/repo", "walker2d_medium-v2.hdf5", "dataset")]
    assert not list(remote_file(NAME).path.parent.glob(".*.hub"))
    with pytest.raises(DataError, match=r"404: none.hdf5"):
        get_dataset("hub:some/repo/none.hdf5", lambda *_: None, print)
    text = get_repository("hub:lerobot/pusht")
    assert text.split(":")[0].endswith("hub/lerobot/pusht") and "here already" in get_repository(
        "hub:lerobot/pusht"
    )


def test_the_hub_without_its_client(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(DataError, match="need its client"):
        get_dataset("hub:a/b/c.hdf5", lambda *_: None, print)
    with pytest.raises(DataError, match="needs its client"):
        get_repository("hub:a/b")


HUB_SCRIPT = """
import sys
from rl_lightning.datasets.download import get_dataset
print(get_dataset("hub:some/repo/rows.hdf5", lambda *_: None, print))
"""


def test_the_real_client_of_the_hub(tmp_path, monkeypatch):
    """Against a local stand-in of the Hub's server."""
    pytest.importorskip("huggingface_hub", exc_type=ImportError)
    root = tmp_path / "served"
    place = root / "datasets" / "some" / "repo" / "resolve" / "main"
    place.mkdir(parents=True)
    write(place / "rows.hdf5", make_rows([5, 4], [True, False]))
    with serving(root) as (base, _):
        env = os.environ | {
            "HF_ENDPOINT": base,
            "HF_HOME": str(tmp_path / "hf"),
            "HF_HUB_DISABLE_TELEMETRY": "1",
        }
        done = subprocess.run(
            [sys.executable, "-c", HUB_SCRIPT], env=env, capture_output=True, text=True, timeout=120
        )
    assert done.returncode == 0, done.stderr
    there = tmp_path / "data" / "hub" / "some" / "repo" / "rows.hdf5"
    assert there.read_bytes() == (place / "rows.hdf5").read_bytes() and load_dataset(str(there)).rows == 9
