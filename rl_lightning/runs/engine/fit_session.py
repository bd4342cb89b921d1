"""One Trainer.fit of one run: start-up line, record, exit code, closing lines."""

from __future__ import annotations

import contextlib
import os
import signal
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from rl_lightning import distributed
from rl_lightning.callbacks import (
    EvaluationHistory,
    RunCheckpoint,
    RunController,
    default_callbacks,
    make_loggers,
)
from rl_lightning.callbacks.debug import DebugMonitor
from rl_lightning.callbacks.optimizer_warm_start import LearningRateReset, OptimizerWarmStart
from rl_lightning.checkpoints.run_checkpoint import check_checkpoint
from rl_lightning.datasets.data_files import READABLE
from rl_lightning.envs.model_env.learned_env import artifact_name
from rl_lightning.errors import DivergedError, EnvError, ResumeError, RLError
from rl_lightning.io.checkpoint_files import read_meta
from rl_lightning.io.text import clock_time, counted, short
from rl_lightning.loggers.make_loggers import Titles, close_loggers, log_hyperparams_to_all, log_scores
from rl_lightning.redaction import redact
from rl_lightning.runs.config.build import RLCLI
from rl_lightning.runs.config.compose import Config
from rl_lightning.runs.engine.ending import FitEnding, ending
from rl_lightning.runs.engine.matmul_choice import choose_matmul
from rl_lightning.runs.engine.run_start import RunStart, load_weights
from rl_lightning.runs.request import Request
from rl_lightning.runs.store.run_folder import Run, logs_root
from rl_lightning.stop_request import EXIT, BlockAbandoned


def clock_of(generation: Path, clock: str) -> int:
    return int(read_meta(generation)[clock])


