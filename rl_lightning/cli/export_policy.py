"""`rl export RUN --format onnx|safetensors`: a policy for those who do not have us."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

from rl_lightning.cli.export_draws import GivenNoise
from rl_lightning.cli.flags import parse
from rl_lightning.cli.options import OWN_SWITCHES
from rl_lightning.errors import ConfigError, RLError
from rl_lightning.extras import pip_line
from rl_lightning.redaction import redact
from rl_lightning.types import EnvSpec

TAKES = ("config", "import", "checkpoint", "format", "output")
ROWS = 64  # observations that the parity check looks at
TOLERANCE = 1e-4


def export_policy(words: list[str]) -> int:
    """Writes a run's best policy, and checks that it acts as ours does."""
    parsed = parse(words, TAKES, OWN_SWITCHES, config=True, command="export")
    if len(parsed.words) != 1:
        raise ConfigError("rl export --format onnx takes one run; see them with: rl list")
    from rl_lightning.cli.evaluation import load

    agent = load(parsed, "best", None)
    assert agent.run is not None
    kind = parsed.get("format") or "onnx"
    folder = Path(parsed.get("output") or agent.run.folder / "export")
    if folder.is_file():
        raise ConfigError(f"--output {folder}: is a file; a policy takes a folder")
    model, data = agent.cli.model, agent.cli.datamodule
    if model.evaluated_on == "rows":
        raise ConfigError(f"{type(model).__name__} does not act; there is no policy to export")
    about = description(data, agent.title)
    why = None
    if kind == "safetensors":
        folder.mkdir(parents=True, exist_ok=True)
        paths = [write_weights(model, folder, about)]
        said = "read back bit for bit"
    else:
        policy = GreedyPolicy(
            model, data.spec, getattr(vars(data).get("env"), "rescale_actions", True)
        ).eval()
        about["noise_inputs"] = policy.noise
        rows = observations(data, ROWS)
        path, said = checked_onnx(policy, rows, folder)
        why = why_no_script(data.spec, about)
        paths = [path] if why else [path, write_script(policy, folder, about)]
    (folder / "policy.json").write_text(json.dumps(redact(about), indent=2) + "\n")
    lines = [agent.title, *map(str, paths), f"checked: {said}"]
    print("\n".join([*lines, *([f"no play.py: {why}; policy.json says what is known of it"] if why else [])]))
    return 0


