"""What the env decides of a config: found out before training, written down, and the same in every process."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import rl_lightning
from rl_lightning.cli.flags import parse
from rl_lightning.envs.ends import ends_by_itself
from rl_lightning.envs.make import EnvConfig
from rl_lightning.envs.wrappers.transforms import Pixels
from rl_lightning.errors import ConfigError
from rl_lightning.runs.config.compose import compose, shipped
from rl_lightning.runs.config.flags.usual_config import USUAL, usual_config
from rl_lightning.runs.config.parsing import parse_config
from rl_lightning.runs.engine.settle import settle
from rl_lightning.runs.request import Request

TINY = {
    "model.latent_dim": 16,
    "model.encoder_hidden_dims": [16],
    "model.hidden_dim": 16,
    "model.planner.num_samples": 8,
    "model.planner.num_elites": 2,
    "model.planner.iterations": 1,
    "model.planner.num_pi_trajs": 2,
    "data.learning_starts": 40,
    "data.pretrain": 1,
    "data.train_ratio": 32,
    "data.env.max_episode_steps": 20,
}


@pytest.mark.parametrize(
    ("env_id", "ends"),
    [("Pendulum-v1", False), ("dmc/cartpole-swingup", False), ("InvertedPendulum-v5", True)],
)
def test_ends_are_met_by_random_play(env_id: str, ends: bool) -> None:
    assert [ends_by_itself(EnvConfig(env_id), steps=300) for _ in range(2)] == [ends, ends]


def test_settled_ends_are_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run that ends its episodes: its config says so, and it is resumed by what it says."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RL_LOGS", raising=False)
    Path("short.yaml").write_text(
        "extends: tdmpc2/pendulum\n"
        "run: {env_steps: 60, eval_every: 60, eval_episodes: 1}\n"
        "log: {tensorboard: false}\n"
    )
    run = rl_lightning.fit("./short.yaml", {**TINY, "data.env.id": "InvertedPendulum-v5"})
    model = yaml.safe_load((run.folder / "config.yaml").read_text())["model"]["init_args"]
    assert model["episodic"] is True
    assert rl_lightning.resume(run, env_steps=80).status == "finished"


@pytest.mark.parametrize("given", [True, False])
def test_what_is_given_is_not_looked_for(given: bool) -> None:
    cli = parse_config(compose(["tdmpc2/pendulum"]), Request(overrides=[f"--model.episodic={given}".lower()]))
    assert settle(cli) is None and cli.config.model.init_args.episodic is given


def test_a_model_alone_is_its_usual_config() -> None:
    assert set(USUAL.values()) <= shipped().keys()
    for model, config in USUAL.items():
        assert usual_config([], [f"--model={model}"]) == [config]
        assert compose([config])["model"]["class_path"].endswith(f".{model}")
    assert usual_config(["ppo/cartpole"], ["--model=Dreamer"]) == ["ppo/cartpole"]
    assert usual_config([], ["--model=PPO"]) == []


def test_a_key_asks_for_the_row_of_its_table() -> None:
    def chosen(*words: str) -> dict[str, str]:
        return parse(list(words), ("config",), config=True, command="fit").options

    assert chosen("--model", "TDMPC2", "--data.env.id", "Pendulum-v1") == {"task": "Pendulum-v1"}
    assert chosen("--config", "gormpo", "--data.dataset", "local/x") == {"task": "local/x"}
    assert chosen("--config", "gormpo/hopper-medium-v2", "--data.dataset", "local/x") == {}
    small = compose(["tdmpc2/states"], {"task": "HalfCheetah-v5", "size": "1M"})
    assert small["data"]["init_args"]["env"] == {"action_repeat": 1, "id": "HalfCheetah-v5"}
    assert small["model"]["init_args"]["model_size"] == "1M"


def test_pictures_of_what_cannot_be_drawn() -> None:
    with pytest.raises(ConfigError, match="shows no frames and draws none"):
        ends_by_itself(EnvConfig("rl/Counter-v0", transforms=[Pixels(16)]))
