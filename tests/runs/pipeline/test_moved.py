"""A pipeline's folder may be moved: what its stages took is found again, by hash."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from rl_lightning.checkpoints.checkpoint_store import checksum
from rl_lightning.io.atomic import write_json
from rl_lightning.runs.pipeline.ledger import Ledger
from rl_lightning.runs.pipeline.relocate_inputs import at_home

KEY = "data.init_args.dynamics"


def product(folder: Path, seed: int) -> str:
    folder.mkdir(parents=True)
    weights = folder / "weights.safetensors"
    save_file({"w": torch.full((3,), float(seed))}, weights)
    (folder / "config.yaml").write_text("{}")
    write_json(folder / "product.json", {"sha256": checksum(weights)})
    return checksum(weights)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    run = tmp_path / "old" / "pipe"
    digest = product(run / "dynamics" / "product", 1)
    (run / "policy").mkdir()
    Ledger(run / "pipeline.json").set("policy", status="done", took={KEY: digest})
    return run


def named(config: dict) -> str:
    return config["data"]["init_args"]["dynamics"]


def test_products_of_a_moved_pipeline_are_those_beside_the_stage(made: Path) -> None:
    config = {"data": {"init_args": {"dynamics": str(made / "dynamics" / "product")}}}
    assert at_home(config, made / "policy") == config
    moved = made.parent.parent / "new"
    made.rename(moved)
    assert named(at_home(config, moved / "policy")) == str(moved / "dynamics" / "product")
    assert named(config) == str(made / "dynamics" / "product"), "the config that was given stays as it was"


def test_what_holds_more_than_weights_is_found_by_all_of_it(made: Path) -> None:
    config = {"data": {"init_args": {"dynamics": str(made / "dynamics" / "product")}}}
    about = made / "dynamics" / "product" / "product.json"
    write_json(about, {**json.loads(about.read_text()), "digest": "with frames"})
    moved = made.parent.parent / "new"
    made.rename(moved)
    assert at_home(config, moved / "policy") == config, "the ledger took another"
    Ledger(moved / "pipeline.json").set("policy", took={KEY: "with frames"})
    assert named(at_home(config, moved / "policy")) == str(moved / "dynamics" / "product")


def test_another_product_of_the_same_name_is_not_taken(made: Path) -> None:
    config = {"data": {"init_args": {"dynamics": str(made / "dynamics" / "product")}}}
    moved = made.parent.parent / "new"
    made.rename(moved)
    for file in (moved / "dynamics" / "product").iterdir():
        file.unlink()
    (moved / "dynamics" / "product").rmdir()
    assert at_home(config, moved / "policy") == config
    product(moved / "dynamics" / "product", 2)
    assert at_home(config, moved / "policy") == config


def test_a_run_that_is_no_stage_stays_as_it_is(tmp_path: Path) -> None:
    config = {"data": {"init_args": {"dynamics": "nowhere/at/all"}}}
    assert at_home(config, tmp_path) is config
