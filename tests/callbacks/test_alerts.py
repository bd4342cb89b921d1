"""Alerts fire when they should, reach whom they should, and stop what they should; guards leave bad gradients out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import yaml
from lightning.pytorch.loggers import Logger

from rl_lightning.algorithms.step import GradientGuard, Stepper
from rl_lightning.callbacks.alerts import AlertRule, Alerts
from rl_lightning.callbacks.debug import DebugMonitor
from rl_lightning.callbacks.nonfinite_guard import NonFiniteGuard
from rl_lightning.cli import main
from rl_lightning.errors import ConfigError, DivergedError
from rl_lightning.loggers.alert_sender import VARIABLE, AlertSender

NET = {"class_path": "MLP", "init_args": {"hidden_dims": [8]}}
CARTPOLE: dict[str, Any] = {
    "model": {"class_path": "PPO", "init_args": {"n_epochs": 1, "minibatch_size": 32, "network": NET}},
    "data": {
        "class_path": "OnPolicyData",
        "init_args": {"env": {"id": "CartPole-v1"}, "num_envs": 2, "rollout_steps": 16},
    },
    "run": {"env_steps": 320, "eval_every": 32, "eval_episodes": 1},
    "log": {"tensorboard": False, "every": 32},
    "threads": 1,
}


@pytest.fixture(autouse=True)
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for name in ("RL_LOGS", "RL_RUN_DIR", "LOCAL_RANK", VARIABLE):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return tmp_path


class Watched:
    """Alerts without a Trainer: rows go in, names of what was told come out."""

    def __init__(self, clock: str = "env_step", **options: Any) -> None:
        self.alerts = Alerts(cooldown=0.0, **({"memory_high": None} | options))
        self.told: list[str] = []
        self.alerts.messenger.send = lambda name, text, stops: self.told.append(name)  # type: ignore[method-assign]
        self.trainer = SimpleNamespace(datamodule=SimpleNamespace(clock=SimpleNamespace(clock_name=clock)))

    def __call__(self, **row: float) -> bool:
        self.alerts.listener.log_metrics({key.replace("_per", "/per"): v for key, v in row.items()})
        return self.alerts._look(self.trainer)  # type: ignore[arg-type]

    def row(self, row: dict[str, float]) -> bool:
        self.alerts.listener.log_metrics(row)
        return self.alerts._look(self.trainer)  # type: ignore[arg-type]


def test_nan_loss_is_any_train_metric():
    watched = Watched(stop_on=["nan_loss"])
    assert not watched.row({"eval/return": float("nan"), "train/loss": 1.0})
    assert watched.row({"train/q_values": float("inf")}) and watched.told == ["nan_loss"]
    assert Watched(nan_loss=False).row({"train/q_values": float("nan")}) is False


def test_slow_progress_needs_several_slow_emissions():
    watched = Watched(slow_progress=100.0)
    for speed in (50.0, 50.0, 200.0, 50.0, 50.0):
        watched.row({"time/env_steps_per_s": speed})
    assert watched.told == []
    watched.row({"time/env_steps_per_s": 50.0})
    assert watched.told == ["slow_progress"]


def test_plateau_counts_evaluations_without_a_better_one():
    watched = Watched(plateau_patience=3, plateau_min_delta=1.0, stop_on=["plateau"])
    assert not any(watched.row({"eval/return": value}) for value in (10.0, 12.0, 12.5, 11.0))
    assert watched.row({"eval/return": 12.9}), "12.9 is not better by the margin"


def test_memory_high(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=1, total=100))
    watched = Watched(memory_high=0.9)
    watched.row({"time/memory_gb": 2.0})
    assert watched.told == ["memory_high"]


def test_rules_of_ones_own():
    rule = AlertRule("kl", "train/approx_kl > 0.1 and mean(eval/return, 2) < 20", consecutive=2, stop=True)
    watched = Watched(rules=[rule])
    watched.row({"eval/return": 10.0})
    assert not watched.row({"train/approx_kl": 0.5})
    assert not watched.row({"time/x": 1.0}), "a row without its metrics does not count"
    assert watched.row({"train/approx_kl": 0.5}) and watched.told == ["kl"]


@pytest.mark.parametrize("name", ["a, b", "<b>$x", "train/лосс", "a\nb", "x" * 500, "{name}", "'", "a/b/c"])
def test_hostile_metric_names_are_only_names(name):
    watched = Watched(rules=[AlertRule("r", "train/loss > 1")])
    watched.row({name: 1.0, f"train/{name}": float("nan"), "train/loss": 2.0})
    assert watched.told == ["nan_loss", "r"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"stop_on": ["plato"]}, "no alert is called 'plato'"),
        ({"rules": [AlertRule("plateau", "a > 1")]}, "two alerts"),
        ({"rules": [AlertRule("a", "a >")]}, "condition"),
        ({"rules": [AlertRule("a\x1b[2J", "a > 1")]}, "not a name"),
        ({"rules": [AlertRule("a", "a > 1", consecutive=0)]}, "at least 1"),
        ({"memory_high": 95}, "share"),
        ({"notify": ["mail"]}, "mail"),
        ({"command": []}, "list of words"),
    ],
)
def test_mistakes_are_told_before_training(options, text):
    with pytest.raises(ConfigError, match=text):
        Alerts(**options)


def test_state_goes_through_a_checkpoint():
    first, second = (
        Watched(plateau_patience=3, rules=[AlertRule("r", "mean(a, 3) > 1", consecutive=2)]) for _ in range(2)
    )
    for value in (5.0, 4.0, 3.0):
        first.row({"eval/return": value, "a": value})
    state = torch_round_trip(first.alerts.state_dict())
    second.alerts.load_state_dict(state)
    for watched in (first, second):
        watched.told.clear()
        watched.row({"eval/return": 1.0, "a": 0.0})
    assert first.told == second.told == ["plateau", "r"]


def torch_round_trip(state: Any) -> Any:
    torch.save(state, "state.pt")
    return torch.load("state.pt", weights_only=True)


def test_a_command_needs_the_users_word(monkeypatch: pytest.MonkeyPatch, workdir: Path):
    words = [
        sys.executable,
        "-c",
        "import sys; open('told', 'w').write(repr(sys.argv[1:]))",
        "{name}: {text}",
        "$HOME;`x`",
    ]
    messenger = AlertSender(["log"], words)
    with pytest.raises(ConfigError, match=VARIABLE):
        messenger.open(workdir, [])
    monkeypatch.setenv(VARIABLE, sys.executable)
    messenger.open(workdir, [])
    messenger.send("kl", "{run} '; rm -rf x\x1b[31m", False)
    messenger.close()
    assert Path("told").read_text() == repr(["kl: {run} '; rm -rf x�[31m", "$HOME;`x`"]), (
        "no shell, no second filling in"
    )


def test_a_command_that_fails_is_no_reason_to_stop(monkeypatch: pytest.MonkeyPatch, capsys, workdir: Path):
    monkeypatch.setenv(VARIABLE, "/no/such/program")
    messenger = AlertSender([], ["/no/such/program", "a\0b"])
    messenger.open(workdir, [])
    messenger.send("a", "b", False)
    assert "did not start" in capsys.readouterr().err


def test_wandb_is_told_and_may_fail(workdir: Path, capsys):
    class WandbLogger(Logger):
        name, version = "wandb", ""
        heard: list[str] = []  # noqa: RUF012

        @property
        def experiment(self) -> Any:
            return SimpleNamespace(alert=self.alert)

        def alert(self, title: str, text: str) -> None:
            self.heard.append(title)
            raise OSError("no network")

        def log_metrics(self, metrics: Any, step: Any = None) -> None: ...
        def log_hyperparams(self, params: Any) -> None: ...

    logger = WandbLogger()
    messenger = AlertSender(["wandb"])
    messenger.open(workdir, [logger])
    messenger.send("kl", "text", False)
    assert logger.heard == ["kl"] and "no network" in capsys.readouterr().err


def fit(*callbacks: dict[str, Any], name: str = "a", **changes: Any) -> int:
    config = {**CARTPOLE, "trainer": {"callbacks": list(callbacks)}, **changes}
    Path("c.yaml").write_text(yaml.safe_dump(config))
    return main(["fit", "--config", "./c.yaml", "--name", name])


def test_an_alert_ends_a_run(workdir: Path, capsys):
    rule = {"name": "early", "when": "env_step >= 96", "stop": True}
    assert fit({"class_path": "Alerts", "init_args": {"rules": [rule]}}) == 0
    folder = workdir / "lightning_logs/a"
    assert "alert early: env_step >= 96" in capsys.readouterr().err
    (line,) = (folder / "alerts.jsonl").read_text().splitlines()
    assert json.loads(line)["alert"] == "early" and json.loads(line)["stops"] is True
    reached = json.loads((folder / "run.json").read_text())["env_step"]
    assert reached == 128, "the block after the one whose metrics raised it"
    assert main(["resume", "a"]) == 0, "and it can be gone on with"


def weights(name: str) -> dict[str, torch.Tensor]:
    folder = sorted(Path(f"lightning_logs/{name}/checkpoints").glob("last-*"))[-1]
    return torch.load(folder / "model.ckpt", weights_only=True)["state_dict"]


def same(a: str, b: str) -> bool:
    first, second = weights(a), weights(b)
    return all(torch.equal(first[key], second[key]) for key in first)


def watched_steps(monkeypatch: pytest.MonkeyPatch, kind: type) -> list[Any]:
    """The modules of runs that begin with a callback of this kind, and what moves them from then on."""
    begun, inner = [], kind.on_train_start

    def begin(self: Any, trainer: Any, module: Any) -> None:
        inner(self, trainer, module)
        begun.append((module, module.stepper))

    monkeypatch.setattr(kind, "on_train_start", begin)
    return begun


def test_a_guard_changes_nothing_until_it_must(monkeypatch: pytest.MonkeyPatch):
    begun = watched_steps(monkeypatch, NonFiniteGuard)
    run = {"env_steps": 96, "eval_every": 96, "eval_episodes": 1}
    assert fit(name="plain", run=run) == 0
    assert (
        fit({"class_path": "NonFiniteGuard", "init_args": {"nonfinite": "skip"}}, name="guarded", run=run)
        == 0
    )
    ((module, stepper),) = begun
    assert same("plain", "guarded")
    assert isinstance(stepper, GradientGuard) and type(module.stepper) is Stepper


def test_accumulated_gradients_are_saved(workdir: Path):
    """Stopped in the middle of gathering, the run goes on as if it never was."""
    guard = {"class_path": "NonFiniteGuard", "init_args": {"accumulate_grad_batches": 3}}
    run = {"env_steps": 128, "eval_every": 64, "eval_episodes": 1, "save_every": 32}
    assert fit(guard, name="whole", run=run) == 0
    assert fit(guard, name="parts", run={**run, "env_steps": 64}) == 0
    assert main(["resume", "parts", "--env_steps", "128"]) == 0
    assert fit(name="plain", run=run) == 0
    assert same("whole", "parts") and not same("whole", "plain")


def problem(value: float = 1.0) -> tuple[torch.nn.Parameter, torch.optim.SGD]:
    weight = torch.nn.Parameter(torch.tensor([value, 2.0]))
    return weight, torch.optim.SGD([weight], 0.5)


def test_accumulation_is_the_mean_gradient():
    weight, optimizer = problem()
    step = GradientGuard(accumulate=2)
    step(optimizer, weight[0] * 2.0)
    assert weight.tolist() == [1.0, 2.0]
    assert step(optimizer, weight[0] * 4.0, clip=100.0).item() == pytest.approx(3.0)
    assert weight.tolist() == [1.0 - 0.5 * 3.0, 2.0]


@pytest.mark.parametrize("bad", ["loss", "gradient"])
def test_nonfinite_is_skipped_and_counted_or_stops(bad):
    def loss(weight: torch.Tensor) -> torch.Tensor:
        return weight.sum() * float("inf") if bad == "loss" else (weight - weight.detach()).abs().sqrt().sum()

    weight, optimizer = problem()
    step = GradientGuard(skip=True, max_skips=2, names={id(weight): "actor.weight"})
    for _ in range(2):
        assert step(optimizer, loss(weight), clip=1.0).item() == 0.0
    assert weight.tolist() == [1.0, 2.0] and step.skipped == 2
    step(optimizer, weight.sum())
    assert step.in_a_row == 0 and weight.tolist() == [0.5, 1.5]
    for _ in range(2):
        step(optimizer, loss(weight))
    with pytest.raises(DivergedError, match="3 steps in a row"):
        step(optimizer, loss(weight))
    stops = GradientGuard(names={id(weight): "actor.weight"})
    with pytest.raises(DivergedError, match=r"the loss became|gradient of actor\.weight"):
        stops(optimizer, loss(weight))


def test_guard_options_are_checked():
    for options in ({"nonfinite": "ignore"}, {"accumulate_grad_batches": 0}, {"max_skips": 0}):
        with pytest.raises(ConfigError):
            NonFiniteGuard(**options)


def test_debug_names_what_is_not_finite(workdir: Path, capsys, monkeypatch: pytest.MonkeyPatch):
    begun = watched_steps(monkeypatch, DebugMonitor)
    Path("c.yaml").write_text(yaml.safe_dump(CARTPOLE))
    assert main(["fit", "--config", "./c.yaml", "--debug", "--env_steps", "128", "--name", "d"]) == 0
    folder = workdir / "lightning_logs/d"
    trace = json.loads((folder / "trace.json").read_text())
    assert trace["traceEvents"] and (folder / "profile.txt").read_text()
    ((module, stepper),) = begun
    assert isinstance(stepper, GradientGuard) and type(module.stepper) is Stepper
    assert not torch.is_anomaly_enabled()
    from rl_lightning.nn.heads.critics import ValueHead

    monkeypatch.setattr(ValueHead, "forward", lambda self, features: features.sum(-1) * float("nan"))
    capsys.readouterr()
    assert main(["fit", "--config", "./c.yaml", "--debug", "--name", "e"]) == 5
    assert "not finite" in capsys.readouterr().err
