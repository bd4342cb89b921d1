"""A generation of evolution that was cut in its middle is repeated from its start, with the same bits."""

import os
import signal
import time
from pathlib import Path

from contracts.families.world_models import MEMORY, RECORDING, SIZES, WORLD
from contracts.harness import assert_same, newest, state
from resume.support import COMMON, Rl, fork, wait, write

from rl_lightning import stop_request
from rl_lightning.evolution import dream_rollout
from rl_lightning.io.checkpoint_files import read_meta

CONFIG = {
    "model": {
        "class_path": "EvolutionaryController",
        "init_args": {
            "world_from": WORLD,
            **SIZES,
            **MEMORY,
            "reevaluate_every": 2,
            "reevaluate_rollouts": 4,
            "strategy": {"class_path": "CMAES", "init_args": {"popsize": 6}},
        },
    },
    "data": {
        "class_path": "EvolutionData",
        "init_args": {
            "env": {"id": "rl/Dodge-v0"},
            "fitness": {
                "class_path": "DreamFitness",
                "init_args": {
                    "recording": RECORDING,
                    "num_rollouts": 3,
                    "max_steps": 12,
                    "termination_threshold": 0.99,
                },
            },
        },
    },
    "run": {"updates": 6, "eval_every": 3, "eval_episodes": 1, "save_every": 1},
    **COMMON,
}


def stop_in_the_middle() -> None:
    """Changes a child: in the middle of a generation it is asked to stop, and its dreams take long after that."""
    inner, made = dream_rollout.dream_step, []

    def step(*args):
        made.append(1)
        if len(made) == 12 * 4 + 6:  # two re-evaluations of at most 12 steps lie before it
            os.kill(os.getpid(), signal.SIGTERM)
        if len(made) > 12 * 4 + 6:
            time.sleep(0.05)
        return inner(*args)

    dream_rollout.dream_step = step
    stop_request.PATIENCE = 0.1


def test_a_generation_cut_in_the_middle_is_repeated(logs: Path, rl: Rl) -> None:
    config, log = write(logs.parent, "evolve", CONFIG), logs.parent / "log.txt"
    assert rl("fit", "--config", config, "--name", "whole").code == 0
    began = time.monotonic()
    pid = fork(["fit", "--config", config, "--name", "cut"], log, stop_in_the_middle)
    assert wait(pid) == 143, log.read_text()
    assert time.monotonic() - began < 60
    left = read_meta(newest(logs / "cut"))["update"]
    assert 1 <= left < 6, "whole generations were saved, and not the last"
    assert rl("resume", "cut").code == 0
    assert_same(state(logs / "whole", best=True), state(logs / "cut", best=True))
