"""What surrounds a fit: when it evaluates, emits, saves and stops, and what it leaves behind."""

import json
import os
import signal
import time

import pytest
import torch
from contracts.cases import BY_NAME
from contracts.harness import column, differing, fit, metrics, weights
from lightning.pytorch import Callback

from rl_lightning.callbacks import LogConfig, RunController, default_callbacks
from rl_lightning.clock.run_clock import RunClock, RunConfig
from rl_lightning.errors import DivergedError

PPO, DQN = BY_NAME["ppo-discrete"], BY_NAME["dqn"]


def test_evaluations_happen_each_time_a_multiple_is_crossed_and_once_at_the_end(tmp_path):
    """Blocks are 128 steps wide: 250 is crossed at 256, 500 at 512, 750 at 768; 896 is the end."""
    done = fit(PPO, RunConfig(env_steps=850, eval_every=250, eval_episodes=3), folder=tmp_path)
    assert [clock for clock, _ in done.evaluation.history] == [256, 512, 768, 896]
    lines = [json.loads(line) for line in (tmp_path / "eval.jsonl").read_text().splitlines()]
    assert [line["env_step"] for line in lines] == [256] * 3 + [512] * 3 + [768] * 3 + [896] * 3
    assert ["final" in line for line in lines] == [False] * 9 + [True] * 3
    assert column(tmp_path, "eval/return") == [value for _, value in done.evaluation.history]


def test_an_evaluation_at_the_last_step_is_not_played_twice(tmp_path):
    done = fit(PPO, RunConfig(env_steps=256, eval_every=128, eval_episodes=2), folder=tmp_path)
    assert [clock for clock, _ in done.evaluation.history] == [128, 256]


def test_nothing_is_evaluated_where_nobody_asked(tmp_path):
    done = fit(PPO, RunConfig(env_steps=256), folder=tmp_path)
    assert not done.evaluation.history and not (tmp_path / "eval.jsonl").exists()


def test_metrics_have_both_clocks_and_known_families(tmp_path):
    fit(DQN, RunConfig(env_steps=200, eval_every=100, eval_episodes=2), folder=tmp_path)
    rows = metrics(tmp_path)
    assert all(row["env_step"] and row["update"] for row in rows)
    families = {key.partition("/")[0] for row in rows for key in row} - {"env_step", "update"}
    assert families <= {"collect", "train", "eval", "time"}
    steps = column(tmp_path, "env_step")
    assert steps == sorted(steps) and steps[-1] >= 200
    assert column(tmp_path, "collect/buffer_size")[-1] == steps[-1]


def files(folder):
    return sorted(p.relative_to(folder) for p in (folder / "checkpoints").rglob("*") if p.is_file())


def test_last_and_best_are_saved_and_load_as_plain_values(tmp_path):
    done = fit(PPO, RunConfig(env_steps=512, eval_every=128, eval_episodes=2), folder=tmp_path)
    found = [tmp_path / name for name in files(tmp_path) if name.suffix in (".ckpt", ".pt")]
    loaded = {path: torch.load(path, weights_only=True) for path in found}
    models = {path: state["state_dict"] for path, state in loaded.items() if "state_dict" in state}
    last = [
        state
        for path, state in models.items()
        if path.parent.name.startswith("last") or path.name == "last.ckpt"
    ]
    best = [state for path, state in models.items() if path.name == "best.ckpt"]
    assert last and len(best) == 1
    assert any(not differing(state, weights(done.model)) for state in last), "the last weights are not there"
    fresh = PPO.model(done.data.spec)
    fresh.load_state_dict(best[0])


def test_best_is_the_best_evaluation(tmp_path):
    """The best weights play as well again."""
    done = fit(PPO, RunConfig(env_steps=900, eval_every=128, eval_episodes=4), folder=tmp_path, seed=2)
    clock, value = max(done.evaluation.history, key=lambda entry: (entry[1], -entry[0]))
    assert done.evaluation.best == (clock, value)
    (path,) = [tmp_path / name for name in files(tmp_path) if name.name == "best.ckpt"]
    state = torch.load(path, weights_only=True)["state_dict"]
    fresh = PPO.model(done.data.spec)
    fresh.load_state_dict(state)
    from rl_lightning.seeding import derive

    played = fresh.run_episodes(done.data.eval_envs(4), 4, derive(2, f"eval/{clock}"))
    assert sum(e.episode_return for e in played) / 4 == value
    done.data.teardown("fit")


def test_milestones_are_kept_at_every_crossing(tmp_path):
    fit(PPO, RunConfig(env_steps=600, milestone_every=200, save_minutes=None), folder=tmp_path)
    names = {part for name in files(tmp_path) for part in name.parts}
    for step in (256, 512, 640):  # 200, 400 and 600 lie in the blocks that end there
        assert any(str(step) in name for name in names), (step, names)


def test_no_half_written_file_is_left(tmp_path):
    fit(DQN, RunConfig(env_steps=200, save_every=50), folder=tmp_path)
    assert not [p for p in tmp_path.rglob("*") if "tmp" in p.name]


