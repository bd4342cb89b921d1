"""A folder and a shelf of its own for every pipeline."""

from pathlib import Path

import pytest
from resume.support import logs, rl

from rl_lightning.runs.pipeline import fit_pipeline

__all__ = ["logs", "rl"]


@pytest.fixture(autouse=True)
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Artifacts are linked here, not in the checkout."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    monkeypatch.setattr(fit_pipeline, "artifacts_dir", lambda: folder)
    return folder
