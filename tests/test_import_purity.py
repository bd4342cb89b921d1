"""Importing the library changes nothing of its process; the command changes its own, and puts it back."""

import json
import logging
import os
import subprocess
import sys
import warnings
from pathlib import Path

from rl_lightning.cli.process import TALKERS, quiet

ROOT = Path(__file__).parents[1]
# dm_control reads MUJOCO_GL once, when it is imported, and these two suites are what imports it
EXEMPT = ("rl_lightning.envs.suites.dmc", "rl_lightning.envs.suites.ogbench", "rl_lightning.cli.__main__")
PROBE = """
import importlib, json, logging, os, pkgutil, signal, sys, threading, warnings
import gymnasium, jsonargparse, lightning.pytorch, matplotlib, torch, optuna, submitit  # what others do is not ours
try:
    import cv2, pygame, gymnasium.envs.box2d.car_racing, ale_py, gymnasium_robotics, minigrid, cma
except ImportError:
    pass
def state():
    levels = {name: item.level for name, item in logging.Logger.manager.loggerDict.items() if hasattr(item, "level")}
    return {
        "warnings": [str(each) for each in warnings.filters], "environ": dict(os.environ),
        "threads": torch.get_num_threads(),
        "levels": {name: level for name, level in levels.items() if name.startswith(("lightning", "torch", "optuna"))},
        "int": str(signal.getsignal(signal.SIGINT)), "term": str(signal.getsignal(signal.SIGTERM)),
        "dtype": str(torch.get_default_dtype()), "device": str(torch.get_default_device()),
        "alive": threading.active_count(), "excepthook": str(sys.excepthook),
    }
before = state()
import rl_lightning
changed = {}
for module in pkgutil.walk_packages(rl_lightning.__path__, "rl_lightning."):
    if module.name not in EXEMPT:
        importlib.import_module(module.name)
        now = state()
        for key in before:
            if now[key] != before[key]:
                changed[module.name] = key
        before = now
print(json.dumps(changed))
"""


def test_no_module_changes_its_process_when_it_is_imported():
    code = PROBE.replace("EXEMPT", repr(EXEMPT))
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {}


def test_the_command_puts_back_what_it_changed(monkeypatch):
    monkeypatch.delenv("PYGAME_HIDE_SUPPORT_PROMPT", raising=False)
    filters, variables = list(warnings.filters), dict(os.environ)
    loud = logging.getLogger(TALKERS[1])
    with quiet():
        assert os.environ["PYGAME_HIDE_SUPPORT_PROMPT"] == "1"
        with warnings.catch_warnings(record=True) as told:
            warnings.warn("a tip", UserWarning, stacklevel=1)
        assert not told
        tip, trouble = (loud.makeRecord(loud.name, level, "", 0, "x", (), None) for level in (20, 40))
        assert not loud.filter(tip) and loud.filter(trouble)
    assert list(warnings.filters) == filters and dict(os.environ) == variables
    assert loud.filter(tip)
