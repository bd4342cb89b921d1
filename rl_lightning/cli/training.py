"""One Trainer.fit of one run: start-up line, record, exit code, closing lines."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import torch

from rl_lightning.callbacks import Control, Evaluate, default_callbacks, make_loggers
from rl_lightning.callbacks.checkpoint import check_generation
from rl_lightning.callbacks.loggers import log_hyperparams
from rl_lightning.callbacks.progress import clock_time
from rl_lightning.cli.compose import Config
from rl_lightning.cli.lightning import RLCLI
from rl_lightning.errors import DivergedError, RLError
from rl_lightning.experiments.plot import short
from rl_lightning.experiments.runs import Run

EXIT = {signal.SIGINT: 130, signal.SIGTERM: 143}


class Training:
    """Trains what a CLI has built, in a run's folder.

    Args:
        cli: With data and model built.
        run: The claimed folder.
        config: Resolved config, without secrets, for the loggers.
        debug: Watch everything.
        resume_from: The generation to go on from.
    """

    def __init__(
        self, cli: RLCLI, run: Run, config: Config, debug: bool = False, resume_from: Path | None = None
    ) -> None:
        self.cli, self.run, self.resume_from = cli, run, resume_from
        record = run.read()
        model, data = cli.model, cli.datamodule
        self.algorithm, self.task = type(model).__name__, data.spec.env_id
        log, tags = cli.config_init.log, list(cli.config_init.run.tags)
        group = record.get("group") or self.algorithm
        loggers = make_loggers(run.folder, log, self.task, group, run.name, tags)
        callbacks = default_callbacks(run.folder, log, self.report, run.name, debug, resume_from)
        self.control = next(item for item in callbacks if isinstance(item, Control))
        self.evaluation = next(item for item in callbacks if isinstance(item, Evaluate))
        self.trainer = cli.make_trainer(callbacks, loggers)
        if resume_from is not None:
            check_generation(resume_from, self.algorithm, list(data.spec), self.trainer.world_size)
        else:
            log_hyperparams(loggers, config)

    @property
    def first(self) -> bool:
        return os.environ.get("LOCAL_RANK", "0") == "0"

    def report(self, **fields: Any) -> None:
        """Keeps run.json up to date while training."""
        if self.first:
            best = self.evaluation.best
            scores = {"best": best[1] if best else None, "best_at": best[0] if best else None}
            self.run.update(**{"status": "running", **scores, "last10": self.evaluation.last10, **fields})

    def fit(self) -> int:
        began = time.monotonic()
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
            code = EXIT.get(self.control.caught, 0) if self.control.caught is not None else 0  # type: ignore[call-overload]
            status = "interrupted" if code else "finished"
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
            schedule = self.cli.datamodule.schedule
            self.report(status=status, env_step=schedule.env_step, update=schedule.update)
        self.say(self.closing(code, time.monotonic() - began))
        return code

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
            " or ".join(budgets),
            str(self.run.folder),
        ]
        return " · ".join(parts)

    def closing(self, code: int, seconds: float) -> str:
        schedule, name = self.cli.datamodule.schedule, self.run.name
        done = f"{short(schedule.now)} {schedule.clock}s in {clock_time(seconds)}"
        if code:
            return f"stopped after {done}; saved. Go on with: rl resume {name}"
        scores = ""
        if self.evaluation.best is not None:
            scores = f" · best {self.evaluation.best[1]:.1f} · last-10 mean {self.evaluation.last10:.1f}"
        following = f"rl play {name} · rl plot {name} · rl test {name}"
        return f"done: {done}{scores}\nrun:  {self.run.folder}\nnext: {following}"