class FitSession:
    """Trains what a CLI has built, in a run's folder.

    Args:
        cli: With data and model built.
        run: The claimed folder.
        config: Resolved config, without secrets, for the loggers.
        debug: Watches everything.
        start: What the run begins with.
        title: What stands before the bar; empty: the run's name.
        started: Called once everything has been loaded, and nothing trained yet.
    """

    def __init__(
        self,
        cli: RLCLI,
        run: Run,
        config: Config,
        debug: DebugMonitor | None = None,
        start: RunStart | None = None,
        title: str = "",
        started: Callable[[], None] | None = None,
    ) -> None:
        start = start or RunStart()
        self.cli, self.run, self.ckpt_path, self.debug = cli, run, start.generation, debug
        self.ended = FitEnding("", cut=False)
        self.noted: set[str] = set()  # notes that were told before the stage began
        self.stands: tuple[int, int] | None = None  # clocks of the checkpoint, where a block was abandoned
        model, data = cli.model, cli.datamodule
        self.algorithm, self.task = type(model).__name__, data.spec.env_id
        log = cli.config_init.log
        purge = None if self.ckpt_path is None else clock_of(self.ckpt_path, data.clock_name) + 1
        self.loggers = loggers = make_loggers(run.folder, log, self.titles(), purge)
        callbacks = default_callbacks(
            run.folder, log, self.report, title or run.name, debug, self.ckpt_path, start.reset_lr
        )
        if start.weights is not None:
            load_weights(model, start.weights)
        if start.optimizers is not None:
            callbacks.insert(0, OptimizerWarmStart(start.optimizers))
        if start.reset_lr:
            callbacks.insert(0, LearningRateReset())
        self.control = next(item for item in callbacks if isinstance(item, RunController))
        self.evaluation = next(item for item in callbacks if isinstance(item, EvaluationHistory))
        self.saving = next(item for item in callbacks if isinstance(item, RunCheckpoint))
        self.saving.on_ready = started
        self.trainer = cli.make_trainer(callbacks, loggers, run.folder)
        before = None if self.ckpt_path is None else run.read().get("matmul")
        self.matmul = choose_matmul(
            cli.config.matmul,
            before,
            model,
            data,
            self.trainer.strategy.root_device.type,
            self.trainer.precision,
        )
        if self.ckpt_path is not None:
            check_checkpoint(self.ckpt_path, self.algorithm, list(data.spec), self.trainer.world_size)
        else:
            log_hyperparams_to_all(loggers, config)

    def titles(self) -> Titles:
        """A stage is called by its pipeline and its own name, and belongs to the pipeline or its group of seeds."""
        record, whole, name = self.run.read(), Run(self.run.folder.parent), self.run.name
        group = record.get("group") or self.algorithm
        if (whole.folder / "pipeline.json").is_file():
            name, group = f"{whole.name}/{name}", whole.read().get("group") or whole.name
        clock, dataset = self.cli.datamodule.clock_name, self.dataset if self.offline else None
        tags = redact(list(self.cli.config_init.run.tags))
        return Titles(
            dataset or self.task, group, name, tags, str(record.get("id") or uuid.uuid4().hex[:12]), clock
        )

    @property
    def offline(self) -> bool:
        return self.cli.datamodule.clock_name == "update"

    @property
    def dataset(self) -> str | None:
        """The name of the recorded data, where they have one."""
        name = self.cli.data_arguments().get("dataset")
        if not isinstance(name, str):
            return None
        path = Path(name).expanduser()
        return path.stem if path.suffix.lower() in READABLE or path.is_dir() else name

    @property
    def plays(self) -> bool:
        """Whether the policy has an env that it can be evaluated in."""
        data = self.cli.datamodule
        has_env = data.eval_model is not None or getattr(data, "env", None) is not None or not self.offline
        return self.cli.model.evaluated_on == "episodes" and has_env

    @property
    def model_name(self) -> str:
        """The learned model that evaluation acts in."""
        settings = self.cli.datamodule.eval_model
        return "" if settings is None else artifact_name(settings.dynamics)

    @property
    def first(self) -> bool:
        return distributed.is_rank_zero()

    def model_flags(self) -> str:
        """What to type for an evaluation in a learned model."""
        own = "dynamics" in self.cli.data_arguments()
        return "--data.eval_env model" + ("" if own else " --data.eval_dynamics RUN/dynamics")

    def report(self, **fields: Any) -> None:
        """Keeps run.json up to date while training."""
        if self.first:
            best = self.evaluation.best
            scores = {"best": best[1] if best else None, "best_at": best[0] if best else None}
            self.run.update(**{"status": "running", **scores, **self.evaluation.newest, **fields})
            if best is not None and self.evaluation.last10 is not None:
                now = self.cli.datamodule.clock.now
                log_scores(self.loggers, best[1], self.evaluation.last10, now)

    def fit(self) -> int:
        began, before = time.monotonic(), self.run.read()
        self.say(self.opening())
        if self.offline and self.cli.model.evaluated_on == "episodes" and not self.plays:
            self.say(
                f"note: {self.dataset} names no env: nothing is evaluated. Name it with: --data.env.id ID, or evaluate "
                f"in a learned model: {self.model_flags()}"
            )
        for line in self.cli.datamodule.notes():
            if line not in self.noted:
                self.say(f"note: {line}")
        self.report(
            pid=os.getpid(),
            matmul=self.matmul.record(),
            evaluated_on=self.cli.model.evaluated_on,
            **({"env": self.task} if self.task else {}),
            **({} if self.cli.datamodule.eval_model is None else {"evaluated_in": self.model_name}),
        )
        self.control.farewell = lambda: self.give_up(before, time.monotonic() - began)
        status = "failed"
        try:
            with self.matmul.inside():
                self.trainer.fit(
                    self.cli.model,
                    datamodule=self.cli.datamodule,
                    ckpt_path=str(self.ckpt_path / "model.ckpt") if self.ckpt_path else None,
                    weights_only=True,
                )
            code = 0 if self.control.caught is None else EXIT.get(signal.Signals(self.control.caught), 143)
            self.ended = ending(self.trainer, self.cli.datamodule.clock)
            status = "interrupted" if code or self.ended.cut else "finished"
            if not code:
                self.report(ended_by=self.ended.reason)
        except (BlockAbandoned, SystemExit):  # the latter is how Lightning ends a run on a second signal
            caught = self.control.caught or signal.SIGINT
            code, status = EXIT.get(signal.Signals(caught), 143), "interrupted"
            self.stands = self.saving.last_saved
        except DivergedError:
            status = "diverged"
            raise
        except RLError:
            raise
        except (NotImplementedError, RuntimeError) as error:
            self.explain_device(error)
            self.explain_weights(error)
            code, status = self.after_lost_rank(error), "interrupted"
            self.stands = self.saving.last_saved
        finally:
            self.note(status, before)
            close_loggers(self.loggers)
        if code and not self.saving.ready:  # Ctrl-C while things were set up: there is nothing to resume from
            raise KeyboardInterrupt
        self.say(self.closing(code, time.monotonic() - began))
        return code

    def give_up(self, before: dict[str, Any], seconds: float) -> None:
        """The process is about to be ended from beside the run, which hangs."""
        self.stands = self.saving.last_saved
        self.note("interrupted", before)
        self.say(self.closing(143, seconds))

    def note(self, status: str, before: dict[str, Any]) -> None:
        """How it ended. Of a run that could not be loaded nothing is noted: its record stays as it was."""
        with contextlib.suppress(OSError):  # a full disk was told of already, and better
            if self.ckpt_path is not None and not self.saving.ready:
                if self.first:
                    self.run.replace(before)
                return
            self.note_restarts()
            env_step, update = self.clocks()
            self.report(status=status, env_step=env_step, update=update)

    def clocks(self) -> tuple[int, int]:
        """Where the run stands: after an abandoned block at its checkpoint, whatever the block had begun."""
        schedule = self.cli.datamodule.clock
        return self.stands or (schedule.env_step, schedule.update)

    def note_restarts(self) -> None:
        """An env that could not be saved began a new episode: the run is no longer exact, and says so."""
        restarted = getattr(self.cli.datamodule, "restarted", [])
        if restarted and self.ckpt_path is not None:
            self.say(f"note: {len(restarted)} envs of {self.task} cannot be saved and began a new episode")
            self.report(exact=False)

    def say(self, text: str) -> None:
        if self.first:
            print(text, flush=True)

    def explain_device(self, error: Exception) -> None:
        if "out of memory" in str(error).lower():
            raise RLError(f"the device ran out of memory: {str(error).splitlines()[0]}") from error

    def explain_weights(self, error: Exception) -> None:
        """A module of other sizes than the checkpoint's, which Lightning tells weight by weight."""
        head, *wrong = str(error).splitlines() or [""]
        if self.ckpt_path is not None and not self.saving.ready and "loading state_dict" in head:
            why = (wrong or [head])[0].strip()
            raise ResumeError(
                f"{self.ckpt_path}: its weights do not fit this {self.algorithm}: {why[:200]}"
            ) from error

    def after_lost_rank(self, error: Exception) -> int:
        """Another process has ended: the first tells of it. The code, where it only did as it was told to."""
        if not distributed.is_lost_peer(error) or self.trainer.world_size == 1:
            raise error
        if not self.first:
            raise SystemExit(1)  # told of by the first, or by whoever started us
        lost = distributed.lost()
        if lost is not None and lost.code in EXIT.values():
            return lost.code
        gone = EnvError(f"{lost or 'another process ended'}; continue with: rl resume {self.run.name}")
        gone.exit_code = lost.code if lost is not None and lost.code > 0 else gone.exit_code
        raise gone from error

    def opening(self) -> str:
        """One line instead of Lightning's many."""
        run = self.cli.config_init.run
        weights = sum(weight.numel() for weight in self.cli.model.parameters())
        budgets = [
            f"{short(amount)} {unit}"
            for amount, unit in ((run.env_steps, "env steps"), (run.updates, "updates"))
            if amount
        ]
        budgets += [f"at most {clock_time(run.max_seconds())}"] if run.max_hours is not None else []
        device = self.trainer.strategy.root_device.type
        subject = " of ".join(filter(None, (self.dataset, self.task)))
        threads = counted(torch.get_num_threads(), "thread")
        parts = [
            f"{self.algorithm} on {subject or 'its data'}",
            f"{device}, {threads}, seed {self.cli.config.seed_everything}",
            str(self.matmul),
            f"{short(weights)} parameters",
            " or ".join(budgets) or "until its phases end",
            str(self.run.folder),
        ]
        return " · ".join(filter(None, parts))

    def closing(self, code: int, seconds: float) -> str:
        schedule, name = self.cli.datamodule.clock, self.run.name
        now = self.clocks()[schedule.clock_name == "update"]
        done = f"{short(now)} {schedule.clock_name}s in {clock_time(seconds)}"
        if code:
            pass
        elif schedule.phases is not None and schedule.is_finished and not schedule.spent:
            done += f", {schedule.reason}"
        elif self.ended.reason in ("env_steps", "updates") and not self.ended.reason.startswith(
            schedule.clock_name
        ):
            done += f", {schedule.reason}"  # the budget is of the other clock
        elif self.ended.reason not in ("", "env_steps", "updates"):
            done += f", {self.ended.reason}"
        if code:
            whole = self.run.folder.parent
            name = name if whole.resolve() == logs_root().resolve() else whole.name
            return f"stopped after {done}; continue with: rl resume {name}"
        name = self.run.command_name
        on_rows = self.cli.model.evaluated_on == "rows"
        verbs = ("play", "plot", "test") if self.plays else ("plot", "test") if on_rows else ("plot",)
        following = " · ".join(f"rl {verb} {name}" for verb in verbs)
        word = "done" if self.ended.budget else "cut" if self.ended.cut else "ended"
        scores = self.evaluation.summary(schedule.clock_name)
        if scores and self.cli.datamodule.eval_model is not None:
            scores += f" · in the model {self.model_name}"
        checked = "" if self.debug is None else f"\n{self.debug.summary()}"
        return f"{word}: {done}{scores}\nrun:  {self.run.folder}\nnext: {following}{checked}"


def debug_monitor(run: Run, request: Request) -> DebugMonitor | None:
    """Watches a run that was asked to be watched; a new one only for so long."""
    if not request.debug:
        return None
    return DebugMonitor(str(run.folder), seconds=request.debug_seconds if request.small else None)
