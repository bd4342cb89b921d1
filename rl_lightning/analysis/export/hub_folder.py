"""`rl export RUN --format hub`: a folder with all that somebody else needs to play an agent, and nothing that runs.

Weights are safetensors, the config names classes that the reader's own allow-list must know, artifacts that the policy
acts through lie inside. Data sets and folders of the maker's machine are not named: who plays needs the env alone.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import yaml
from safetensors.torch import save_file

from rl_lightning.analysis.evaluation.play_agent import check_acts, film_episode, play_episodes
from rl_lightning.analysis.export.hub_card import card
from rl_lightning.datamodules import OnlineData, OnPolicyData, SequenceData
from rl_lightning.errors import ConfigError
from rl_lightning.io.artifact_place import find_artifact
from rl_lightning.io.atomic import write_json, write_text
from rl_lightning.redaction import redact
from rl_lightning.runs.agents.agent import LoadedAgent
from rl_lightning.runs.config.config_version import stamped
from rl_lightning.runs.pipeline.plan import set_key
from rl_lightning.runs.store.artifact_hashes import artifacts_of
from rl_lightning.runs.store.hub import PACKED, WEIGHTS
from rl_lightning.runs.store.run_folder import RECORD, now
from rl_lightning.runs.store.run_record import versions
from rl_lightning.types import Rollout, Sequences, Transitions

EPISODES, SEED = 20, 1000
MOST_METRICS = 5_000_000  # bytes of a metrics.csv that goes along
PLAYED_BY = {Transitions: OnlineData, Rollout: OnPolicyData, Sequences: SequenceData}


class HubResult(NamedTuple):
    """How well the agent did, as its card says it."""

    mean: float
    std: float
    episodes: int
    seed: int


def export_hub(agent: LoadedAgent, folder: Path, episodes: int = EPISODES) -> str:
    """Writes the folder; what was written, as text.

    Args:
        agent: A policy.
        folder: A new folder, or an empty one.
        episodes: Played for the return on the card.
    """
    check_acts(agent, agent.title)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder}: is there already; give another with --output")
    assert agent.run is not None
    model, data = agent.cli.model, agent.cli.datamodule
    folder.mkdir(parents=True, exist_ok=True)
    config, packed = standing_config(agent, folder)
    write_text(folder / "config.yaml", yaml.safe_dump(stamped(redact(config)), sort_keys=False))
    weights = {name: value.detach().cpu().contiguous().clone() for name, value in model.state_dict().items()}
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
    (folder / WEIGHTS).chmod(0o644)  # it is made for others
    returns = np.array([each.episode_return for each in play_episodes(model, data, episodes, SEED)])
    result = HubResult(float(returns.mean()), float(returns.std()), episodes, SEED)
    film = film_episode(agent, SEED, folder / "replay.mp4")
    record = shared_record(agent, result, packed)
    write_json(folder / RECORD, record)
    metrics = agent.run.folder / "metrics.csv"
    if metrics.is_file() and metrics.stat().st_size <= MOST_METRICS:
        shutil.copyfile(metrics, folder / metrics.name)
    write_text(folder / "README.md", card(record, has_film=(folder / "replay.mp4").is_file()))
    lines = [
        agent.title,
        str(folder),
        f"return {result.mean:.1f} ± {result.std:.1f} over {episodes} episodes",
    ]
    lines += [] if (folder / "replay.mp4").is_file() else [film]
    return "\n".join([*lines, f"next: rl play {folder} · rl push {folder} USER/NAME"])


def standing_config(agent: LoadedAgent, folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The run's config without what only its maker has, and the artifacts that were packed, by dotted key."""
    plain = agent.cli.plain()
    config = {key: plain[key] for key in ("seed_everything", "threads", "model") if key in plain}
    config["model"]["init_args"].pop("init_policy", None)  # where training began
    config["data"] = _standing_data(agent, plain["data"])
    config["run"] = {"env_steps": plain["run"].get("env_steps"), "updates": plain["run"].get("updates")}
    packed: dict[str, str] = {}
    for key in artifacts_of({"model": config["model"]}):
        dotted = ".init_args.".join(key.split(".", 1)) if ".init_args." not in key else key
        place = find_artifact(_value(config, dotted))
        if place is None:
            continue
        name = f"{key.rpartition('.')[2]}-{len(packed)}"
        target = folder / PACKED / name
        target.parent.mkdir(exist_ok=True)
        copy = shutil.copytree if place.path.is_dir() else shutil.copyfile
        copy(place.path, target)
        packed[dotted] = name
        set_key(config, dotted, f"{PACKED}/{name}")
    return config, packed


def _value(config: Any, dotted: str) -> str:
    for key in dotted.split("."):
        config = config[key]
    return str(config)


def _standing_data(agent: LoadedAgent, data: dict[str, Any]) -> dict[str, Any]:
    """Data that need the env alone: those of a policy that learned from files are replaced."""
    given = dict(data.get("init_args") or {})
    env = given.get("env") or {"id": agent.cli.datamodule.spec.env_id}
    learns = getattr(type(agent.cli.model), "learns_from", ())
    kind = next((PLAYED_BY[each] for each in learns if each in PLAYED_BY), None)
    if kind is None:
        return data
    name = str(data["class_path"]).rpartition(".")[2]
    own = {key: value for key, value in given.items() if key != "dataset"} if name == kind.__name__ else {}
    return {"class_path": f"{kind.__module__}.{kind.__name__}", "init_args": {**own, "env": env}}


def shared_record(agent: LoadedAgent, result: HubResult, packed: dict[str, str]) -> dict[str, Any]:
    """What is told of the run: no folders, hosts or processes."""
    assert agent.run is not None
    record = agent.run.read()
    words = [Path(word).name if word.startswith("/") else word for word in record.get("command") or []]
    fields = {
        key: record.get(key)
        for key in ("id", "algorithm", "env", "seed", "tags", "env_step", "update", "imports", "imported")
    }
    return {
        **fields, "env": agent.cli.datamodule.spec.env_id, "status": "exported", "created": now(), "command": words,
        "versions": versions(), "torch": torch.__version__, "result": result._asdict(), "packed": packed,
    }  # fmt: skip
