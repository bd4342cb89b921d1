"""Saving and resuming: state is taken between blocks only, and written whole or not at all."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

from rl_lightning import distributed, seeding, stop_request
from rl_lightning.callbacks.evaluation_history import EvaluationHistory
from rl_lightning.checkpoints.checkpoint_store import CheckpointStore, verify, write_file
from rl_lightning.clock.run_clock import crossed_multiple
from rl_lightning.errors import ResumeError
from rl_lightning.io.atomic import write_json
from rl_lightning.io.checkpoint_files import read_file
from rl_lightning.io.text import file_size
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.stop_request import BlockAbandoned
from rl_lightning.trainer.access import clock_of, data_of
from rl_lightning.trainer.loops import is_last_block


class RunCheckpoint(ModelCheckpoint):
    """Checkpoints that a fit resumes from exactly: the newest generations, the best weights, milestones.

    Beside Lightning's own file each generation has what a fit needs besides: replay, envs, random states, of every
    rank. `trainer.fit(..., ckpt_path="last")`, `"best"` or the path of a generation's model.ckpt resumes as if it had
    never been stopped. A ModelCheckpoint by type only, so that Lightning asks it for those two names.

    Args:
        dirpath: Where checkpoints go; nothing else may lie there.
        save_every: Save each time the clock passes a multiple of this; null: the run's, or at every evaluation.
        save_minutes: Also save when so many minutes have passed since the last save; null: the run's.
        milestone_every: Keep a numbered milestone each time the clock passes a multiple of this; null: the run's.
        exact_best: Keep the best evaluation as a generation of its own, so that "best" resumes exactly too (its replay
            stays on disk as long); its weights alone are always kept in best.ckpt.
        ckpt_path: Generation to resume from exactly, if `trainer.fit` is not told; null starts anew.
        save_on_start: What was loaded differs from the checkpoint (a new learning rate): it is saved at once.
    """

    def __init__(
        self,
        dirpath: str,
        save_every: int | None = None,
        save_minutes: float | None = None,
        milestone_every: int | None = None,
        exact_best: bool = True,
        ckpt_path: str | None = None,
        save_on_start: bool = False,
    ) -> None:
        self.generations = CheckpointStore(Path(dirpath))
        super().__init__(dirpath=dirpath)
        self.save_every, self.save_minutes, self.milestone_every = save_every, save_minutes, milestone_every
        self.exact_best, self.ckpt_path, self.save_on_start = exact_best, ckpt_path, save_on_start
        self.evaluation = EvaluationHistory()
        self._own_history = True  # no other callback keeps one
        self.seen = 0
        self.last_saved: tuple[int, int] | None = None  # clocks of the newest generation
        self.last_evaluated: int | None = None  # and the evaluation that it knows of
        self.restored: dict[str, Any] | None = None  # this rank's part of the generation
        self.ready = False  # everything is loaded: from here on an exception is one of training
        self.on_ready: Callable[[], None] | None = None  # called then, once
        self._saved_at = time.monotonic()
        self._last_bytes = 0

    @property
    def state_key(self) -> str:
        return "RunCheckpoint"

    @property
    def best_model_path(self) -> str:
        """For Lightning's `ckpt_path="best"`."""
        best = self.generations.folder / "best" / "model.ckpt"
        return str(best) if best.is_file() else ""

    @best_model_path.setter
    def best_model_path(self, path: str) -> None:
        """ModelCheckpoint's own bookkeeping; ours is the folder."""

    def _find_last_checkpoints(self, trainer: Trainer) -> set[str]:
        """For Lightning's `ckpt_path="last"`."""
        if not self.generations.checkpoints():
            return set()
        return {str(self.generations.newest_valid()[0] / "model.ckpt")}

    def setup(self, trainer: Trainer, pl_module: Any, stage: str) -> None:
        if stage != "fit":
            return
        listed = [item for item in trainer.callbacks if isinstance(item, EvaluationHistory)]  # type: ignore[attr-defined]
        self.evaluation, self._own_history = (listed[0], False) if listed else (self.evaluation, True)
        if trainer.is_global_zero:
            self._check_disk()

    def _store(self, rank: int) -> SegmentStore:
        return SegmentStore(self.generations.folder / "replay" / f"rank-{rank}")

    def on_fit_start(self, trainer: Trainer, pl_module: Any) -> None:
        """Loads the generation that the fit resumes from: what does not fit is refused before a file is touched."""
        self.store = self._store(trainer.global_rank)
        self.ckpt_path = self._given(trainer) or self.ckpt_path
        if self.ckpt_path is None:
            return
        folder = Path(self.ckpt_path)
        self.restored = read_file(folder / f"rank-{trainer.global_rank}.pt")
        own = folder.parent == self.generations.folder
        # A run forked from another's checkpoint takes its rows along.
        rows = self.store if own else SegmentStore(folder.parent / "replay" / f"rank-{trainer.global_rank}")
        data_of(trainer).load(self.restored["data"], rows)
        pl_module.load_metrics_state(self.restored["metrics"])

    def _given(self, trainer: Trainer) -> str | None:
        """The generation that `trainer.fit(ckpt_path=...)` names; None where it names a file of Lightning's alone."""
        if not trainer.ckpt_path or not (Path(trainer.ckpt_path).parent / "meta.json").is_file():
            return None
        folder = Path(trainer.ckpt_path).resolve().parent
        if self.ckpt_path is None:
            module, data = trainer.lightning_module, data_of(trainer)
            check_checkpoint(folder, type(module).__name__, list(data.spec), trainer.world_size)
            return str(folder)
        return self.ckpt_path

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        """The last to change anything before the first block: random states are those of the checkpoint."""
        self._saved_at, self.ready = time.monotonic(), True
        self._begin(trainer, pl_module)
        if self.on_ready is not None:
            self.on_ready()

    def _begin(self, trainer: Trainer, pl_module: Any) -> None:
        if self.ckpt_path is None or self.restored is None:
            self.save_generation(
                trainer, pl_module
            )  # there is always one to resume from, and the disk was tried
            return
        seeding.set_global_state(self.restored["random"])
        self.restored, folder = None, Path(self.ckpt_path)
        clock = clock_of(trainer)
        self._recall_best(clock.clock_name)
        if self.generations.checkpoints()[-1:] == [folder] and not self.save_on_start:
            self.last_saved, self.last_evaluated = (clock.env_step, clock.update), self.evaluation.last_at
        else:  # from here on this is where the run stands, whatever newer ones were passed over
            self.save_generation(trainer, pl_module)

    def on_exception(self, trainer: Trainer, pl_module: Any, exception: BaseException) -> None:
        """Keeps the weights as they are for a look; the last generation, not these, is what a run resumes from."""
        reported = isinstance(exception, BlockAbandoned | KeyboardInterrupt)
        if reported or not self.ready or not trainer.is_global_zero:
            return
        with contextlib.suppress(Exception):  # whatever is wrong here, the reason of the crash is what counts
            crash = {
                "state_dict": pl_module.state_dict(),
                "error": f"{type(exception).__name__}: {exception}",
            }
            write_file(crash, self.generations.folder / "crash.ckpt")

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *args: Any) -> None:
        """In the middle of an epoch. Where a block ends one, its evaluation is saved with it."""
        weighed_first = pl_module.evaluated_on == "rows" and trainer.should_stop and trainer.limit_val_batches
        if not is_last_block(trainer) and not weighed_first:
            self._save_if_due(trainer, pl_module)

    def on_validation_end(self, trainer: Trainer, pl_module: Any) -> None:
        if trainer.sanity_checking or trainer.state.fn != "fit":
            return
        if self._own_history:
            self.evaluation.on_validation_end(trainer, pl_module)
        if self.evaluation.is_best:
            self.save_best(trainer, pl_module)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        if is_last_block(trainer) or pl_module.evaluated_on == "rows":
            self._save_if_due(trainer, pl_module)
            if self.exact_best and self.evaluation.is_best:
                self.save(trainer, pl_module, "best", "best")
        self.evaluation.is_best = False

    def on_train_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Nothing is saved here: what Lightning writes now would resume at another place."""

    def _save_if_due(self, trainer: Trainer, module: Any) -> None:
        clock = clock_of(trainer)
        run, before, now = clock.run, self.seen, clock.now
        self.seen = now
        if crossed_multiple(before, now, self.milestone_every or run.milestone_every):
            self.save(trainer, module, f"step-{now}", "milestone")
        minutes, limit = (time.monotonic() - self._saved_at) / 60, self.save_minutes or run.save_minutes
        timed = distributed.from_rank_zero(limit is not None and minutes >= limit)
        every = self.save_every or run.save_every
        evaluated = every is None and self.evaluation.last_at == now
        if crossed_multiple(before, now, every) or evaluated or timed or trainer.should_stop:
            self.save_generation(trainer, module)

    def save_generation(self, trainer: Trainer, module: Any) -> None:
        """A new generation, unless nothing has happened since the newest one."""
        clock = clock_of(trainer)
        clocks = (clock.env_step, clock.update)
        if clocks == self.last_saved and self.last_evaluated == self.evaluation.last_at:
            return
        serial = distributed.from_rank_zero(self.generations.next_serial() if trainer.is_global_zero else 0)
        self.save(trainer, module, f"last-{serial:06d}", "last")
        self.last_saved, self.last_evaluated = clocks, self.evaluation.last_at
        if trainer.is_global_zero:
            self.generations.prune()

    def save(self, trainer: Trainer, module: Any, name: str, kind: str) -> None:
        """Rank 0 writes the model, every rank its own side file; the description comes last."""
        with stop_request.shield():
            self._save(trainer, module, name, kind)

    def _save(self, trainer: Trainer, module: Any, name: str, kind: str) -> None:
        data, rank = data_of(trainer), trainer.global_rank
        state = trainer._checkpoint_connector.dump_checkpoint(weights_only=False)
        state["exports"] = exports_of(module)
        try:
            if trainer.is_global_zero:
                self._check_disk()
                self.generations.begin(name)
            distributed.barrier()
            temporary = self.generations.folder / f".{name}.tmp"
            own = {
                "data": data.save(self.store),
                "metrics": module.metrics_state(),
                "random": seeding.global_state(),
            }
            write_file(own, temporary / f"rank-{rank}.pt")
            mine = [f"rank-{rank}/{name}" for name in self.store.files()]
            segments = [segment for part in distributed.gather_objects(mine) for segment in part]
            if trainer.is_global_zero:
                write_file(state, temporary / "model.ckpt")
                self._last_bytes = sum(p.stat().st_size for p in temporary.iterdir())
                self.generations.finish(temporary, name, self._meta(trainer, kind, segments))
            distributed.barrier()
        except OSError as error:
            raise ResumeError(
                f"the checkpoint at {data.clock.clock_name} {data.clock.now} could not be written "
                f"({error.strerror or error}); the one before it is intact\n{self.generations.folder}"
            ) from error
        self._saved_at = time.monotonic()

    def _meta(self, trainer: Trainer, kind: str, segments: list[str]) -> dict[str, Any]:
        schedule = clock_of(trainer)
        return {
            "kind": kind,
            "env_step": schedule.env_step,
            "update": schedule.update,
            "ranks": trainer.world_size,
            "algorithm": type(trainer.lightning_module).__name__,
            "data": type(data_of(trainer)).__name__,
            "spec": list(data_of(trainer).spec),
            "evaluation": self.evaluation.last,
            "segments": segments,
        }

    def save_best(self, trainer: Trainer, module: Any) -> None:
        """The weights alone, with the evaluation that made them the best."""
        if not trainer.is_global_zero or self.evaluation.best is None:
            return
        schedule = clock_of(trainer)
        self.generations.folder.mkdir(parents=True, exist_ok=True)
        described = {
            "env_step": schedule.env_step,
            "update": schedule.update,
            "return": self.evaluation.best[1],
        }
        path = self.generations.folder / "best.ckpt"
        state = {"state_dict": module.state_dict(), "exports": exports_of(module), **described}
        module.on_save_checkpoint(state)  # with what it was made with: the file alone makes the module again
        write_file(state, path)
        write_json(path.with_suffix(".json"), described)

    def _recall_best(self, clock: str) -> None:
        """best.ckpt may be of an evaluation after this checkpoint, e.g. the closing one of a smaller budget."""
        try:
            there = json.loads((self.generations.folder / "best.json").read_text())
            best = (int(there[clock]), float(there["return"]))
        except (OSError, ValueError, KeyError, TypeError):
            return
        if self.evaluation.best is None or best[1] > self.evaluation.best[1]:
            self.evaluation.best = best

    def _check_disk(self) -> None:
        """Refuses to begin what would not fit: one and a half times the last checkpoint must be free."""
        self.generations.folder.mkdir(parents=True, exist_ok=True)
        free, needed = (
            shutil.disk_usage(self.generations.folder).free,
            max(1_000_000, int(1.5 * self._last_bytes)),
        )
        if free < needed:
            checkpoints = self.generations.checkpoints()
            again = (
                f"rl resume {self.generations.folder.parent.name}" if checkpoints else "the same line again"
            )
            raise ResumeError(
                f"{self.generations.folder}: {file_size(free)} free, a checkpoint needs {file_size(needed)}. "
                f"Free some space and type: {again}"
            )

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen, "evaluation": self.evaluation.state_dict() if self._own_history else None}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.seen = state_dict["seen"]
        if state_dict["evaluation"] is not None:
            self.evaluation.load_state_dict(state_dict["evaluation"])


def exports_of(module: Any) -> dict[str, Any]:
    """What later stages may take, as plain values."""
    return {name: part._asdict() for name, part in module.exports().items()}


def check_checkpoint(folder: Path, algorithm: str, spec: list[Any], world_size: int) -> dict[str, Any]:
    """Raises unless the generation is whole and of this algorithm, env and number of ranks; returns its description."""
    meta = verify(folder)
    if meta.get("algorithm") != algorithm:
        raise ResumeError(f"{folder} is of {meta.get('algorithm')}, this run trains {algorithm}")
    if meta.get("spec") is not None and _plain(meta["spec"]) != _plain(spec):
        raise ResumeError(f"{folder} was trained on {meta['spec'][:2]}, this run has {list(spec)[:2]}")
    if meta["ranks"] != world_size:
        raise ResumeError(
            f"{folder} was saved by {meta['ranks']} processes and {world_size} are running: an exact resume needs as "
            f"many.\nUse --trainer.devices {meta['ranks']}, or begin anew from its weights: "
            f"rl fit --config ... --ckpt_path {folder} --resume_mode warm_start"
        )
    read_file(folder / "model.ckpt")  # what cannot be loaded safely is refused here, in a line
    return meta


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
