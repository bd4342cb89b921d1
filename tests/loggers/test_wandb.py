"""W&B as a user of offline pipelines needs it: read from the files that it writes in offline mode."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from wandb_file import records

pytest.importorskip("wandb")

SECRET = "hunter2-very-secret"
STAGE = {
    "model": {"class_path": "BC"},
    "data": {"class_path": "OfflineData", "init_args": {"dataset": "rows.npz", "batch_size": 8}},
    "run": {"updates": 4, "eval_every": 2},
    "log": {"tensorboard": False, "wandb": True, "wandb_mode": "offline", "every": 1},
    "threads": 1,
}


@pytest.mark.slow
def test_one_run_per_stage_on_its_own_clock(tmp_path: Path) -> None:
    rows = np.random.default_rng(0)
    np.savez(
        tmp_path / "rows.npz",
        observations=rows.normal(size=(60, 3)).astype(np.float32),
        actions=rows.uniform(-1, 1, (60, 2)).astype(np.float32),
        rewards=rows.normal(size=60).astype(np.float32),
        terminals=np.zeros(60, bool),
        timeouts=np.arange(60) % 20 == 19,
    )
    stages = [{"name": name, "config": STAGE} for name in ("one", "two")]
    (tmp_path / "p.yaml").write_text(yaml.safe_dump({"name": "p", "stages": stages}))
    words = [sys.executable, "-m", "rl_lightning.cli", "fit", "--config", "./p.yaml"]
    words += ["--run.tags", f"[x, 'http://me:{SECRET}@h']"]
    known = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        words, cwd=tmp_path, env=known, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0 and "anonymous" not in done.stderr, done.stderr
    identities = set()
    for name in ("one", "two"):
        folder = tmp_path / "lightning_logs/p" / name
        found = records(folder)
        (run,) = [record.run for record in found if record.WhichOneof("record_type") == "run"]
        assert (run.project, run.run_group, run.display_name) == ("rows", "p", f"p/{name}")
        steps = {
            record.metric.glob_name: record.metric.step_metric for record in found if record.metric.glob_name
        }
        assert steps == {"*": "update"}
        keys = [{item.key or item.nested_key[0] for item in record.history.item} for record in found]
        assert any("update" in row and any(key.startswith("train/") for key in row) for row in keys)
        identities.add(run.run_id)
    assert len(identities) == 2
    files = [path for path in (tmp_path / "lightning_logs").rglob("*") if path.is_file()]
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
