"""Saving and going on: state is taken at the ends of blocks only, and written whole or not at all."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, Trainer

from rl_lightning import interrupt, ranks, seeding
from rl_lightning.buffers.segments import SegmentStore
from rl_lightning.callbacks.evaluation import Evaluate
from rl_lightning.callbacks.generations import Generations, read_file, verify, write_file, write_json
from rl_lightning.errors import ResumeError
from rl_lightning.interrupt import BlockAbandoned
from rl_lightning.rollout.schedule import crossed


class Restore(Callback):
    """Loads what a run goes on from. First of all callbacks: what does not fit is refused before a file is touched.

    Args:
        saving: The callback that knows where it goes on from.
    """

    def __init__(self, saving: SaveCheckpoints) -> None:
        self.saving = saving

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        """Here, because the stream exists by now and nothing has been drawn from it yet."""
        self.saving.restore(trainer, pl_module)


class SaveCheckpoints(Callback):
    """Keeps the newest generations, the best weights and milestones; loads a generation when a run goes on.

    Args:
        folder: The run's folder.
        evaluation: The callback that knows which evaluation was the best.
        resume_from: The generation to go on from, exactly; null starts anew.
        changed: What was loaded differs from the checkpoint (a new learning rate): it is saved at once.
    """

    def __init__(
        self, folder: str, evaluation: Evaluate, resume_from: str | None = None, changed: bool = False
    ) -> None:
        self.generations = Generations(Path(folder) / "checkpoints")
        self.evaluation = evaluation
        self.resume_from, self.changed = resume_from, changed
        self.seen = 0
        self.last_saved: tuple[int, int] | None = None  # clocks of the newest generation
        self.restored: dict[str, Any] | None = None  # this rank's part of the generation
        self.ready = False  # everything is loaded: from here on an exception is one of training
        self._saved_at = time.monotonic()
        self._last_bytes = 0

    def setup(self, trainer: Trainer, pl_module: Any, stage: str) -> None:
        if stage == "fit" and trainer.is_global_zero:
            self._check_disk()

    def _store(self, rank: int) -> SegmentStore:
        return SegmentStore(self.generations.folder / "replay" / f"rank-{rank}")

    def restore(self, trainer: Trainer, module: Any) -> None:
        """Loads the generation that the run goes on from, if there is one."""
        self.store = self._store(trainer.global_rank)
        if self.resume_from is None:
            return
        folder = Path(self.resume_from)
        self.restored = read_file(folder / f"rank-{trainer.global_rank}.pt")
        own = folder.parent == self.generations.folder
        # A run forked from another's checkpoint takes its rows along.
        rows = self.store if own else SegmentStore(folder.parent / "replay" / f"rank-{trainer.global_rank}")
        trainer.datamodule.load(self.restored["data"], rows)  # type: ignore[attr-defined]
        module.load_metrics_state(self.restored["metrics"])

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        """The last to change anything before the first block: random states are those of the checkpoint."""
        self._saved_at, self.ready = time.monotonic(), True
        if self.resume_from is None or self.restored is None:
            # Ranks share their first weights, and nothing random after that.
            seeding.seed_globals(trainer.datamodule.seed, "train", trainer.global_rank)  # type: ignore[attr-defined]
            self.save_last(trainer, pl_module)  # there is always one to go on from, and the disk was tried
            return
        seeding.set_global_state(self.restored["random"])
        self.restored, folder = None, Path(self.resume_from)
        schedule = trainer.datamodule.schedule  # type: ignore[attr-defined]
        self._recall_best(schedule.clock)
        if self.generations.found()[-1:] == [folder] and not self.changed:
            self.last_saved = (schedule.env_step, schedule.update)
        else:  # from here on this is where the run stands, whatever newer ones were passed over
            self.save_last(trainer, pl_module)

    def on_exception(self, trainer: Trainer, pl_module: Any, exception: BaseException) -> None:
        """Keeps the weights as they are for a look; the last generation, not these, is what a run goes on from."""
        told = isinstance(exception, BlockAbandoned | KeyboardInterrupt)
        if told or not self.ready or not trainer.is_global_zero:
            return
        with contextlib.suppress(Exception):  # whatever is wrong here, the reason of the crash is what counts
            crash = {
                "state_dict": pl_module.state_dict(),
                "error": f"{type(exception).__name__}: {exception}",
            }
            write_file(crash, self.generations.folder / "crash.ckpt")

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *args: Any) -> None:
        schedule = trainer.datamodule.schedule  # type: ignore[attr-defined]
        run, before, now = schedule.run, self.seen, schedule.now
        self.seen = now
        if self.evaluation.is_best:
            self.save_best(trainer, pl_module)
        if crossed(before, now, run.keep_every):
            self.save(trainer, pl_module, f"step-{now}", "milestone")
        minutes = (time.monotonic() - self._saved_at) / 60
        timed = ranks.from_rank_zero(run.save_minutes is not None and minutes >= run.save_minutes)
        evaluated = run.save_every is None and self.evaluation.last_at == now
        if crossed(before, now, run.save_every) or evaluated or timed or trainer.should_stop:
            self.save_last(trainer, pl_module)

    def save_last(self, trainer: Trainer, module: Any) -> None:
        """A new generation, unless nothing has happened since the newest one."""
        schedule = trainer.datamodule.schedule  # type: ignore[attr-defined]
        clocks = (schedule.env_step, schedule.update)
        if clocks == self.last_saved:
            return
        serial = ranks.from_rank_zero(self.generations.next_serial() if trainer.is_global_zero else 0)
        self.save(trainer, module, f"last-{serial:06d}", "last")
        self.last_saved = clocks
        if trainer.is_global_zero:
            self.generations.prune()

    def save(self, trainer: Trainer, module: Any, name: str, kind: str) -> None:
        """Rank 0 writes the model, every rank its own side file; the description comes last."""
        with interrupt.shield():
            self._save(trainer, module, name, kind)

    def _save(self, trainer: Trainer, module: Any, name: str, kind: str) -> None:
        data, rank = trainer.datamodule, trainer.global_rank  # type: ignore[attr-defined]
        state = trainer._checkpoint_connector.dump_checkpoint(weights_only=False)
        state["provides"] = provided_by(module)
        try:
            if trainer.is_global_zero:
                self._check_disk()
                self.generations.begin(name)
            ranks.barrier()
            temporary = self.generations.folder / f".{name}.tmp"
            own = {
                "data": data.save(self.store),
                "metrics": module.metrics_state(),
                "random": seeding.global_state(),
            }
            write_file(own, temporary / f"rank-{rank}.pt")
            mine = [f"rank-{rank}/{name}" for name in self.store.files()]
            segments = [segment for part in ranks.gather_objects(mine) for segment in part]
            if trainer.is_global_zero:
                write_file(state, temporary / "model.ckpt")
                self._last_bytes = sum(p.stat().st_size for p in temporary.iterdir())
                self.generations.finish(temporary, name, self._meta(trainer, kind, segments))
            ranks.barrier()
        except OSError as error:
            raise ResumeError(
                f"the checkpoint at {data.schedule.clock} {data.schedule.now} could not be written "
                f"({error.strerror or error}); the one before it is intact\n{self.generations.folder}"
            ) from error
        self._saved_at = time.monotonic()

    def _meta(self, trainer: Trainer, kind: str, segments: list[str]) -> dict[str, Any]:
        schedule = trainer.datamodule.schedule  # type: ignore[attr-defined]
        return {
            "kind": kind,
            "env_step": schedule.env_step,
            "update": schedule.update,
            "ranks": trainer.world_size,
            "algorithm": type(trainer.lightning_module).__name__,
            "data": type(trainer.datamodule).__name__,  # type: ignore[attr-defined]
            "spec": list(trainer.datamodule.spec),  # type: ignore[attr-defined]
            "evaluation": self.evaluation.last,
            "segments": segments,
        }

    def save_best(self, trainer: Trainer, module: Any) -> None:
        """The weights alone, with the evaluation that earned them."""
        if not trainer.is_global_zero or self.evaluation.best is None:
            return
        schedule = trainer.datamodule.schedule  # type: ignore[attr-defined]
        self.generations.folder.mkdir(parents=True, exist_ok=True)
        described = {
            "env_step": schedule.env_step,
            "update": schedule.update,
            "return": self.evaluation.best[1],
        }
        path = self.generations.folder / "best.ckpt"
        write_file({"state_dict": module.state_dict(), "provides": provided_by(module), **described}, path)
        write_json(described, path.with_suffix(".json"))

    def _recall_best(self, clock: str) -> None:
        """best.ckpt may be of an evaluation after this checkpoint, e.g. the closing one of a smaller budget."""
        try:
            there = json.loads((self.generations.folder / "best.json").read_text())
            found = (int(there[clock]), float(there["return"]))
        except (OSError, ValueError, KeyError, TypeError):
            return
        if self.evaluation.best is None or found[1] > self.evaluation.best[1]:
            self.evaluation.best = found

    def _check_disk(self) -> None:
        """Refuses to begin what would not fit: one and a half times the last checkpoint must be free."""
        self.generations.folder.mkdir(parents=True, exist_ok=True)
        free, needed = (
            shutil.disk_usage(self.generations.folder).free,
            max(1_000_000, int(1.5 * self._last_bytes)),
        )
        if free < needed:
            begun = self.generations.found()
            again = f"rl resume {self.generations.folder.parent.name}" if begun else "the same line again"
            raise ResumeError(
                f"{self.generations.folder}: {free / 2**20:.1f} MB free, a checkpoint needs {needed / 2**20:.1f} MB. "
                f"Free some space and type: {again}"
            )

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen = state["seen"]


def provided_by(module: Any) -> dict[str, Any]:
    """What later stages may take, as plain values."""
    return {name: part._asdict() for name, part in module.provides().items()}


def check_generation(folder: Path, algorithm: str, spec: list[Any], world_size: int) -> dict[str, Any]:
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
