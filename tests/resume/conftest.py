"""Two runs that most tests here start from: one never stopped, and one of the same seed that is half way."""

from pathlib import Path

import pytest
from resume.support import SAC, logs, rl, write

from rl_lightning.cli import main

__all__ = ["logs", "rl"]


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("resume")
    config = write(folder, "sac", SAC)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RL_LOGS", str(folder))
        assert main(["fit", "--config", config, "--name", "straight"]) == 0
        assert main(["fit", "--config", config, "--name", "half", "--env_steps", "48"]) == 0
    return folder


@pytest.fixture(scope="session")
def straight(runs: Path) -> Path:
    """A run of 96 env steps."""
    return runs / "straight"


@pytest.fixture(scope="session")
def half(runs: Path) -> Path:
    """The same with a budget of 48; to be copied, never touched."""
    return runs / "half"
