"""A run knows the products it was begun with, whatever reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rl_lightning.errors import ResumeError
from rl_lightning.runs.store.artifact_hashes import check_products, products_of


def product(folder: Path, digest: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "product.json").write_text(json.dumps({"sha256": digest}))
    return str(folder)


def test_products_are_found_wherever_a_config_names_them(tmp_path: Path) -> None:
    one, two = product(tmp_path / "a/product", "one"), product(tmp_path / "b/product", "two")
    config = {
        "model": {"init_args": {"world": one, "parts": [{"init_args": {"density": str(Path(two).parent)}}]}},
        "data": {"dataset": "d4rl/hopper-medium-v2", "path": "/nowhere/at/all", "odd": "a/\0b", "rows": 3},
    }
    assert products_of(config) == {"model.world": "one", "model.parts.0.density": "two"}


def test_other_products_are_refused(tmp_path: Path) -> None:
    config = {"data": {"init_args": {"dynamics": product(tmp_path / "p", "old")}}}
    begun = products_of(config)
    check_products(begun, config, "r")
    check_products(None, config, "r")  # a record of before
    product(tmp_path / "p", "new")
    check_products({"data.dynamics": "new"}, config, "r")
    with pytest.raises(ResumeError, match=r"begun with another data.dynamics \(old, now new\)"):
        check_products(begun, config, "r")


def test_frames_count_as_much_as_weights(tmp_path: Path) -> None:
    """A policy without weights leaves the same sha256 whatever it collected."""
    folder = tmp_path / "p"
    config = {"data": {"init_args": {"frames": product(folder, "same")}}}
    begun_long_ago = products_of(config)
    (folder / "product.json").write_text(json.dumps({"sha256": "same", "digest": "these"}))
    begun = products_of(config)
    check_products(begun_long_ago, config, "r")
    (folder / "product.json").write_text(json.dumps({"sha256": "same", "digest": "others"}))
    with pytest.raises(ResumeError, match=r"begun with another data\.frames"):
        check_products(begun, config, "r")
