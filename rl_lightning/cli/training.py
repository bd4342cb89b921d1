"""One Trainer.fit of one run: start-up line, record, exit code, closing lines."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.callbacks import LambdaCallback

from rl_lightning import ranks
from rl_lightning.callbacks import Control, Evaluate, SaveCheckpoints, default_callbacks, make_loggers
from rl_lightning.callbacks.checkpoint import check_generation
from rl_lightning.callbacks.generations import read_meta
from rl_lightning.callbacks.loggers import log_hyperparams
from rl_lightning.callbacks.progress import clock_time
from rl_lightning.callbacks.warm import ResetLR, WarmOptimizers
from rl_lightning.cli.compose import Config
from rl_lightning.cli.lightning import RLCLI
from rl_lightning.cli.start import Start, load_weights
from rl_lightning.errors import DivergedError, RLError
from rl_lightning.experiments.plot import short
from rl_lightning.experiments.runs import Run, logs_root
from rl_lightning.interrupt import BlockAbandoned

EXIT = {signal.SIGINT: 130, signal.SIGTERM: 143}


def clock_of(generation: Path, clock: str) -> int:
    return int(read_meta(generation)[clock])


class Training:
    """Trains what a CLI has built, in a run's folder.

    Args:
        cli: With data and model built.
        run: The claimed folder.
        config: Resolved config, without secrets, for the loggers.
        debug: Watch everything.
        start: What the run begins with.
        title: What stands before the bar; empty: the run's name.
        started: Called once everything has been loaded, and nothing trained yet.
    """

    def __init__(
        self,
        cli: RLCLI,
        run: Run,
        config: Config,
        debug: bool = False,
        start: Start | None = None,
        title: str = "",
        started: Callable[[], None] | None = None,
    ) -> None:
        start = start or Start()
        self.cli, self.run, self.resume_from = cli, run, start.generation
        record = run.read()
        model, data = cli.model, cli.datamodule
        self.algorithm, self.task = type(model).__name__, data.spec.env_id
        log, tags = cli.config_init.log, list(cli.config_init.run.tags)
        group = record.get("group") or self.algorithm
        purge = None if self.resume_from is None else clock_of(self.resume_from, data.clock) + 1
        loggers = make_loggers(run.folder, log, self.task, group, run.name, tags, purge)
        callbacks = default_callbacks(
            run.folder, log, self.report, title or run.name, debug, self.resume_from, start.reset_lr
        )
        if start.weights is not None:
            load_weights(model, start.weights)
        if start.optimizers is not None:
            callbacks.insert(0, WarmOptimizers(start.optimizers))
        if start.reset_lr:
            callbacks.insert(0, ResetLR())
        if started is not None:
            callbacks.append(LambdaCallback(on_train_start=lambda *_: started()))
        self.control = next(item for item in callbacks if isinstance(item, Control))
        self.evaluation = next(item for item in callbacks if isinstance(item, Evaluate))
        self.saving = next(item for item in callbacks if isinstance(item, SaveCheckpoints))
        self.trainer = cli.make_trainer(callbacks, loggers)
        if self.resume_from is not None:
            check_generation(self.resume_from, self.algorithm, list(data.spec), self.trainer.world_size)
        else:
            log_hyperparams(loggers, config)

    @property
    def first(self) -> bool:
        return ranks.first()

    def report(self, **fields: Any) -> None:
        """Keeps run.json up to date while training."""
        if self.first:
            best = self.evaluation.best
            scores = {"best": best[1] if best else None, "best_at": best[0] if best else None}
            self.run.update(**{"status": "running", **scores, "last10": self.evaluation.last10, **fields})

    def fit(self) -> int:
        began, before = time.monotonic(), self.run.read()
        self.say(self.opening())
        self.report(pid=os.getpid())
        status = "failed"
        try:
            self.trainer.fit(
                self.cli.model,
                datamodule=self.cli.datamodule,
                ckpt_path=str(self.resume_from / "model.ckpt") if self.resume_from else None,
                weights_only=True,
            )
            code = 0 if self.control.caught is None else EXIT.get(signal.Signals(self.control.caught), 143)
            status = "interrupted" if code else "finished"
        except BlockAbandoned:
            caught = self.control.caught or signal.SIGTERM
            code, status = EXIT.get(signal.Signals(caught), 143), "interrupted"
        except SystemExit:  # how Lightning ends a run on a second Ctrl-C
            code, status = 130, "interrupted"
        except DivergedError:
            status = "diverged"
            raise
        except RLError:
            raise
        except (NotImplementedError, RuntimeError) as error:
            self.explain_device(error)
            raise
        finally:
            self.note(status, before)
        self.say(self.closing(code, time.monotonic() - began))
        return code

    def note(self, status: str, before: dict[str, Any]) -> None:
        """How it ended. Of a run that could not be loaded nothing is noted: its record stays as it was."""
        with contextlib.suppress(OSError):  # a full disk was told of already, and better
            if self.resume_from is not None and not self.saving.ready:
                if self.first:
                    self.run.replace(before)
                return
            schedule = self.cli.datamodule.schedule
            self.note_restarts()
            self.report(status=status, env_step=schedule.env_step, update=schedule.update)

    def note_restarts(self) -> None:
        """An env that could not be saved began a new episode: the run is no longer exact, and says so."""
        restarted = getattr(self.cli.datamodule, "restarted", [])
        if restarted and self.resume_from is not None:
            self.say(f"note: {len(restarted)} envs of {self.task} cannot be saved and began a new episode")
            self.report(exact=False)

    def say(self, text: str) -> None:
        if self.first:
            print(text, flush=True)

    def explain_device(self, error: Exception) -> None:
        if "out of memory" in str(error).lower():
            raise RLError(f"the device ran out of memory: {str(error).splitlines()[0]}") from error

    def opening(self) -> str:
        """One line instead of Lightning's many."""
        run = self.cli.config_init.run
        weights = sum(weight.numel() for weight in self.cli.model.parameters())
        budgets = [
            f"{short(amount)} {unit}"
            for amount, unit in ((run.env_steps, "env steps"), (run.updates, "updates"))
            if amount
        ]
        budgets += [f"at most {clock_time(run.max_seconds())}"] if run.max_time is not None else []
        device = self.trainer.strategy.root_device.type
        parts = [
            f"{self.algorithm} on {self.task}",
            f"{device}, {torch.get_num_threads()} threads, seed {self.cli.config.seed_everything}",
            f"{short(weights)} parameters",
            " or ".join(budgets) or "until its phases end",
            str(self.run.folder),
        ]
        return " · ".join(parts)

    def closing(self, code: int, seconds: float) -> str:
        schedule, name = self.cli.datamodule.schedule, self.run.name
        done = f"{short(schedule.now)} {schedule.clock}s in {clock_time(seconds)}"
        if schedule.phases is not None and schedule.finished:
            done += f", {schedule.reason}"
        if code:
            whole = self.run.folder.parent
            name = name if whole.resolve() == logs_root().resolve() else whole.name
            return f"stopped after {done}; go on with: rl resume {name}"
        scores = ""
        if self.evaluation.best is not None:
            scores = f" · best {self.evaluation.best[1]:.1f} · last-10 mean {self.evaluation.last10:.1f}"
        name = name if self.run.folder.parent == logs_root() else str(self.run.folder)
        verbs = ("play", "plot", "test") if self.cli.model.acts else ("plot", "test")
        following = " · ".join(f"rl {verb} {name}" for verb in verbs)
        return f"done: {done}{scores}\nrun:  {self.run.folder}\nnext: {following}"
