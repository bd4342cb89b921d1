"""What every test stands on: one thread, quiet Lightning, and the small envs of contracts/toys.py."""

import logging
import os
import tempfile
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from hypothesis import HealthCheck, settings

torch.set_num_threads(1)
_cache = tempfile.TemporaryDirectory(prefix="rl-cache-")  # what is measured once per machine is not kept
os.environ.setdefault("RL_CACHE", _cache.name)
for _name in ("lightning.pytorch", "lightning.fabric", "lightning.pytorch.utilities.rank_zero"):
    logging.getLogger(_name).setLevel(logging.ERROR)
warnings.filterwarnings("ignore", module="lightning")

# Fixed examples: a test that fails now and then is worse than one that looks at fewer cases.
settings.register_profile(
    "fixed", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fixed")
