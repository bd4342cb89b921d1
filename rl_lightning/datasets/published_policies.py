"""Small published policies: the actor of a SAC run in one safetensors file, which data sets are recorded from."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from rl_lightning.datasets.data_files import data_dir
from rl_lightning.datasets.load import file_digest
from rl_lightning.datasets.references import Reference
from rl_lightning.errors import DataError, RLError
from rl_lightning.functional.action_distributions import standard_noise
from rl_lightning.io.atomic import atomic_path, file_of_user
from rl_lightning.nn.heads.actors import SquashedGaussianActor
from rl_lightning.nn.mlp import MLP

HEADER = "policy"  # key of the safetensors header; its value is JSON
MOST_BYTES = 1_000_000
PACKAGE = Path(__file__).resolve().parents[1]


def policy_folders() -> list[Path]:
    """Where published policies lie: the user's own first, then the shelf of the checkout or of the package."""
    shelves = [PACKAGE.parent / "checkpoints"] if (PACKAGE.parent / "pyproject.toml").is_file() else []
    return [data_dir() / "policies", *(root / "policies" for root in (*shelves, PACKAGE / "_checkpoints"))]


def find_policy(env: str, level: str) -> Path | None:
    places = [folder / f"{env}-{level}.safetensors" for folder in policy_folders()]
    return next((path for path in places if path.is_file()), None)


class PublishedPolicy:
    """A squashed Gaussian actor with what its header says about it.

    Args:
        actor: The network.
        about: env_id, level, algorithm, return, hidden, activation, steps ...
        sha256: Of its file.
    """

    def __init__(self, actor: SquashedGaussianActor, about: dict[str, Any], sha256: str) -> None:
        self.actor, self.about, self.sha256 = actor.eval().requires_grad_(False), about, sha256

    @classmethod
    def load(cls, path: str | Path) -> PublishedPolicy:
        path = Path(path)
        about, weights = _read(path)
        try:
            actor = build_actor(weights, str(about.get("activation", "relu")))
        except (KeyError, IndexError, ValueError, RuntimeError, RLError) as error:
            raise DataError(
                f"{path}: no actor that this version knows ({str(error).splitlines()[0][:120]})"
            ) from None
        return cls(actor, about, file_digest(path))

    @torch.no_grad()
    def act(self, obs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Actions in [-1, 1]: the mode, or drawn from the generator.  [B, O] -> [B, A]"""
        mean, log_std = self.actor(obs)
        if generator is None:
            return torch.tanh(mean)
        return torch.tanh(mean + log_std.exp() * standard_noise(mean.shape, generator, mean))


def read_about(path: Path) -> dict[str, Any]:
    """What the header says, without the weights."""
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})[HEADER])
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise DataError(f"{path}: not a published policy ({type(error).__name__})") from None
    if not isinstance(about, dict):
        raise DataError(f"{path}: its header describes no policy")
    return about


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    about = read_about(path)
    try:
        with safe_open(path, framework="pt") as file:
            return about, {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path}: damaged ({error})") from None


def build_actor(weights: dict[str, Tensor], activation: str) -> SquashedGaussianActor:
    """The network whose layers have the sizes of these weights."""
    layers = [key for key in weights if re.fullmatch(r"torso\.layers\.\d+\.weight", key)]
    matrices = sorted(
        (key for key in layers if weights[key].ndim == 2), key=lambda key: int(key.split(".")[2])
    )
    if not matrices or "linear.weight" not in weights:
        raise ValueError("its actor is not a network of fully connected layers")
    hidden = [len(weights[key]) for key in matrices]
    normed = any(weights[key].ndim == 1 for key in layers)
    torso = MLP(weights[matrices[0]].shape[1], hidden, activation, layer_norm=normed, init="default")
    actor = SquashedGaussianActor(torso, len(weights["linear.weight"]) // 2)
    actor.load_state_dict(weights)
    return actor


def publish(run_checkpoint: str | Path, path: str | Path, metadata: dict[str, Any]) -> Path:
    """Writes the actor of a SAC checkpoint, in float32 and without anything else, with `metadata` in the header.

    Args:
        run_checkpoint: best.ckpt or model.ckpt of a run.
        path: The file to write.
        metadata: env_id, level, return, steps, activation ...; sizes are added.
    """
    weights = actor_weights(Path(run_checkpoint))
    try:
        actor = build_actor(weights, str(metadata.get("activation", "relu")))
    except (ValueError, RuntimeError, KeyError) as error:
        raise DataError(
            f"{run_checkpoint}: cannot be published ({str(error).splitlines()[0][:120]})"
        ) from None
    size = sum(4 * weight.numel() for weight in weights.values())
    if size > MOST_BYTES:
        raise DataError(
            f"{run_checkpoint}: its actor has {size / 1e6:.1f} MB; a published policy has less than 1"
        )
    matrices = [weight for key, weight in weights.items() if key.startswith("torso") and weight.ndim == 2]
    about = {
        "algorithm": "SAC",
        **metadata,
        "hidden_dims": [len(weight) for weight in matrices],
        "obs_dim": matrices[0].shape[1],
        "action_dim": actor.linear.out_features // 2,
    }
    path = Path(path)
    with file_of_user(path), atomic_path(path) as temporary:
        save_file(weights, temporary, {HEADER: json.dumps(about)})
    return path


def actor_weights(checkpoint: Path) -> dict[str, Tensor]:
    try:
        state = torch.load(checkpoint, map_location="cpu", weights_only=True)["state_dict"]
    except Exception as error:  # a damaged or hostile file can raise nearly anything
        raise DataError(
            f"{checkpoint}: no checkpoint that can be loaded safely ({type(error).__name__})"
        ) from None
    weights = {
        key.removeprefix("actor."): weight.float().contiguous()
        for key, weight in state.items()
        if key.startswith("actor.")
    }
    if not weights:
        raise DataError(
            f"{checkpoint}: has no SAC actor, and only those are published. Record from the run itself instead:\n"
            "rl data make local/NAME --run RUN"
        )
    return weights


def local_references(env: str) -> Reference | None:
    """Mean returns of a random policy and the expert, from the headers of the env's published policies."""
    expert = find_policy(env, "expert")
    levels = ("expert", "medium")
    headers = [read_about(path) for path in (find_policy(env, level) for level in levels) if path is not None]
    low = next((each["random_return"] for each in headers if "random_return" in each), None)
    high = read_about(expert).get("return") if expert is not None else None
    if low is None or high is None or not high > low:
        return None
    return Reference(float(low), float(high), "local")
