"""Agents that people share through the Hugging Face Hub: fetched and sent when a user says so, by its own client."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

from rl_lightning.errors import ConfigError, ResumeError
from rl_lightning.extras import pip_command

PREFIX = "hub:"
WEIGHTS, PACKED = "model.safetensors", "artifacts"  # of a shared agent's folder
FILES = ["config.yaml", "run.json", "README.md", WEIGHTS, f"{PACKED}/*", "metrics.csv"]
REPOSITORY = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}")


@functools.cache
def fetch(name: str) -> Path:
    """The folder of `hub:USER/NAME`, in the Hub's own cache; only files of an agent are fetched."""
    repository = checked(name.removeprefix(PREFIX))
    hub = client()
    try:
        return Path(hub.snapshot_download(repository, allow_patterns=FILES))
    except Exception as error:  # of the network, of the Hub, or of a name that is not there
        raise ResumeError(f"hub:{repository} cannot be fetched: {_first_line(error)}") from None


def send(folder: Path, name: str, private: bool) -> str:
    """Uploads a shared agent's folder; its address."""
    repository, hub = checked(name), client()
    api = hub.HfApi()
    check_login()
    try:
        api.create_repo(repository, private=private, exist_ok=True)
        api.upload_folder(repo_id=repository, folder_path=folder, commit_message="Share an agent")
    except Exception as error:
        raise ConfigError(f"{repository} was not sent: {_first_line(error)}") from None
    return f"{hub.constants.ENDPOINT}/{repository}"


def check_login() -> None:
    """Raises unless somebody is logged in to the Hub."""
    try:
        client().HfApi().whoami()
    except ConfigError:
        raise
    except Exception as error:  # of another package, from a place of unknown health
        raise ConfigError("not logged in to the Hub; type: hf auth login") from error


def introduction(record: dict[str, Any]) -> str:
    """What a shared agent says of itself; empty for a run of one's own."""
    if record.get("status") != "exported":
        return ""
    result, version = record.get("result") or {}, (record.get("versions") or {}).get("rl-lightning")
    numbers = [result.get(key) for key in ("mean", "std", "episodes")]
    known = all(isinstance(number, int | float) for number in numbers)
    score = (
        f", said to return {numbers[0]:.1f} ± {numbers[1]:.1f} over {numbers[2]} episodes" if known else ""
    )
    maker = f", made by rl_lightning {str(version)[:20]}" if version else ""
    return (
        f"a shared agent: {str(record.get('algorithm'))[:60]} on {str(record.get('env'))[:60]}{score}{maker}; "
        "weights and a config are read, nothing of it is run"
    )


def checked(repository: str) -> str:
    if not REPOSITORY.fullmatch(repository):
        raise ConfigError(f"'{repository}' is no name on the Hub; write USER/NAME")
    return repository


def client() -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise ConfigError(f"the Hub needs the huggingface_hub package: {pip_command('hub')}") from None
    return huggingface_hub


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
