"""A checkpoint of ours holds plain values: torch alone reads it, without this package, and runs nothing."""

import subprocess
import sys

import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from trainer_parts import PARTS, fit

from rl_lightning.algorithms import RLModule
from rl_lightning.callbacks import RunCheckpoint
from rl_lightning.types import EnvSpec

READ = """
import sys, torch
for path in sys.argv[1:]:
    state = torch.load(path, weights_only=True)
    spec = state["hyper_parameters"]["spec"]["init_args"]
    print(spec["env_id"], sum(value.numel() for value in state["state_dict"].values()))
assert not any(name.startswith("rl_lightning") for name in sys.modules)
"""


def plain(value):
    """Whether a value is one that any reader knows."""
    if isinstance(value, dict):
        return all(plain(key) and plain(item) for key, item in value.items())
    if type(value) in (list, tuple, set):
        return all(plain(item) for item in value)
    return (
        value is None
        or type(value) in (bool, int, float, str)
        or isinstance(value, torch.Tensor | torch.dtype)
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A file of Lightning's and one of ours for each algorithm."""
    found = {}
    for name in PARTS:
        folder = tmp_path_factory.mktemp(name)
        theirs = ModelCheckpoint(folder / "theirs", save_last=True)
        fit(name, max_epochs=1, callbacks=[theirs, RunCheckpoint(folder / "ours")], enable_checkpointing=True)
        ours = max(folder.glob("ours/last-*/model.ckpt"))  # the newest
        found[name] = [folder / "theirs" / "last.ckpt", ours]
    return found


def test_torch_alone_reads_them(files):
    paths = [str(path) for pair in files.values() for path in pair]
    done = subprocess.run(
        [sys.executable, "-c", READ, *paths], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr[-500:]
    lines = done.stdout.splitlines()
    assert len(lines) == len(paths) and lines[0] == lines[1], "both files hold the same module"


@pytest.mark.parametrize("name", list(PARTS))
def test_all_in_them_is_plain_and_makes_the_module_again(name, files):
    for path in files[name]:
        state = torch.load(path, weights_only=True)
        assert all(plain(state[key]) for key in ("hyper_parameters", "loops", "callbacks", "class_path"))
        module = RLModule.load_from_checkpoint(path)
        assert type(module.spec) is EnvSpec and module.spec == PARTS[name].data().spec
        for key, value in module.state_dict().items():
            assert torch.equal(value, state["state_dict"][key])
