"""A stage whose pipeline was moved: its config names artifacts where they were made, and they lie beside it."""

from __future__ import annotations

import copy
from pathlib import Path

from rl_lightning.errors import ResumeError
from rl_lightning.io.artifact_place import ArtifactPlace
from rl_lightning.runs.pipeline.ledger import Ledger
from rl_lightning.runs.pipeline.plan import Config, set_key


def relocate_inputs(config: Config, stage: Path) -> Config:
    """The stage's config with artifacts that are gone replaced by the same ones, by hash, of the pipeline it lies
    in."""
    ledger = stage.resolve().parent / "pipeline.json"
    if not ledger.is_file():
        return config
    inputs = Ledger(ledger).read().get(stage.resolve().name, {}).get("inputs") or {}
    config = copy.deepcopy(config)
    for dotted, digest in inputs.items():
        named = _value(config, dotted)
        if not isinstance(named, str) or Path(named).exists():
            continue
        beside = ledger.parent / Path(named).parent.name / "artifact"
        if _is(beside, digest):
            set_key(config, dotted, str(beside))
    return config


def _value(config: object, dotted: str) -> object:
    for key in dotted.split("."):
        config = config.get(key) if isinstance(config, dict) else None
    return config


def _is(artifact: Path, digest: str) -> bool:
    try:
        return ArtifactPlace(artifact, artifact).digest == digest
    except ResumeError:
        return False