class GreedyPolicy(nn.Module):
    """A module's action, as evaluation plays it, in the env's own scale; recurrent state goes in and out.

    Of a policy that draws its actions in evaluation the random numbers are an input, `noise`: standard normal ones.

    Args:
        model: The trained module.
        spec: What its env is like.
        rescale: Whether the env takes actions in [-1, 1] for its bounds.
    """

    low: Tensor
    high: Tensor

    def __init__(self, model: Any, spec: EnvSpec, rescale: bool = True) -> None:
        super().__init__()
        self.model, self.kind, self.masked, self.rescale = model, spec.action_kind, spec.action_mask, rescale
        self.carries, self.noise = len(model.initial_carry(1)), 0
        self.register_buffer("low", torch.tensor(spec.action_low or [0.0]))
        self.register_buffer("high", torch.tensor(spec.action_high or [0.0]))
        if model.explores_in_evaluation:
            self.noise = self._count(torch.zeros(2, *spec.obs_shape, dtype=getattr(torch, spec.obs_dtype)))

    def _count(self, obs: Tensor) -> int:
        """Random numbers that one action takes."""
        with torch.no_grad(), GivenNoise() as draws:
            legal = self.inputs(obs)[1].bool() if self.masked else None
            self.model.act(obs, self.model.initial_carry(len(obs)), torch.Generator(), legal)
        return draws.used

    def forward(self, obs: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        given = list(rest)
        mask = given.pop(0).bool() if self.masked else None
        if self.noise:
            with GivenNoise(given.pop(0)):
                action, carry = self.model.act(obs, tuple(given), torch.Generator(), mask)
        else:
            action, carry = self.model.act(obs, tuple(given), None, mask)
        return (self.own_scale(action), *carry)

    def own_scale(self, action: Tensor) -> Tensor:
        """[-1, 1] onto the env's bounds where they are finite."""
        if self.kind != "continuous":
            return action
        finite = torch.isfinite(self.low) & torch.isfinite(self.high)
        if not self.rescale:
            return torch.maximum(torch.minimum(action, self.high), self.low)
        low, high = torch.where(finite, self.low, -1.0), torch.where(finite, self.high, 1.0)
        moved = (action.clamp(-1, 1) * ((high - low) / 2) + (high + low) / 2).clamp(low, high)
        return torch.where(finite, moved, action)

    def inputs(self, obs: Tensor) -> tuple[Tensor, ...]:
        mask = (
            [torch.ones(len(obs), sum(self.model.spec.action_sizes), dtype=torch.uint8)]
            if self.masked
            else []
        )
        draw = torch.Generator().manual_seed(0)
        noise = [torch.randn(len(obs), self.noise, generator=draw)] if self.noise else []
        return (obs, *mask, *noise, *self.model.initial_carry(len(obs)))

    def names(self) -> list[str]:
        more = [*(["mask"] if self.masked else []), *(["noise"] if self.noise else [])]
        return ["obs", *more, *(f"carry{i}" for i in range(self.carries))]


def description(data: Any, title: str) -> dict[str, Any]:
    """What somebody who runs the policy has to know."""
    spec, env = data.spec, vars(data).get("env")
    transforms = [type(item).__name__ for item in getattr(env, "transforms", [])]
    return {
        "policy": title, "env": spec.env_id, "obs_shape": list(spec.obs_shape), "obs_dtype": spec.obs_dtype,
        "action": spec.action_kind, "action_shape": list(spec.action_shape), "action_mask": spec.action_mask,
        "transforms": transforms, "env_kwargs": dict(getattr(env, "kwargs", {}) or {}),
        "max_episode_steps": getattr(env, "max_episode_steps", None), "action_repeat": spec.action_repeat,
        "noise": getattr(env, "noise", None) is not None,
    }  # fmt: skip


def observations(data: Any, count: int) -> Tensor:
    """What the policy would see: an env's first steps under random actions, or the data's own rows."""
    envs = data.eval_envs(1)
    if envs is None:
        known = data.dataset.obs
        return known[torch.randint(len(known), (count,), generator=torch.Generator().manual_seed(0))]
    rows = []
    try:
        obs, _ = envs.reset(seed=0)
        envs.action_space.seed(0)
        for _ in range(count):
            rows.append(torch.from_numpy(np.array(obs[0])))
            obs, *_ = envs.step(envs.action_space.sample())
    finally:
        envs.close()
    return torch.stack(rows)


def write_weights(model: Any, folder: Path, about: dict[str, Any]) -> Path:
    """All weights and buffers under their names, those of products that the policy acts through too, and read again."""
    from safetensors.torch import load_file, save_file

    path = folder / "policy.safetensors"
    state = dict(model.state_dict())
    for part, module in model.borrowed().items():
        state |= {f"{part}.{name}": value for name, value in module.state_dict().items()}
    weights = {name: value.detach().cpu().contiguous().clone() for name, value in state.items()}
    save_file(weights, path, metadata={"format": "pt", "about": json.dumps(redact(about))})
    again = load_file(path)
    if again.keys() != weights.keys() or not all(torch.equal(again[key], weights[key]) for key in weights):
        raise RLError(f"{path}: what was written is not what is read")
    return path


def checked_onnx(policy: GreedyPolicy, rows: Tensor, folder: Path) -> tuple[Path, str]:
    """Made and compared in a folder that goes away again: what does not act as ours leaves nothing behind."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError:
        raise ConfigError(f"--format onnx needs it: {pip_line('onnx')}") from None
    path = folder / "policy.onnx"
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch) / path.name
        try:
            write_onnx(policy, rows, made)
            said = parity(policy, rows, made)
        except Exception as error:  # torch's exporter raises a dozen kinds, and so does what runs its files
            first = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
            raise ConfigError(
                f"this policy has a part that ONNX cannot express: {first}\n"
                "--format safetensors writes its weights"
            ) from error
        folder.mkdir(parents=True, exist_ok=True)
        shutil.move(made, path)
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
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
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


def why_no_script(spec: EnvSpec, about: dict[str, Any]) -> str | None:
    """What a few lines could not do without us; None where Gymnasium alone makes the env that the policy knows."""
    if about["transforms"]:
        return f"observations go through {', '.join(about['transforms'])}"
    if about["action_repeat"] > 1:
        return f"each action is played {about['action_repeat']} times"
    if about["noise"]:
        return "the env has noise of ours"
    if about["action_mask"]:
        return f"{spec.env_id} says which actions are legal"
    known = gymnasium.registry.get(spec.env_id)
    if known is None or not str(known.entry_point).startswith("gymnasium."):
        return f"{spec.env_id} is no env of Gymnasium's own"
    env = gymnasium.make(spec.env_id, **about["env_kwargs"])
    space, actions = env.observation_space, env.action_space
    env.close()
    if not isinstance(space, gymnasium.spaces.Box) or space.shape != tuple(spec.obs_shape):
        return f"the policy sees other observations than {spec.env_id} gives"
    if isinstance(actions, gymnasium.spaces.Discrete) and actions.start != 0:
        return f"{spec.env_id} counts its actions from {actions.start}"
    return None


def write_script(policy: GreedyPolicy, folder: Path, about: dict[str, Any]) -> Path:
    """A few lines that play an episode with the exported policy, without us."""
    limit = about["max_episode_steps"]
    given = {**redact(about["env_kwargs"]), **({"max_episode_steps": limit} if limit else {})}
    kwargs = "".join(f", {key}={value!r}" for key, value in given.items())
    carry = [list(part.shape[1:]) for part in policy.model.initial_carry(1)]
    row = f"np.asarray(obs, '{about['obs_dtype']}').reshape(1, *{about['obs_shape']})"
    row += f", 'noise': draw.standard_normal((1, {policy.noise}), 'float32')" if policy.noise else ""
    plain = ["    action = policy.run(None, {'obs': " + row + "})[0]"]
    remembering = [
        f"    feed = {{'obs': {row}, **{{f'carry{{i}}': part for i, part in enumerate(carry)}}}}",
        "    action, *carry = policy.run(None, {item.name: feed[item.name] for item in policy.get_inputs()})",
    ]
    start = [f"carry = [np.zeros([1, *shape], 'float32') for shape in {carry}]"]
    lines = [
        "import gymnasium, numpy as np, onnxruntime",
        "policy = onnxruntime.InferenceSession(__file__.replace('play.py', 'policy.onnx'))",
        f"env = gymnasium.make({about['env']!r}{kwargs})",
        *(start if carry else []),
        *(["draw = np.random.default_rng(0)"] if policy.noise else []),
        "(obs, _), total, ended = env.reset(seed=0), 0.0, False",
        f"while not ended:  # observations are {about['obs_dtype']} {about['obs_shape']}",
        *(remembering if carry else plain),
        "    obs, reward, terminated, truncated, _ = env.step(action[0])",
        "    total, ended = total + reward, terminated or truncated",
        "print(total)",
    ]
    path = folder / "play.py"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