class Send(Callback):
    """Sends this process a signal after some blocks."""

    def __init__(self, number: int, after: int):
        self.number, self.left = number, after

    def on_train_batch_end(self, trainer, pl_module, *args):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), self.number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_at_the_end_of_its_block_with_a_checkpoint(number, tmp_path):
    callbacks = [Send(number, after=2), *default_callbacks(tmp_path, LogConfig())]
    handlers = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    done = fit(PPO, RunConfig(env_steps=10**6), folder=tmp_path, callbacks=callbacks)
    assert 256 <= done.data.clock.env_step <= 384
    assert any(name.suffix == ".ckpt" for name in files(tmp_path))
    assert next(c for c in callbacks if isinstance(c, RunController)).caught == number
    assert {n: signal.getsignal(n) for n in handlers} == handlers


def test_wall_time_ends_the_run_too():
    began = time.monotonic()
    done = fit(PPO, RunConfig(env_steps=10**8, max_hours=0.3 / 3600))
    assert 0.2 < time.monotonic() - began < 20 and done.data.clock.env_step > 0


def test_a_model_is_assessed_before_its_time_is_over(tmp_path):
    """Else what it hands on are the weights it began with."""
    run = RunConfig(updates=10**8, max_hours=0.3 / 3600, eval_every=10**7)
    done = fit(BY_NAME["dynamics"], run, folder=tmp_path)
    assert [clock for clock, _ in done.evaluation.history] == [done.data.clock.update]
    assert done.model.best.holdout.isfinite().all()


def test_updates_are_a_budget_too():
    done = fit(PPO, RunConfig(updates=3))
    assert done.data.clock.update == 3 and done.data.clock.env_step == 3 * 128


def test_a_run_that_diverges_leaves_its_metrics_and_checkpoints(tmp_path):
    case = DQN.but(model={"lr": 1e30, "max_grad_norm": None, "huber_delta": None})
    with pytest.raises(DivergedError):
        fit(case, RunConfig(env_steps=400, save_every=20), folder=tmp_path)
    assert files(tmp_path)
    for name in files(tmp_path):
        if name.suffix in (".ckpt", ".pt"):
            torch.load(tmp_path / name, weights_only=True)


def test_evaluations_before_the_actor_moves_are_no_score_of_the_run(tmp_path):
    """An actor that starts from BC's and never gets better: its own first policy must not be the best checkpoint."""
    case = BY_NAME["sac"].but(model={"actor_warmup_updates": 40, "lr": 1e-9, "critic_lr": 5e-3})
    run = RunConfig(env_steps=200, eval_every=20, eval_episodes=2, save_every=20)
    done = fit(case, run, folder=tmp_path / "whole")
    lines = [json.loads(line) for line in (tmp_path / "whole" / "eval.jsonl").read_text().splitlines()]
    start = sorted({line["env_step"] for line in lines if line["update"] <= 40})
    assert done.evaluation.untrained == len(start) >= 2
    assert done.evaluation.best[0] > start[-1]
    tail = [value for clock, value in done.evaluation.history if clock not in start][-10:]
    assert done.evaluation.last10 == pytest.approx(sum(tail) / len(tail))
    assert json.loads((tmp_path / "whole" / "checkpoints" / "best.json").read_text())["env_step"] > start[-1]

    fit(case, run, folder=tmp_path / "stopped", until=100)
    again = fit(case, run, folder=tmp_path / "stopped", resume=True)
    assert again.evaluation.state_dict() == done.evaluation.state_dict()


def test_a_density_is_looked_at_by_passes_until_its_first_regular_evaluation(tmp_path):
    """A small data set is learned by heart in a few passes, long before `eval_every`."""
    case = BY_NAME["density"]
    run = RunConfig(updates=240, eval_every=100, save_every=60)
    done = fit(case, run, folder=tmp_path / "whole")
    once = done.data.clock.pass_updates
    assert once == -(-len(done.data.train_index) // 32) and once < 30
    looks = [round(count * once) for count in (1, 2, 3, 4, 6, 8, 12, 16) if round(count * once) < 100]
    assert len(looks) >= 3
    assert [clock for clock, _ in done.evaluation.history] == [0, *looks, 100, 200, 240]

    fit(case, run, folder=tmp_path / "stopped", until=60)
    again = fit(case, run, folder=tmp_path / "stopped", resume=True)
    assert again.evaluation.history == done.evaluation.history
    assert not differing(weights(done.model), weights(again.model))


def test_large_data_and_models_that_do_not_overfit_are_looked_at_as_asked():
    schedule = RunClock(RunConfig(eval_every=1000), clock_name="update")
    assert schedule.early_looks() == [] and schedule.clip_updates(5000) == 1000
    schedule.pass_updates = 300
    assert schedule.early_looks() == [300, 600, 900] and schedule.clip_updates(5000) == 300
    schedule.update = 900
    assert schedule.clip_updates(5000) == 100
    schedule.pass_updates = 5000
    assert schedule.early_looks() == []
