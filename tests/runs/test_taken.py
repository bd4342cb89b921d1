"""A run knows the artifacts it was begun with, whatever reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rl_lightning.errors import ResumeError
from rl_lightning.runs.store.artifact_hashes import artifacts_of, check_artifacts


def artifact(folder: Path, digest: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "artifact.json").write_text(json.dumps({"sha256": digest}))
    return str(folder)


def test_artifacts_are_found_wherever_a_config_names_them(tmp_path: Path) -> None:
    one, two = artifact(tmp_path / "a/artifact", "one"), artifact(tmp_path / "b/artifact", "two")
    config = {
        "model": {
            "init_args": {"world_from": one, "parts": [{"init_args": {"density": str(Path(two).parent)}}]}
        },
        "data": {"dataset": "d4rl/hopper-medium-v2", "path": "/nowhere/at/all", "odd": "a/\0b", "rows": 3},
    }
    assert artifacts_of(config) == {"model.world_from": "one", "model.parts.0.density": "two"}


def test_other_artifacts_are_refused(tmp_path: Path) -> None:
    config = {"data": {"init_args": {"dynamics": artifact(tmp_path / "p", "old")}}}
    begun = artifacts_of(config)
    check_artifacts(begun, config, "r")
    check_artifacts(None, config, "r")  # a record of before
    artifact(tmp_path / "p", "new")
    check_artifacts({"data.dynamics": "new"}, config, "r")
    with pytest.raises(ResumeError, match=r"begun with another data.dynamics \(old, now new\)"):
        check_artifacts(begun, config, "r")


def test_frames_count_as_much_as_weights(tmp_path: Path) -> None:
    """A policy without weights leaves the same sha256 whatever it collected."""
    folder = tmp_path / "p"
    config = {"data": {"init_args": {"frames_from": artifact(folder, "same")}}}
    begun_long_ago = artifacts_of(config)
    (folder / "artifact.json").write_text(json.dumps({"sha256": "same", "digest": "these"}))
    begun = artifacts_of(config)
    check_artifacts(begun_long_ago, config, "r")
    (folder / "artifact.json").write_text(json.dumps({"sha256": "same", "digest": "others"}))
    with pytest.raises(ResumeError, match=r"begun with another data\.frames"):
        check_artifacts(begun, config, "r")
