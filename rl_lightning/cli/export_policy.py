"""`rl export RUN --format onnx|safetensors`: a policy for those who do not have us."""

from __future__ import annotations

import contextlib
import io
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rl_lightning.cli.flags import parse
from rl_lightning.cli.options import OWN_SWITCHES
from rl_lightning.errors import ConfigError, RLError
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
    folder.mkdir(parents=True, exist_ok=True)
    model, data = agent.cli.model, agent.cli.datamodule
    if not getattr(type(model), "acts", True):
        raise ConfigError(f"{type(model).__name__} does not act; there is no policy to export")
    about = description(data, agent.title)
    if kind == "safetensors":
        paths = [write_weights(model, folder, about)]
        said = "read back bit for bit"
    else:
        policy = GreedyPolicy(
            model, data.spec, getattr(vars(data).get("env"), "rescale_actions", True)
        ).eval()
        rows = observations(data, ROWS)
        paths = [write_onnx(policy, rows, folder)]
        said = parity(policy, rows, paths[0])
        paths.append(write_script(policy, folder, about))
    (folder / "policy.json").write_text(json.dumps(about, indent=2) + "\n")
    print("\n".join([agent.title, *map(str, paths), f"checked: {said}"]))
    return 0


class GreedyPolicy(nn.Module):
    """A module's greedy action in the env's own scale; recurrent state goes in and out.

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
        self.carries = len(model.initial_carry(1))
        self.register_buffer("low", torch.tensor(spec.action_low or [0.0]))
        self.register_buffer("high", torch.tensor(spec.action_high or [0.0]))

    def forward(self, obs: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        mask = rest[0].bool() if self.masked else None
        carry = tuple(rest[1:] if self.masked else rest)
        action, carry = self.model.act(obs, carry, None, mask)
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
        return (obs, *mask, *self.model.initial_carry(len(obs)))

    def names(self) -> list[str]:
        return ["obs", *(["mask"] if self.masked else []), *(f"carry{i}" for i in range(self.carries))]


def description(data: Any, title: str) -> dict[str, Any]:
    """What somebody who runs the policy has to know."""
    spec, env = data.spec, vars(data).get("env")
    transforms = [type(item).__name__ for item in getattr(env, "transforms", [])]
    return {
        "policy": title, "env": spec.env_id, "obs_shape": list(spec.obs_shape), "obs_dtype": spec.obs_dtype,
        "action": spec.action_kind, "action_shape": list(spec.action_shape), "action_mask": spec.action_mask,
        "transforms": transforms, "env_kwargs": dict(getattr(env, "kwargs", {}) or {}),
    }  # fmt: skip


def observations(data: Any, count: int) -> Tensor:
    """What the policy would see: an env's first steps under random actions, or the data's own rows."""
    spec = data.spec
    envs = data.eval_envs(1)
    if envs is None:
        generator = torch.Generator().manual_seed(0)
        return torch.randn((count, *spec.obs_shape), generator=generator)
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
    """All weights and buffers under their names, and read again."""
    from safetensors.torch import load_file, save_file

    path = folder / "policy.safetensors"
    weights = {name: value.detach().cpu().contiguous().clone() for name, value in model.state_dict().items()}
    save_file(weights, path, metadata={"format": "pt", "about": json.dumps(about)})
    again = load_file(path)
    if again.keys() != weights.keys() or not all(torch.equal(again[key], weights[key]) for key in weights):
        raise RLError(f"{path}: what was written is not what is read")
    return path


def write_onnx(policy: GreedyPolicy, rows: Tensor, folder: Path) -> Path:
    """One file, any number of rows at a time."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError:
        raise ConfigError("--format onnx needs it: pip install 'rl-lightning[onnx]'") from None
    path = folder / "policy.onnx"
    outputs = ["action", *(f"next_carry{i}" for i in range(policy.carries))]
    try:
        # by tracing: `act` has no loops over data, and the exporter that reads the code takes half a minute for it
        with contextlib.redirect_stdout(io.StringIO()), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                policy, policy.inputs(rows[:2]), str(path), input_names=policy.names(), output_names=outputs,
                dynamic_axes={name: {0: "batch"} for name in (*policy.names(), *outputs)}, dynamo=False,
                opset_version=17, verbose=False,
            )  # fmt: skip
    except Exception as error:  # torch's exporter raises a dozen kinds
        first = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise ConfigError(
            f"this policy has a part that ONNX cannot express: {first}\n--format safetensors writes its weights"
        ) from error
    return path


def parity(policy: GreedyPolicy, rows: Tensor, path: Path) -> str:
    """The exported policy against ours, on rows that an env gave."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    known = {item.name for item in session.get_inputs()}
    inputs = policy.inputs(rows)
    with torch.no_grad():
        ours = policy(*inputs)
    feed = {name: value.numpy() for name, value in zip(policy.names(), inputs, strict=True) if name in known}
    theirs = session.run(None, feed)
    if policy.kind != "continuous":
        wrong = int((ours[0].numpy() != theirs[0]).sum())
        if wrong:
            raise RLError(f"{path}: chooses another action on {wrong} of {len(rows)} observations")
        return f"the same action on {len(rows)} observations"
    difference = float(np.abs(ours[0].numpy() - theirs[0]).max())
    if not difference <= TOLERANCE * max(1.0, float(ours[0].abs().max())):
        raise RLError(f"{path}: its actions differ by up to {difference:.2g}")
    return f"actions differ by at most {difference:.1g} on {len(rows)} observations"


def write_script(policy: GreedyPolicy, folder: Path, about: dict[str, Any]) -> Path:
    """A few lines that play an episode with the exported policy, without us."""
    kwargs = "".join(f", {key}={value!r}" for key, value in about["env_kwargs"].items())
    note = (
        f"  # observations first go through {', '.join(about['transforms'])}" if about["transforms"] else ""
    )
    carry = [list(part.shape[1:]) for part in policy.model.initial_carry(1)]
    row = f"np.asarray(obs, '{about['obs_dtype']}').reshape(1, *{about['obs_shape']})"
    plain = ["    action = policy.run(None, {'obs': " + row + "})[0]"]
    remembering = [
        f"    feed = {{'obs': {row}, **{{f'carry{{i}}': part for i, part in enumerate(carry)}}}}",
        "    action, *carry = policy.run(None, {item.name: feed[item.name] for item in policy.get_inputs()})",
    ]
    start = [f"carry = [np.zeros([1, *shape], 'float32') for shape in {carry}]"]
    lines = [
        "import gymnasium, numpy as np, onnxruntime",
        "policy = onnxruntime.InferenceSession(__file__.replace('play.py', 'policy.onnx'))",
        f"env = gymnasium.make({about['env']!r}{kwargs}){note}",
        *(start if carry else []),
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
