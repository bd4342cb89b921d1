"""Lightning's checkpoints and ours in a plain Trainer: where files lie, what they load into, what resumes exactly."""

import shutil
from pathlib import Path

import pytest
import torch
from lightning.pytorch import Callback
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from trainer_parts import PARTS, fit

from rl_lightning.callbacks import RunCheckpoint

NAMES = list(PARTS)
EXACT = {"num_sanity_val_steps": 0, "enable_checkpointing": True}


def steps(folder: Path, pattern: str = "*.ckpt") -> list[int]:
    files = [torch.load(path, weights_only=True) for path in folder.glob(pattern)]
    return sorted(file["global_step"] for file in files)


def same(one, two) -> None:
    left, right = one.lightning_module.state_dict(), two.lightning_module.state_dict()
    assert left.keys() == right.keys() and all(torch.equal(left[key], right[key]) for key in left)
    clocks = [(t.global_step, t.datamodule.clock.env_step, t.datamodule.clock.update) for t in (one, two)]
    assert clocks[0] == clocks[1]
    values = [{k: v for k, v in t.callback_metrics.items() if k.startswith("eval/")} for t in (one, two)]
    assert values[0] == values[1] and values[0]


@pytest.mark.parametrize("name", NAMES)
def test_files_lie_at_the_updates_that_were_asked_for(name, tmp_path):
    every = ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=7, save_top_k=-1, save_last=True)
    fit(name, max_steps=24, callbacks=[every], **EXACT)
    assert steps(tmp_path, "step=*.ckpt") == [7, 14, 21] and (tmp_path / "last.ckpt").exists()


def test_the_best_by_evaluation_is_kept_with_its_score(tmp_path):
    scores = []

    class Scores(Callback):
        def on_validation_end(self, trainer, pl_module):
            if not trainer.sanity_checking:
                scores.append(float(trainer.callback_metrics["eval/return"]))

    best = ModelCheckpoint(tmp_path, "{epoch}", monitor="eval/return", mode="max", save_top_k=2)
    trainer = fit("ppo", max_epochs=5, callbacks=[best, Scores()], **EXACT)
    assert float(best.best_model_score) == max(scores) and len(list(tmp_path.glob("*.ckpt"))) == 2
    assert trainer.current_epoch == 5


def test_every_second_epoch_is_saved(tmp_path):
    every = ModelCheckpoint(tmp_path, "{epoch}", every_n_epochs=2, save_top_k=-1)
    fit("dqn", max_epochs=4, callbacks=[every], **EXACT)
    assert sorted(path.stem for path in tmp_path.glob("*.ckpt")) == ["epoch=1", "epoch=3"]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_lightnings_loads_and_goes_on_at_its_clocks(name, tmp_path):
    every = ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=10, save_top_k=-1)
    first = fit(name, max_steps=20, callbacks=[every], **EXACT)
    path = tmp_path / "step=10.ckpt"
    model = type(first.lightning_module).load_from_checkpoint(path)
    stored = torch.load(path, weights_only=True)["state_dict"]
    assert all(torch.equal(stored[key], value) for key, value in model.state_dict().items())
    with pytest.warns(UserWarning, match="not exact"):
        again = fit(name, max_steps=20, ckpt_path=path)
    assert again.global_step == again.datamodule.clock.update == 20
    assert again.current_epoch == first.current_epoch


@pytest.mark.parametrize("name", NAMES)
def test_evaluations_fall_on_the_same_clocks_after_a_resume_from_any_file(name, tmp_path):
    class Seen(Callback):
        def __init__(self):
            self.at = []

        def on_validation_end(self, trainer, pl_module):
            self.at.append(trainer.datamodule.clock.now)

    every = ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=8, save_top_k=-1)
    straight = Seen()
    fit(name, max_steps=70, callbacks=[straight, every], **EXACT)
    for path in sorted(tmp_path.glob("*.ckpt")):
        now = torch.load(path, weights_only=True)[type(PARTS[name].data()).__name__]["clock"]
        at = now["env_step"] if PARTS[name].data().clock_name == "env_step" else now["update"]
        again = Seen()
        fit(name, max_steps=70, callbacks=[again], ckpt_path=path, num_sanity_val_steps=0)
        due = [clock for clock in straight.at if clock > at or (clock == at and now["evaluated_at"] != at)]
        assert again.at == due, (path.name, at)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("stop", [{"max_steps": 13}, {"max_epochs": 1}], ids=["steps", "epoch"])
def test_our_checkpoint_resumes_exactly(name, stop, tmp_path):
    more = {"max_steps": 30} if "max_steps" in stop else {"max_epochs": 2}
    straight = fit(name, **more, callbacks=[RunCheckpoint(str(tmp_path / "straight"))], **EXACT)
    fit(name, **stop, callbacks=[RunCheckpoint(str(tmp_path / "half"))], **EXACT)
    again = fit(name, **more, callbacks=[RunCheckpoint(str(tmp_path / "half"))], ckpt_path="last", **EXACT)
    same(straight, again)


def test_a_stop_inside_a_gather_is_exact(tmp_path):
    """Eight updates after every sixteen steps, stopped after the third of them."""
    data = {"train_every": 16, "utd_ratio": 0.5}
    straight = fit("dqn", data=data, max_steps=40, callbacks=[RunCheckpoint(str(tmp_path / "a"))], **EXACT)
    fit("dqn", data=data, max_steps=11, callbacks=[RunCheckpoint(str(tmp_path / "b"), save_every=1)], **EXACT)
    again = fit(
        "dqn",
        data=data,
        max_steps=40,
        callbacks=[RunCheckpoint(str(tmp_path / "b"))],
        ckpt_path="last",
        **EXACT,
    )
    same(straight, again)


@pytest.mark.parametrize("name", ["ppo", "sac"])
def test_best_and_a_path_resume_exactly(name, tmp_path):
    straight = fit(name, max_epochs=4, callbacks=[RunCheckpoint(str(tmp_path / "straight"))], **EXACT)
    fit(name, max_epochs=2, callbacks=[RunCheckpoint(str(tmp_path / "half"))], **EXACT)
    for number in range(2):
        again = RunCheckpoint(str(shutil.copytree(tmp_path / "half", tmp_path / str(number))))
        path = again.best_model_path
        assert Path(path).is_file()
        given = "best" if number else path
        same(straight, fit(name, max_epochs=4, callbacks=[again], ckpt_path=given, **EXACT))


def test_early_stopping_by_threshold_and_by_patience():
    stop = EarlyStopping("eval/return", mode="max", stopping_threshold=-1.0)
    assert fit("ppo", max_epochs=5, callbacks=[stop]).current_epoch == 1
    patient = EarlyStopping("eval/return", mode="max", patience=2, min_delta=1e9)
    assert fit("ppo", max_epochs=9, callbacks=[patient]).current_epoch == 3
