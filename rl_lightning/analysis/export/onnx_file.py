"""policy.onnx: written, and compared with the policy it was made of."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rl_lightning.analysis.export.greedy_policy import GreedyPolicy
from rl_lightning.errors import ConfigError, RLError
from rl_lightning.extras import pip_command

TOLERANCE = 1e-4


def checked_onnx(policy: GreedyPolicy, rows: Tensor, folder: Path) -> tuple[Path, str]:
    """Made and compared in a folder that goes away again: what does not act as ours leaves nothing behind."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError:
        raise ConfigError(f"--format onnx needs it: {pip_command('onnx')}") from None
    path = folder / "policy.onnx"
    with tempfile.TemporaryDirectory() as scratch:
        scratch_path = Path(scratch) / path.name
        try:
            write_onnx(policy, rows, scratch_path)
            said = parity(policy, rows, scratch_path)
        except Exception as error:  # torch's exporter raises a dozen kinds, and so does what runs its files
            first = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
            raise ConfigError(
                f"this policy has a part that ONNX cannot express: {first}\n"
                "--format safetensors writes its weights"
            ) from error
        folder.mkdir(parents=True, exist_ok=True)
        shutil.move(scratch_path, path)
    return path, said


def write_onnx(policy: GreedyPolicy, rows: Tensor, path: Path) -> None:
    """One file, any number of rows at a time."""
    outputs = ["action", *(f"next_carry{i}" for i in range(policy.carries))]
    # by tracing: `act` has no loops over data, and the exporter that reads the code takes half a minute for it
    with silent_exporter(), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            policy, policy.inputs(rows[:2]), str(path), input_names=policy.names(), output_names=outputs,
            dynamic_axes={name: {0: "batch"} for name in (*policy.names(), *outputs)}, dynamo=False,
            opset_version=17, verbose=False,
        )  # fmt: skip


@contextlib.contextmanager
def silent_exporter() -> Iterator[None]:
    """Without the thousands of lines in which torch tells of a graph it cannot express.

    They come from below Python, and torch switches them on anew each time; only where they go can be chosen.
    """
    torch._C._jit_set_onnx_log_output_stream(
        "stderr"
    )  # stdout would keep some back until it is no longer covered
    sys.stderr.flush()
    stderr_copy, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        os.dup2(stderr_copy, 2)
        os.close(stderr_copy)
        os.close(nowhere)


def parity(policy: GreedyPolicy, rows: Tensor, path: Path) -> str:
    """The exported policy against ours, on rows that an env gave."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what it raises says the same as what it logs
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    known = {item.name for item in session.get_inputs()}
    inputs = policy.inputs(rows)
    with torch.no_grad():
        ours = policy(*inputs)
    feed = {name: value.numpy() for name, value in zip(policy.names(), inputs, strict=True) if name in known}
    theirs = session.run(None, feed)
    if policy.kind != "continuous":
        wrong = int((ours[0].numpy() != theirs[0]).sum())
        if wrong:
            raise RLError(f"it chooses another action on {wrong} of {len(rows)} observations")
        return f"the same action on {len(rows)} observations"
    difference = float(np.abs(ours[0].numpy() - theirs[0]).max())
    if not difference <= TOLERANCE * max(1.0, float(ours[0].abs().max())):
        raise RLError(f"its actions differ by up to {difference:.2g}")
    return f"actions differ by at most {difference:.1g} on {len(rows)} observations"
