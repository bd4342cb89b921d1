"""`resume`: continues a run, or every run of a group of seeds."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from rl_lightning.api.group import TrainedRuns
from rl_lightning.api.objects import sort_out
from rl_lightning.api.run import TrainedRun, fit_one
from rl_lightning.api.spelling import spoken_in_python

if TYPE_CHECKING:
    from rl_lightning.runs.request import Request
    from rl_lightning.runs.store.run_folder import Run


@dataclass(frozen=True)
class ResumeChanges:
    """What a resumption changes.

    Args:
        overrides: Settings by their dotted names.
        short: Those that have an argument of their own.
        checkpoint: Which one to resume from.
        imports: Packages that the caller names.
    """

    overrides: Mapping[str, Any] | None
    short: Mapping[str, Any]
    checkpoint: str | None
    imports: Sequence[str]

    @property
    def requested(self) -> bool:
        budgets = any(value is not None for value in self.short.values())
        return bool(self.overrides) or budgets or self.checkpoint is not None

    def request(self, run: Run, given: Mapping[str, Any]) -> Request:
        from rl_lightning.api.policy import trusted
        from rl_lightning.runs.request import Request

        flags, packages, objects = sort_out(self.overrides, self.short, trusted(run, self.imports))
        return Request(
            overrides=flags, imports=packages, checkpoint=self.checkpoint, given={**given, **objects}
        )


class ResumeOptions(TypedDict, total=False):
    """Keyword arguments of `resume`; its docstring says what they mean."""

    env_steps: int | None
    updates: int | None
    checkpoint: str | None
    imports: Sequence[str]
    given: Mapping[str, Any] | None


Overrides = Mapping[str, Any] | None


@overload
def resume(
    run: TrainedRuns, overrides: Overrides = None, **options: Unpack[ResumeOptions]
) -> TrainedRuns: ...


@overload
def resume(run: TrainedRun, overrides: Overrides = None, **options: Unpack[ResumeOptions]) -> TrainedRun: ...


@overload
def resume(run: str | Path, overrides: Overrides = None, **options: Unpack[ResumeOptions]) -> Any: ...


@spoken_in_python()
def resume(
    run: Any,
    overrides: Mapping[str, Any] | None = None,
    *,
    env_steps: int | None = None,
    updates: int | None = None,
    checkpoint: str | None = None,
    imports: Sequence[str] = (),
    given: Mapping[str, Any] | None = None,
) -> TrainedRun | TrainedRuns:
    """Resumes a run exactly where it was stopped, as `rl resume` does, in this process.

    Args:
        run: Its name or folder, or what `fit` returned. Of a group of seeds every run is resumed, one after the other:
            with nothing changed those that are not finished, else all of them; seeds that never began are trained.
        overrides: Settings that change, by their dotted names.
        env_steps: A new budget in env steps.
        updates: A new budget in updates.
        checkpoint: last, or a milestone (step-20000); null: last.
        imports: Packages of yours that the run was made with. Those that you have imported already need not be named.
        given: The objects that the run was made with, by their dotted names. What `fit` returned still has them.
    """
    from rl_lightning.runs.process import unchanged_process
    from rl_lightning.runs.store.run_folder import group_of, resolve

    changes = ResumeChanges(
        overrides, {"run.env_steps": env_steps, "run.updates": updates}, checkpoint, imports
    )
    name = run.group if isinstance(run, TrainedRuns) else str(getattr(run, "folder", run))
    with unchanged_process():
        if (members := group_of(name)) is None:
            return _resume_one(resolve(name), changes, {**getattr(run, "given", {}), **(given or {})})
        known = run[0].given if isinstance(run, TrainedRuns) and len(run) else {}
        return _resume_seeds(name, members, changes, {**known, **(given or {})})


def _resume_one(run: Run, changes: ResumeChanges, given: Mapping[str, Any]) -> TrainedRun:
    from rl_lightning.runs.engine.init_distributed import init_distributed, run_lock
    from rl_lightning.runs.engine.resume import resume_run

    request = changes.request(run, given)
    init_distributed()
    with run_lock(run):
        resume_run(run, request)
    return TrainedRun(run.folder, request.given)


def _resume_seeds(
    group: str, runs: list[Run], changes: ResumeChanges, given: Mapping[str, Any]
) -> TrainedRuns:
    """One run after the other, as `rl resume GROUP` does; an interrupted one is the last."""
    from rl_lightning.runs.engine.folder import GROUP_SEEDS
    from rl_lightning.runs.engine.group import noted_members

    members, started = noted_members(group, runs), {run.name: run for run in runs}
    os.environ[GROUP_SEEDS] = ",".join(map(str, members))
    resumed = []
    for seed, name in members.items():
        if name not in started:
            resumed.append(_begin(runs[0], group, name, seed, changes, given))
        elif changes.requested or started[name].read().get("status") != "finished":
            resumed.append(_resume_one(started[name], changes, given))
        else:
            resumed.append(TrainedRun(started[name].folder, given))
        os.environ.pop("RL_RUN_DIR", None)  # of the run that has ended
        if resumed[-1].status == "interrupted":
            break
    return TrainedRuns(group, resumed)


def _begin(
    sibling: Run, group: str, name: str, seed: int, changes: ResumeChanges, given: Mapping[str, Any]
) -> TrainedRun:
    """A seed that never began, with the settings of one that did."""
    from rl_lightning.runs.config.compose import compose

    request, config = changes.request(sibling, given), str(sibling.config_file)
    flags = [*request.overrides, f"--run.name={name}", f"--seed_everything={seed}"]
    return fit_one(
        compose([config]), replace(request, overrides=flags, group=group, checkpoint=None), [config]
    )
