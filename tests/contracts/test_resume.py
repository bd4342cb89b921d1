"""Stopped and resumed is bit for bit never stopped: weights, optimizers, rows, generators, envs, metrics, episodes."""

from pathlib import Path
from typing import Any

import pytest
import torch
from contracts.cases import CASES, Case
from contracts.harness import metrics
from lightning.pytorch import Trainer

from rl_lightning.callbacks import LogConfig, default_callbacks, make_loggers
from rl_lightning.callbacks.control import StopAt
from rl_lightning.callbacks.generations import Generations, read_file
from rl_lightning.rollout.schedule import RunConfig
from rl_lightning.seeding import seed_globals

UNIT = 128  # env steps of the smallest budget


def fit(
    case: Case, folder: Path, until: int, resume: bool = False, phases: Any = None, budget: int = 3 * UNIT
) -> None:
    """A run as `rl fit` and `rl resume` make it, in fresh objects."""
    run = RunConfig(env_steps=budget, eval_every=96, eval_episodes=3, save_minutes=None)
    seed_globals(5)
    data = case.data()
    model = case.model(data.spec)
    data.configure(run, 5)
    folder.mkdir(parents=True, exist_ok=True)
    log = LogConfig(tensorboard=False, every=64)
    generation = Generations(folder / "checkpoints").newest_whole()[0] if resume else None
    callbacks = [StopAt(until), *default_callbacks(folder, log, resume_from=generation)]
    if phases is not None:
        from rl_lightning.callbacks import Phases

        callbacks = [Phases(phases), *callbacks]
    trainer = Trainer(
        max_epochs=-1,
        limit_val_batches=0,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        accelerator="cpu",
        logger=make_loggers(folder, log, "task", "group", "name", []),
        callbacks=callbacks,
        default_root_dir=folder,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    trainer.fit(
        model, datamodule=data, ckpt_path=generation / "model.ckpt" if generation else None, weights_only=True
    )


def state(folder: Path) -> dict[str, Any]:
    """Everything that the newest checkpoint and the files of a run hold, without wall time."""
    generation = Generations(folder / "checkpoints").newest_whole()[0]
    model = read_file(generation / "model.ckpt")
    own = read_file(generation / "rank-0.pt")
    rows: dict[str, Any] = {}
    for name, buffer in own["data"].pop("buffers", {}).items():
        segments = buffer.get("store", buffer).pop("segments")
        rows[name] = (buffer, sum(segment["size"] for segment in segments) > 0)
    return {
        "weights": model["state_dict"],
        "optimizers": model["optimizer_states"],
        "own": own,
        "buffers": rows,
        "metrics": metrics(folder),
        "episodes": (folder / "eval.jsonl").read_text(),
    }


def assert_same(a: Any, b: Any, where: str = "state") -> None:
    if "observation_space" in where:  # its generator is drawn from the system's entropy, and by nobody used
        return
    assert type(a) is type(b), (where, type(a), type(b))
    if isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype and a.shape == b.shape, (where, a.shape, b.shape)
        assert torch.equal(torch.nan_to_num(a.double()), torch.nan_to_num(b.double())), where
    elif isinstance(a, dict):
        assert a.keys() == b.keys(), (where, a.keys() ^ b.keys())
        for key in a:
            assert_same(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), (where, len(a), len(b))
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same(x, y, f"{where}[{i}]")
    else:
        assert a == b or (a != a and b != b), (where, a, b)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_stopped_and_resumed_is_never_stopped(case: Case, tmp_path: Path) -> None:
    fit(case, tmp_path / "straight", 3 * UNIT)
    for budget in (UNIT, 2 * UNIT, 3 * UNIT):
        fit(case, tmp_path / "parts", budget, resume=budget > UNIT)
    assert_same(state(tmp_path / "straight"), state(tmp_path / "parts"))


def test_a_larger_budget_goes_the_same_way(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "sac")
    fit(case, tmp_path / "straight", 3 * UNIT)
    fit(case, tmp_path / "parts", UNIT, budget=UNIT)
    fit(case, tmp_path / "parts", 3 * UNIT, resume=True)
    assert_same(state(tmp_path / "straight"), state(tmp_path / "parts"))


@pytest.mark.parametrize("vectorization", ["sync", "async"])
@pytest.mark.parametrize("name", ["sac", "ppo-discrete"])
def test_with_workers_too(name: str, vectorization: str, tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == name).but(data={"vectorization": vectorization})
    fit(case, tmp_path / "straight", 2 * UNIT)
    fit(case, tmp_path / "parts", UNIT)
    fit(case, tmp_path / "parts", 2 * UNIT, resume=True)
    assert_same(state(tmp_path / "straight"), state(tmp_path / "parts"))


def test_a_ring_that_wrapped_resumes_with_its_own_rows(tmp_path: Path) -> None:
    from rl_lightning.buffers import Replay

    case = next(case for case in CASES if case.name == "sac").but(data={"buffer": Replay(100)})
    fit(case, tmp_path / "straight", 3 * UNIT)
    for budget in (UNIT, 2 * UNIT, 3 * UNIT):
        fit(case, tmp_path / "parts", budget, resume=budget > UNIT)
    assert_same(state(tmp_path / "straight"), state(tmp_path / "parts"))


PHASES = [
    {"name": "prefill", "env_steps": 48, "hooks": ["collect"], "controller": "random"},
    {"name": "model", "type": "offline", "updates": 5},
    {"name": "joint", "hooks": ["collect", {"name": "update", "count": 3}, {"name": "evaluate", "every": 4}]},
]


@pytest.mark.parametrize("budget", [40, 64, 81, 100])
def test_phases_resume_in_the_middle_of_a_cycle(budget: int, tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "sac")
    fit(case, tmp_path / "straight", 2 * UNIT, phases=PHASES)
    fit(case, tmp_path / "parts", budget, phases=PHASES)
    fit(case, tmp_path / "parts", 2 * UNIT, resume=True, phases=PHASES)
    assert_same(state(tmp_path / "straight"), state(tmp_path / "parts"))
