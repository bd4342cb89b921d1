"""Sending an agent to the Hub and playing it from there, by the Hub's own client against a stand-in of its API."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from runs.store.hub_stand_in import TOKEN, hub

from rl_lightning.errors import ConfigError
from rl_lightning.runs.store.hub import checked, introduction

pytest.importorskip("huggingface_hub", reason="the extra hub is not installed")


def rl(folder: Path, url: str, *words: str, token: str = "") -> subprocess.CompletedProcess[str]:
    """In a process of its own: the client reads its address once."""
    own = {"HF_ENDPOINT": url, "HF_HOME": str(folder / "hf"), "RL_LOGS": "", "OMP_NUM_THREADS": "1"}
    given = {**os.environ, **own, **({"HF_TOKEN": token} if token else {})}
    given.pop("HF_TOKEN" if not token else "", None)
    command = [sys.executable, "-m", "rl_lightning.cli", *words]
    return subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True, timeout=300)


def test_an_agent_is_sent_and_played_from_there(tmp_path: Path) -> None:
    budget = ("--env_steps", "1024", "--eval_every", "1024", "--eval_episodes", "1", "--name", "mine")
    with hub() as (url, held):
        assert rl(tmp_path, url, "fit", "--config", "ppo/cartpole", *budget).returncode == 0
        assert not held.asked, "nobody asked the Hub"
        refused = rl(tmp_path, url, "push", "mine", "me/agent", "--episodes", "2")
        assert refused.returncode == 2 and "hf auth login" in refused.stderr and not held.files
        assert "return" not in refused.stdout, "nothing is played before it is known that it can be sent"
        sent = rl(tmp_path, url, "push", "mine", "me/agent", "--episodes", "2", token=TOKEN)
        assert sent.returncode == 0 and sent.stdout.splitlines()[-1] == f"{url}/me/agent", sent.stderr
        assert {
            "README.md",
            "config.yaml",
            "model.safetensors",
            "run.json",
            "metrics.csv",
        } <= held.files.keys()
        assert str(tmp_path).encode() not in b"".join(held.files.values()), "no path of the maker's"
        held.files["evil.py"] = b"open('touched', 'w')"
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        played = rl(elsewhere, url, "play", "hub:me/agent", "--episodes", "2", "--no_video")
        assert played.returncode == 0, played.stderr
        first, second = played.stdout.splitlines()[:2]
        assert first.startswith("a shared agent: PPO on CartPole-v1, said to return ")
        assert second.startswith("hub:me/agent · model.safetensors · PPO")
        assert not any("evil.py" in each for each in held.asked if each.startswith("GET")), (
            "only an agent's files"
        )
        gone = rl(elsewhere, url, "play", "hub:me/nothere")
        assert gone.returncode == 4 and len(gone.stderr.strip().splitlines()) == 1


def test_names_and_introductions() -> None:
    for wrong in ("agent", "../x/y", "a b/c", ""):
        with pytest.raises(ConfigError, match="USER/NAME"):
            checked(wrong)
    assert introduction({"status": "finished"}) == ""
    odd = {"status": "exported", "algorithm": "SAC" * 100, "env": 3, "result": {"mean": "many"}}
    assert len(introduction(odd)) < 220
