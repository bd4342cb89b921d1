"""What a later stage would refuse of recorded data is refused before the first one is trained."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from resume.support import Rl, write

ROWS = 80
DYNAMICS = {
    "model": {"class_path": "Dynamics", "init_args": {"ensemble_size": 2, "num_elites": 1, "hidden_dims": [8]}},
    "data": {"class_path": "OfflineData", "init_args": {"dataset": "rows.npz", "batch_size": 8}},
    "run": {"updates": 4, "eval_every": 2},
}  # fmt: skip
POLICY = {
    "model": {"class_path": "SAC", "init_args": {"critic_hidden_dims": [8]}},
    "data": {
        "class_path": "ModelRolloutData",
        "init_args": {"dataset": "rows.npz", "batch_size": 8, "rollout_batch_size": 8, "rollout_length": 2},
    },
    "run": {"updates": 4, "eval_every": 2},
}


def recorded(width: int = 3, **changes: Any) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0)
    obs = draw.normal(size=(ROWS, width)).astype(np.float32)
    rows = {
        "observations": obs,
        "actions": draw.uniform(-1, 1, (ROWS, 1)).astype(np.float32),
        "rewards": obs[:, 0],
        "next_observations": obs + 0.1,
        "terminals": np.zeros(ROWS, bool),
        "timeouts": np.arange(1, ROWS + 1) % 10 == 0,
    } | changes
    return {name: rows[name] for name in rows if rows[name] is not None}


def clinic(folder: Path, policies: int = 1, **of_policy: Any) -> str:
    names = ["policy", "second"][:policies]
    later = [
        {"name": name, "config": POLICY, "inputs": {"data.dynamics": "dynamics"}, "overrides": of_policy}
        for name in names
    ]
    stages = [{"name": "dynamics", "config": DYNAMICS}, *later]
    return write(folder, "pipe", {"run": {"name": "pipe"}, "threads": 1, "stages": stages})


def trained(folder: Path) -> bool:
    return any(folder.rglob("metrics.csv"))


@pytest.mark.parametrize(
    ("changes", "of_policy", "code", "said"),
    [
        ({"terminals": np.arange(ROWS) % 40 == 39}, {}, 2, "--stages.policy.data.termination NoTermination"),
        ({"rewards": None}, {}, 3, "no 'rewards'"),
        ({"actions": np.full((ROWS, 1), 7.0, np.float32)}, {}, 3, "not in [-1, 1]"),
        ({}, {"data.reward_scale": 2.0}, 2, "data.reward_scale"),
        ({}, {"data.dataset": "wide.npz"}, 2, "obs shape [3]"),
        ({"timeouts": np.arange(ROWS) == ROWS - 1}, {}, 3, "one episode"),
        ({}, {"model.n_step": 3}, 2, "n_step"),
    ],
)
def test_a_later_stage_refuses_first(logs: Path, rl: Rl, tmp_path, changes, of_policy, code, said) -> None:
    np.savez("rows.npz", **recorded(**changes))
    np.savez("wide.npz", **recorded(width=5))
    refused = rl("fit", "--config", clinic(tmp_path, **of_policy))
    assert refused.code == code and said in refused.err, refused.err
    assert "stage" in refused.err and not trained(logs)


def test_data_without_terminals_never_end_and_that_is_said_once(logs: Path, rl: Rl, tmp_path) -> None:
    np.savez("rows.npz", **recorded())
    done = rl("fit", "--config", clinic(tmp_path, policies=2))
    assert done.code == 0, done.err
    assert (done.err + done.out).count("has no terminal") == 1


def test_a_file_without_any_terminals_will_do_for_a_model(logs: Path, rl: Rl, tmp_path) -> None:
    np.savez("rows.npz", **recorded(terminals=None))
    done = rl("fit", "--config", clinic(tmp_path))
    assert done.code == 0, done.err


def test_flags_of_a_stage_count_when_scales_are_compared(logs: Path, rl: Rl, tmp_path) -> None:
    """The artifact's config holds them, too."""
    np.savez("rows.npz", **recorded())
    pipe = clinic(tmp_path)
    refused = rl("fit", "--config", pipe, "--stages.dynamics.data.reward_scale", "3")
    assert refused.code == 2 and "reward_scale 3" in refused.err and not trained(logs)
    assert rl("fit", "--config", pipe, "--data.reward_scale", "3").code == 0
    assert "reward_scale: 3" in (logs / "pipe" / "dynamics" / "artifact" / "config.yaml").read_text()


def test_rows_that_an_earlier_stage_leaves_are_not_looked_for(logs: Path, rl: Rl, tmp_path) -> None:
    """They are there when their stage begins, and then refused, or not."""
    np.savez("rows.npz", **recorded())
    later = {"name": "later", "config": DYNAMICS, "inputs": {"data.dataset": "dynamics"}}
    stages = [{"name": "dynamics", "config": DYNAMICS}, later]
    pipe = write(tmp_path, "pipe", {"run": {"name": "pipe"}, "threads": 1, "stages": stages})
    refused = rl("fit", "--config", pipe)
    assert "stage later failed" in refused.err and trained(logs), refused.err
