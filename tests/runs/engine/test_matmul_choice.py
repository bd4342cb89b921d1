"""Who multiplies: decided once per machine and run, kept on resume and reproduce, refused where it would round."""

from __future__ import annotations

import json
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from rl_lightning.algorithms import PPO
from rl_lightning.cli import main
from rl_lightning.errors import ConfigError
from rl_lightning.kernels.matmul import MatmulProbe
from rl_lightning.nn.mlp import MLP
from rl_lightning.runs.engine import matmul_choice
from rl_lightning.runs.engine.matmul_choice import cache_file, choose_matmul, measure, rows_of
from rl_lightning.types import EnvSpec

SPEC = EnvSpec("fake", (8,), action_kind="discrete", action_sizes=(2,))
QUICK, ROUNDED = MatmulProbe(1.6, 6e-7), MatmulProbe(2.5, 1e-3)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RL_CACHE", str(tmp_path / "cache"))
    return cache_file()


@pytest.fixture
def answers(cache, monkeypatch):
    """The probes that are made, and what they say."""
    said = SimpleNamespace(answer=QUICK, asked=[])
    monkeypatch.setattr(matmul_choice, "probe", lambda sizes: said.asked.append(sizes) or said.answer)
    return said


def choice(wish="auto", recorded=None, hidden=512, device="cpu", precision="32-true"):
    model = PPO(SPEC, partial(MLP, hidden_dims=[hidden, hidden]))
    return choose_matmul(wish, recorded, model, SimpleNamespace(), device, precision)


def test_a_machine_is_asked_once(answers, cache):
    assert choice().fast and choice().fast and len(answers.asked) == 1
    assert choice(hidden=600).fast and len(answers.asked) == 2
    cache.write_text("{not json")
    assert choice().fast and len(answers.asked) == 3
    assert json.loads(cache.read_text())


def test_small_networks_half_precision_and_other_devices_are_left_alone(answers):
    assert not choice(hidden=32).fast
    assert not choice(device="cuda").fast
    assert not choice(precision="bf16-mixed").fast
    assert not choice(wish="default").fast
    assert not answers.asked


def test_what_is_not_quicker_or_not_exact_is_not_taken(answers):
    answers.answer = MatmulProbe(1.0, 6e-7)
    assert not choice().fast
    answers.answer = ROUNDED
    assert not choice(hidden=600).fast
    with pytest.raises(ConfigError, match=r"error of 1e-03.*--matmul default"):
        choice(wish="fast", hidden=600)


def test_a_run_keeps_its_own(answers):
    assert not choice(recorded={"choice": "default"}).fast
    answers.answer = MatmulProbe(0.9, 6e-7)
    assert choice(recorded={"choice": "fast"}).fast
    assert choice(wish="fast", recorded={"choice": "default"}, hidden=32).fast  # what is said now wins
    assert str(choice(recorded={"choice": "fast"})) == "products by oneDNN (0.9x)"


def test_rows_are_those_of_a_batch():
    data = SimpleNamespace(batch_size=16, sequence_length=64)
    assert rows_of(PPO(SPEC), data) == 1024 and rows_of(PPO(SPEC), SimpleNamespace()) == 256


def test_without_a_place_to_keep_it_the_machine_is_asked_each_time(answers, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RL_CACHE", str(tmp_path / "file"))
    assert measure([(256, 512, 512)]) == measure([(256, 512, 512)]) == QUICK
    assert len(answers.asked) == 2


def test_a_run_says_it_records_it_and_is_resumed_with_it(answers, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RL_LOGS", str(tmp_path / "logs"))
    seen = []
    update = PPO.update
    monkeypatch.setattr(
        PPO, "update", lambda *given: seen.append(torch.get_float32_matmul_precision()) or update(*given)
    )
    small = [
        "--eval_every",
        "512",
        "--run.eval_episodes",
        "1",
        "--data.rollout_steps",
        "64",
        "--model.n_epochs",
        "1",
    ]
    wide = ["--model.network.hidden_dims", "[512, 512]"]
    assert (
        main(["fit", "--config", "ppo/cartpole", "--name", "wide", "--env_steps", "512", *small, *wide]) == 0
    )
    assert "products by oneDNN (1.6x)" in capsys.readouterr().out
    record = json.loads((tmp_path / "logs" / "wide" / "run.json").read_text())
    assert record["matmul"] == {"choice": "fast", "speedup": 1.6, "error": 6e-7}
    answers.answer = ROUNDED._replace(error=1e-7, speedup=0.5)  # another machine, where it does not pay
    monkeypatch.setenv("RL_CACHE", str(tmp_path / "other"))
    assert main(["resume", "wide", "--env_steps", "1024"]) == 0
    assert set(seen) == {"medium"} and torch.get_float32_matmul_precision() == "highest"
