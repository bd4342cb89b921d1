"""A world and its reward head learn a small game; the whole cycle learns to play it without ever training in it."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
import yaml
from contracts.case import Case
from contracts.families.frames import RECIPE, SMALL, frames_artifact, world_artifact
from contracts.harness import fit, weights

from rl_lightning.algorithms import NextFrame, RewardModel
from rl_lightning.artifacts import load_exported
from rl_lightning.cli import main
from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.datamodules import FrameWindowData, RewardStepData, SimulatedData
from rl_lightning.envs.make import EnvConfig, probe_spec
from rl_lightning.envs.wrappers.transforms import AtariFrames, FrameStack, GrayLevelIndex
from rl_lightning.errors import ConfigError, DataError
from rl_lightning.functional.frame_losses import UNSEEN
from rl_lightning.models.frames.frame_metrics import reward_scores
from rl_lightning.nn.frames.reward_net import SpatialRewardNet
from rl_lightning.optim import Adam
from rl_lightning.optim.schedules import Linear
from rl_lightning.replay.reward_samplers import ClassBalancedSampler
from rl_lightning.runs.store.run_folder import Run

GOOD = {"dropout": 0.0, "residual_dropout": 0.0, "bottleneck_bits": 0, "base_channels": 16, "embed_dim": 6}


@pytest.fixture(scope="module")
def frames(tmp_path_factory) -> str:
    return frames_artifact(tmp_path_factory.mktemp("frames") / "collect", steps=600)


def case(frames: str, **model) -> Case:
    def data(**more):
        return FrameWindowData(
            SMALL, frames, **{"sequence_length": 4, "batch_size": 32, "updates_per_block": 5, **more}
        )

    def make(spec, **more):
        network = partial(RECIPE, **{**GOOD, **model.pop("predictor", {})})
        given = {
            "optimizer": partial(Adam, eps=1e-5),
            "lr": 2e-3,
            "value_coef": 0.05,
            "scheduled_sampling_decay_steps": 100,
            "input_noise": 0.0,
        }
        return NextFrame(spec, predictor=network, **{**given, **model, **more})

    return Case("world", data, make, (("world.",),))


def test_a_world_is_learned_with_its_ends_and_joint_rewards(frames):
    """Online: the head learns along with the world. Copying the last frame would score 0."""
    torch.set_num_threads(1)
    done = fit(
        case(frames, predictor={"reward_net": SpatialRewardNet, "predict_termination": True}),
        RunConfig(updates=300),
    )
    model = done.model.eval()
    with torch.no_grad():
        found = model.validate(done.data)
        window = done.data.val_windows(200, 1)
        assert window is not None
        features = model.world.features(window.stack, window.action[:, 0])
        ends = model.world.end(features.fin) > 0
    assert (
        found["eval/changed_pixel_accuracy"] > 0.9
        and found["eval/score"] == found["eval/changed_pixel_accuracy"]
    )
    assert (ends == window.terminated[:, 0]).float().mean() > 0.95
    assert found["eval/reward_recall_minus"] > 0.5 and found["eval/copy_baseline_accuracy"] < 0.95
    assert int(model.gradient_steps) == 300 * 4


def test_the_rate_follows_its_schedule(frames):
    done = fit(case(frames, lr_schedule=Linear(end=0.0)), RunConfig(updates=20))
    (optimizer,) = done.trainer.optimizers
    assert 0.0 < optimizer.param_groups[0]["lr"] < 0.3 * 2e-3, (
        "20 updates in blocks of five: the last began at 3/4"
    )


def test_changes_are_weighed_against_the_true_frame_before(frames):
    plain, heavy = (
        fit(case(frames, motion_weight=w, predictor={"compress_steps": 1}), RunConfig(updates=1))
        for w in (1.0, 3.0)
    )
    heavy.model.load_state_dict(plain.model.state_dict())
    window = plain.data.val_windows(16, 3)
    assert window is not None
    with torch.no_grad():
        for t, before in ((0, window.stack[:, -1:]), (2, window.frame[:, 1])):
            stack = torch.zeros_like(window.stack)
            found = plain.model.world.features(stack, window.action[:, t])
            logits = plain.model.world.frame_logits(found)
            light, more = (
                run.model._losses(found, logits, window, t)[1]["train/frame_loss"] for run in (plain, heavy)
            )
            error = torch.nn.functional.cross_entropy(logits, window.frame[:, t].long(), reduction="none")
            extra = ((error - 0.03).clamp(min=0.0) * (window.frame[:, t] != before)).mean()
            assert extra > 0 and float(more - light) == pytest.approx(2.0 * float(extra), rel=1e-4)
    with pytest.raises(ConfigError, match="it must be above 0"):
        fit(case(frames, motion_weight=0.0), RunConfig(updates=1))


def test_the_weight_of_changes_follows_its_schedule(frames):
    schedule = Linear(end=1.0)
    model = fit(case(frames, motion_weight=9.0, motion_weight_schedule=schedule), RunConfig(updates=1))
    window = model.data.val_windows(16, 1)
    assert window is not None
    world, found = model.model.world, []
    with torch.no_grad():
        features = world.features(window.stack, window.action[:, 0])
        logits = world.frame_logits(features)
        for progress in (0.0, 0.5, 1.0):
            model.model.clock.progress = progress
            found.append(float(model.model._losses(features, logits, window, 0)[1]["train/frame_loss"]))
    assert found[0] > found[1] > found[2] > 0.0
    assert found[0] - found[1] == pytest.approx(found[1] - found[2], rel=1e-3), "weights of 9, 5 and 1"


def test_pixels_near_rare_colours_count_more(frames):
    """Ball and paddle are one pixel of 25 each: with a share of 1/20 both are rare, with the usual one none is."""
    given = {"predictor": {"compress_steps": 1}, "rare_pixel_weight": 4.0}
    none, both = (
        fit(case(frames, **given, rare_pixel_threshold=share), RunConfig(updates=1))
        for share in (0.001, 0.05)
    )
    assert not none.model.rare.any() and both.model.rare.tolist() == [False, True, True]
    window = both.data.val_windows(16, 1)
    assert window is not None
    both.model.load_state_dict(none.model.state_dict())
    with torch.no_grad():
        features = none.model.world.features(window.stack, window.action[:, 0])
        logits = none.model.world.frame_logits(features)
        light, heavy = (
            float(run.model._losses(features, logits, window, 0)[1]["train/frame_loss"])
            for run in (none, both)
        )
    assert light < heavy <= 4.0001 * light
    for wrong, said in (
        ({"rare_pixel_weight": 0.0}, "it must be above 0"),
        ({"rare_pixel_threshold": 0.0}, "it is above 0, and at most 1"),
        ({"rare_pixel_weight": 2.0, "predictor": {"colors": 0}}, "predictor.colors 0"),
    ):
        with pytest.raises(ConfigError, match=said):
            fit(case(frames, **wrong), RunConfig(updates=1))


def test_windows_in_which_something_turns_are_drawn_as_often_as_asked(frames):
    def drawn(**more):
        often = case(frames)
        given = partial(often.data, **{"rare_pixel_threshold": 0.05, **more})
        data = fit(replace(often, data=given), RunConfig(updates=1)).data
        return data, data.rows(20_000)

    plain, rows = drawn()
    data, turned = drawn(event_fraction=0.5)
    turns, after = data.log.direction_changes(torch.tensor([False, True, True])), data.log.walk(0.99).after
    path = [turned]
    for _ in range(3):
        path.append(after[path[-1]])
    there = turns[torch.stack(path, 1)].any(1)
    usual = float(torch.isin(rows, data.turns).float().mean())
    assert 0.05 < usual < 0.9 and torch.equal(there, torch.isin(turned, data.turns))
    assert float(there.float().mean()) == pytest.approx(0.5 + 0.5 * usual, abs=0.02)
    assert bool(torch.isin(turned, plain.begin).all()), (
        "no window leaves its episode or meets held-out frames"
    )
    for wrong, error, said in (
        ({"event_fraction": 1.5}, ConfigError, "it lies between 0 and 1"),
        (
            {"event_fraction": 0.5, "rare_pixel_threshold": 1e-6},
            DataError,
            "raise data.rare_pixel_threshold, or set data.event_fraction 0",
        ),
    ):
        with pytest.raises(error, match=said):
            drawn(**wrong)
    rgb = EnvConfig("ALE/Freeway-v5", transforms=[AtariFrames(obs_type="rgb")])
    with pytest.raises(ConfigError, match="with frames in RGB leave it at 0"):
        FrameWindowData(rgb, frames, event_fraction=0.5)


def test_only_colours_that_frames_hold_are_foretold(frames):
    """Catch has three colours. Of a palette of nine the other six are neither told apart nor drawn."""
    few, many = (
        fit(case(frames, predictor={"colors": colors, "compress_steps": 1}), RunConfig(updates=10))
        for colors in (3, 9)
    )
    world = many.model.world
    assert world.seen.tolist() == [True] * 3 + [False] * 6 and bool(few.model.world.seen.all())
    window = many.data.val_windows(16, 1)
    assert window is not None
    with torch.no_grad():
        found = world.features(window.stack, window.action[:, 0])
        logits, all_logits = world.frame_logits(found), world.logits(found.fin)
    assert logits.shape == (16, 3, 1, 5, 5)
    assert torch.allclose(logits[:, :, 0], all_logits[:, :3], atol=1e-5)
    assert torch.equal(world.mode(found), all_logits[:, :3].argmax(1, keepdim=True).to(torch.uint8))
    (optimizer,) = many.trainer.optimizers
    moved = optimizer.state[world.logits.weight]["exp_avg_sq"].flatten(1).sum(1)
    assert bool((moved[:3] > 0).all()) and not moved[3:].any(), "no update moves the others"


def test_seen_colours_need_not_lie_side_by_side():
    world = RECIPE(probe_spec(SMALL), colors=6)
    world.seen.copy_(torch.tensor([0, 1, 0, 1, 1, 0], dtype=torch.bool))
    world.logits.weight.data.zero_()
    world.logits.bias.data.copy_(torch.tensor([9.0, 1.0, 8.0, 3.0, 2.0, 7.0]))
    stack = torch.zeros(2, 2, 5, 5, dtype=torch.uint8)
    found = world.features(stack, torch.zeros(2, dtype=torch.long))
    assert world.frame_logits(found)[0, :, 0, 0, 0].tolist() == [1.0, 3.0, 2.0]
    assert (world.mode(found) == 3).all(), "the likeliest of the seen ones, by its own number"
    assert world.classes(torch.tensor([[1, 3], [4, 0]])).tolist() == [[0, 1], [2, UNSEEN]]
    older = {name: value for name, value in world.state_dict().items() if name != "seen"}
    fresh = RECIPE(probe_spec(SMALL), colors=6)
    fresh.load_state_dict(older)
    assert bool(fresh.seen.all()), "weights of before it was noted are taken as they are"


def test_a_window_too_long_is_told_with_what_there_is(frames):
    with pytest.raises(DataError, match="the longest has 4"):
        fit(case(frames).but(data={"sequence_length": 9}), RunConfig(updates=1))


def test_a_head_learns_on_a_world_that_stays_as_it_is(frames, tmp_path):
    world = world_artifact(tmp_path / "world")
    before = {name: value.clone() for name, value in load_exported(world, "world").state_dict().items()}

    def data():
        return RewardStepData(SMALL, frames, ClassBalancedSampler(), batch_size=32, updates_per_block=10)

    made = Case("head", data, lambda spec: RewardModel(spec, world, optimizer=Adam, lr=5e-3), ((),))
    done = fit(made, RunConfig(updates=150))
    assert set(weights(done.model)) == {
        "class_weight",
        *(f"reward_net.{n}" for n in done.model.reward_net.state_dict()),
    }
    after = done.model.world.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    with torch.no_grad():
        found = done.model.eval().validate(done.data)
    assert found["eval/reward_recall_zero"] > 0.9 and found["eval/score"] > 0.4  # chance is a third
    offered = done.model.exports()["reward"]
    assert offered.prefix == "reward_net." and offered.init_args["maps"]["compress_steps"] == 1


def test_scores_of_rewards_by_hand():
    label, told = torch.tensor([0, 1, 1, 1, 2, 2]), torch.tensor([0, 1, 1, 2, 2, 1])
    found = reward_scores(told, label)
    assert found["eval/reward_recall_minus"] == 1.0 and found["eval/reward_recall_plus"] == 0.5
    assert (
        found["eval/reward_recall_zero"] == pytest.approx(2 / 3)
        and found["eval/reward_precision_plus"] == 0.5
    )
    assert (
        found["eval/score"] == pytest.approx((1.0 + 2 / 3 + 0.5) / 3)
        and found["eval/num_rewarded_steps"] == 3.0
    )


def test_a_dream_needs_a_reward_and_its_own_game(frames, tmp_path):
    silent = tmp_path / "silent"
    world_artifact(silent)
    data = SimulatedData(SMALL, str(silent), frames, num_envs=2)
    assert data.make_simulated_envs(2).reset(seed=0)[0].shape == (2, 2, 5, 5)
    other = EnvConfig("rl/Catch-v0", {"rows": 5, "columns": 6}, transforms=[GrayLevelIndex(), FrameStack(2)])
    with pytest.raises(ConfigError, match="this run has"):
        SimulatedData(other, str(silent), frames).make_simulated_envs(2)
    with pytest.raises(ConfigError, match="exports world; a reward is needed here"):
        SimulatedData(SMALL, str(silent), frames, reward_from=str(silent)).make_simulated_envs(2)


def catch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **config) -> float:
    """The score of the last policy, trained in simulation alone."""
    monkeypatch.chdir(tmp_path)
    for name in ("RL_LOGS", "RL_RUN_DIR"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    (tmp_path / "catch.yaml").write_text(
        yaml.safe_dump({"extends": "mbarc/catch", "name": "catch", **config})
    )
    assert main(["fit", "--config", "./catch.yaml", "--log.tensorboard", "false"]) == 0
    run = tmp_path / "lightning_logs" / "catch-1"
    policies = sorted(run.glob("policy*"))
    return float(Run(policies[-1]).read()["best"])


@pytest.mark.slow
def test_catch_is_learned_in_the_dream_in_a_minute(tmp_path, monkeypatch):
    """One cycle: from -0.8 (random) to far above it in the real game, which only ever gave frames."""
    shorter = [{"name": "policy", "overrides": {"run.updates": 40}}]
    assert catch(tmp_path, monkeypatch, cycles=1, stages=shorter) > -0.4


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_catch_is_mastered_in_the_dream(seed, tmp_path, monkeypatch):
    assert catch(tmp_path, monkeypatch, shared={"seed_everything": seed}) >= 0.9
