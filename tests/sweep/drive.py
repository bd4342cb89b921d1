"""A worker of a sweep in a process of its own, with the stub in place of `rl`: python drive.py SWEEP.yaml."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from rl_lightning.runs.store.run_folder import logs_root
from rl_lightning.sweep.definition import SweepDefinition, read_definition
from rl_lightning.sweep.jobs import PlannedRun
from rl_lightning.sweep.outcome import write_table
from rl_lightning.sweep.study import SweepTrial, TrialLedger
from rl_lightning.sweep.sweep_keys import nested, overlaid
from rl_lightning.sweep.work import SweepWorker

STUB = [sys.executable, str(Path(__file__).with_name("trainer_stub.py"))]
BASE = {"model": {"class_path": "PPO", "init_args": {"lr": 1.0}}}


def plan_for(definition: SweepDefinition, folder: Path):
    def plan(trial: SweepTrial) -> list[PlannedRun]:
        runs = []
        for seed in definition.seeds:
            config = {**BASE, "seed_everything": seed}
            for key, value in {**definition.fixed, **trial.params}.items():
                config = overlaid(config, nested(config, key, value))
            path = folder / f"{trial.slot}-{seed}.yaml"
            path.write_text(yaml.safe_dump(config))
            runs.append(PlannedRun(seed, f"{definition.name}-{trial.slot:03d}-s{seed}", path.resolve()))
        return runs

    return plan


def start(path: Path, say=str) -> tuple[SweepWorker, TrialLedger]:
    definition = read_definition(yaml.safe_load(path.read_text()), path.stem)
    folder = logs_root() / definition.name
    ledger = TrialLedger(definition, folder)
    return SweepWorker(definition, ledger, plan_for(definition, folder), folder, say, program=STUB), ledger


def work(path: Path) -> int:
    worker, ledger = start(path, lambda text: sys.stdout.write(text + "\n"))
    code = worker.run()
    write_table(worker.folder, ledger.rows(), list(worker.definition.space))
    return code


if __name__ == "__main__":
    sys.exit(work(Path(sys.argv[1])))
