"""A pipeline's folder may be moved: what its stages took is found again, by hash."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from rl_lightning.checkpoints.checkpoint_store import checksum
from rl_lightning.io.atomic import write_json
from rl_lightning.runs.pipeline.ledger import Ledger
from rl_lightning.runs.pipeline.relocate_inputs import relocate_inputs

KEY = "data.init_args.dynamics"


def artifact(folder: Path, seed: int) -> str:
    folder.mkdir(parents=True)
    weights = folder / "weights.safetensors"
    save_file({"w": torch.full((3,), float(seed))}, weights)
    (folder / "config.yaml").write_text("{}")
    write_json(folder / "artifact.json", {"sha256": checksum(weights)})
    return checksum(weights)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    run = tmp_path / "old" / "pipe"
    digest = artifact(run / "dynamics" / "artifact", 1)
    (run / "policy").mkdir()
    Ledger(run / "pipeline.json").set("policy", status="done", inputs={KEY: digest})
    return run


def named(config: dict) -> str:
    return config["data"]["init_args"]["dynamics"]


def test_artifacts_of_a_moved_pipeline_are_those_beside_the_stage(made: Path) -> None:
    config = {"data": {"init_args": {"dynamics": str(made / "dynamics" / "artifact")}}}
    assert relocate_inputs(config, made / "policy") == config
    moved = made.parent.parent / "new"
    made.rename(moved)
    assert named(relocate_inputs(config, moved / "policy")) == str(moved / "dynamics" / "artifact")
    assert named(config) == str(made / "dynamics" / "artifact"), "the config that was given stays as it was"


def test_what_holds_more_than_weights_is_found_by_all_of_it(made: Path) -> None:
    config = {"data": {"init_args": {"dynamics": str(made / "dynamics" / "artifact")}}}
    about = made / "dynamics" / "artifact" / "artifact.json"
    write_json(about, {**json.loads(about.read_text()), "digest": "with frames"})
    moved = made.parent.parent / "new"
    made.rename(moved)
    assert relocate_inputs(config, moved / "policy") == config, "the ledger took another"
    Ledger(moved / "pipeline.json").set("policy", inputs={KEY: "with frames"})
    assert named(relocate_inputs(config, moved / "policy")) == str(moved / "dynamics" / "artifact")


def test_another_artifact_of_the_same_name_is_not_taken(made: Path) -> None:
    config = {"data": {"init_args": {"dynamics": str(made / "dynamics" / "artifact")}}}
    moved = made.parent.parent / "new"
    made.rename(moved)
    for file in (moved / "dynamics" / "artifact").iterdir():
        file.unlink()
    (moved / "dynamics" / "artifact").rmdir()
    assert relocate_inputs(config, moved / "policy") == config
    artifact(moved / "dynamics" / "artifact", 2)
    assert relocate_inputs(config, moved / "policy") == config


def test_a_run_that_is_no_stage_stays_as_it_is(tmp_path: Path) -> None:
    config = {"data": {"init_args": {"dynamics": "nowhere/at/all"}}}
    assert relocate_inputs(config, tmp_path) is config
