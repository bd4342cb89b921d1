"""Two processes learn as one with their batches together, hold the same weights, and resume exactly."""

from pathlib import Path
from typing import Any

import pytest
import torch
from contracts.cases import BY_NAME
from contracts.harness import Bare, assert_same, bare, differing, state, weights
from ddp.support import fit, pair

from rl_lightning import distributed
from rl_lightning.checkpoints.checkpoint_store import CheckpointStore
from rl_lightning.checkpoints.run_checkpoint import check_checkpoint
from rl_lightning.errors import ConfigError, ResumeError
from rl_lightning.io.checkpoint_files import read_file
from rl_lightning.runs.engine.run_start import start_from

CASES = {
    "ppo": BY_NAME["ppo-continuous"].but(data={"normalize_rewards": True}, model={"normalize_obs": True}),
    "sac": BY_NAME["sac"],
    "dqn": BY_NAME["dqn"],
    "dreamer": BY_NAME["dreamer-v3"].but(data={"train_ratio": 8.0}),
}
UNIT = {
    "ppo": 256,
    "sac": 96,
    "dqn": 96,
    "dreamer": 64,
}  # env steps of a block of PPO, of a few turns else


def part(batch: Any, rank: int, axis: int) -> Any:
    """Half of the rows of a batch."""

    def cut(field: Any) -> Any:
        if not isinstance(field, torch.Tensor) or field.dim() <= axis:
            return field
        size = field.shape[axis] // 2
        return field.narrow(axis, rank * size, size)

    return type(batch)(*(cut(field) for field in batch))


def grads(made: Bare) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in made.model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("name", ["dqn", "ppo"])
def test_two_halves_are_one_whole(name: str, tmp_path: Path) -> None:
    """Gradients averaged over two ranks of B/2 rows are those of one of B rows, and so are the weights after them."""
    one_pass = {"n_epochs": 1, "minibatch_size": 4096, "normalize_advantages": False}
    case = BY_NAME["dqn"] if name == "dqn" else BY_NAME["ppo-continuous"].but(model=one_pass)
    made = bare(case)
    batch = made.block().batches[0]
    axis = 0 if name == "dqn" else 1
    if name == "ppo":  # rows of cut episodes lie in a list of their own, which has no halves here
        none = torch.zeros_like(batch.truncated)
        batch = batch._replace(truncated=none, final_obs=batch.final_obs[:0])
        last = [{"last_obs": half} for half in batch.last_obs.chunk(2)]
    start = {key: value.clone() for key, value in made.model.state_dict().items()}

    def half(rank: int) -> Any:
        mine = part(batch, rank, axis)
        mine = mine._replace(**last[rank]) if name == "ppo" else mine
        made.model.update(mine)
        return {"weights": weights(made.model), "grads": grads(made)}

    first, second = pair(half, tmp_path)
    assert_same(first, second)
    made.model.load_state_dict(start)
    made.model.update(batch)
    for key, value in grads(made).items():
        torch.testing.assert_close(first["grads"][key], value, atol=1e-6, rtol=1e-5)
    for key, value in weights(made.model).items():
        torch.testing.assert_close(first["weights"][key], value, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_ranks_hold_the_same_and_explore_differently(name: str, tmp_path: Path) -> None:
    first, second = fit(CASES[name], tmp_path, 3 * UNIT[name])
    assert not differing(first, second)
    folder = CheckpointStore(tmp_path / "checkpoints").newest_valid()[0]
    mine, other = (read_file(folder / f"rank-{rank}.pt")["data"] for rank in range(2))
    assert mine["clock"] == other["clock"], "clocks count over all ranks"
    assert not torch.equal(mine["explore"], other["explore"])
    assert not torch.equal(mine["collector"]["obs"], other["collector"]["obs"]) or name in ("dqn", "dreamer")
    if "scaler" in mine and mine["scaler"] is not None:
        assert torch.equal(mine["scaler"]["stats"], other["scaler"]["stats"])
    if "buffers" in mine:
        segments = [data["buffers"]["replay"]["segments"][0]["sha256"] for data in (mine, other)]
        assert segments[0] != segments[1]


def test_the_comparison_above_would_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "average_", lambda tensors: None)
    first, second = fit(CASES["sac"], tmp_path, 2 * UNIT["sac"])
    assert differing(first, second)


@pytest.mark.parametrize("name", ["ppo", "sac"])
def test_resumed_by_two_is_never_stopped(name: str, tmp_path: Path) -> None:
    fit(CASES[name], tmp_path / "straight", 4 * UNIT[name])
    fit(CASES[name], tmp_path / "parts", 2 * UNIT[name])
    fit(CASES[name], tmp_path / "parts", 4 * UNIT[name], resume=True)
    assert_same(state(tmp_path / "straight"), state(tmp_path / "parts"))
    generation = CheckpointStore(tmp_path / "parts" / "checkpoints").newest_valid()[0]
    case = CASES[name]
    spec, kind = list(case.data().spec), type(case.model(case.data().spec)).__name__
    check_checkpoint(generation, kind, spec, 2)
    with pytest.raises(ResumeError, match=r"(?s)saved by 2 processes and 1 are running.*warm_start"):
        check_checkpoint(generation, kind, spec, 1)
    warm = start_from(str(generation), "warm_start")
    assert_same(dict(warm.weights), dict(state(tmp_path / "parts")["weights"]))


def test_one_decides_for_all(tmp_path: Path) -> None:
    def ask(rank: int) -> Any:
        found = distributed.on_rank_zero(lambda: f"from {rank}")
        try:
            distributed.on_rank_zero(lambda: _refuse(rank))
        except ConfigError as error:
            return [found, distributed.is_rank_zero(), str(error)]
        except SystemExit as stop:
            return [found, distributed.is_rank_zero(), stop.code]
        return []

    assert pair(ask, tmp_path) == [["from 0", True, "in use, says 0"], ["from 0", False, 2]]


def _refuse(rank: int) -> None:
    raise ConfigError(f"in use, says {rank}")


LAUNCHERS = [
    ({}, True),
    ({"LOCAL_RANK": "0"}, True),
    ({"LOCAL_RANK": "1"}, False),
    ({"LOCAL_RANK": "0", "NODE_RANK": "1"}, False),
    ({"LOCAL_RANK": "0", "RANK": "4"}, False),
    ({"LOCAL_RANK": "0", "RANK": "0"}, True),
    ({"SLURM_PROCID": "3"}, False),
    ({"SLURM_PROCID": "0"}, True),
    ({"SLURM_PROCID": "0", "LOCAL_RANK": "1"}, False),
]


@pytest.mark.parametrize(("given", "first"), LAUNCHERS, ids=[str(given) for given, _ in LAUNCHERS])
def test_the_first_process_is_known_before_they_meet(given, first, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOCAL_RANK", "NODE_RANK", "RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert distributed.is_rank_zero() is first
