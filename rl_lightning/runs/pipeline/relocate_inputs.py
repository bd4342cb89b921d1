"""A stage whose pipeline was moved: its config names products where they were made, and they lie beside it."""

from __future__ import annotations

import copy
from pathlib import Path

from rl_lightning.errors import ResumeError
from rl_lightning.runs.pipeline.ledger import Ledger
from rl_lightning.runs.pipeline.plan import Config, set_key
from rl_lightning.runs.pipeline.product import read_product


def at_home(config: Config, stage: Path) -> Config:
    """The stage's config with products that are gone replaced by the same ones, by hash, of the pipeline it lies in."""
    ledger = stage.resolve().parent / "pipeline.json"
    if not ledger.is_file():
        return config
    took = Ledger(ledger).read().get(stage.resolve().name, {}).get("took") or {}
    config = copy.deepcopy(config)
    for dotted, digest in took.items():
        named = _value(config, dotted)
        if not isinstance(named, str) or Path(named).exists():
            continue
        beside = ledger.parent / Path(named).parent.name / "product"
        if _is(beside, digest):
            set_key(config, dotted, str(beside))
    return config


def _value(config: object, dotted: str) -> object:
    for key in dotted.split("."):
        config = config.get(key) if isinstance(config, dict) else None
    return config


def _is(product: Path, digest: str) -> bool:
    try:
        about = read_product(product)[2]
        return bool(about.get("digest", about["sha256"]) == digest)
    except ResumeError:
        return False
