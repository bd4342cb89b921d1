"""Dreaming on from seen rows: which actions are taken, which rows are compared, and what the numbers mean."""

import numpy as np
import pytest
import torch
from contracts.families.dreamer import CONV, world

from rl_lightning.models.rssm.open_loop import (
    OpenLoopRollout,
    open_loop_report,
    open_loop_rollout_latent,
    reward_calibration,
)
from rl_lightning.models.rssm.rssm import LatentState
from rl_lightning.rollout.open_loop_images import inside_episodes, save_open_loop_images, video_frames
from rl_lightning.types import EnvSpec, Sequences

SPEC = EnvSpec("fake", (2,), action_kind="discrete", action_sizes=(3,))


def batch(rows: int = 3, steps: int = 8, shape: tuple[int, ...] = (2,)) -> Sequences:
    torch.manual_seed(0)
    first = torch.zeros(rows, steps, dtype=torch.bool)
    first[0, 6] = True
    flags = torch.zeros(rows, steps)
    obs = (
        torch.randn(rows, steps, *shape)
        if len(shape) == 1
        else torch.randint(256, (rows, steps, *shape)).byte()
    )
    return Sequences(obs, torch.randint(3, (rows, steps)), torch.randn(rows, steps), flags, flags, first)


def test_the_actions_between_the_rows_are_taken(monkeypatch):
    """Row `context` follows from the last seen state and the action of the last seen row."""
    torch.manual_seed(0)
    model, rows, taken = world(1)(SPEC, 0.9), batch(), []

    def dream(state, action, noise, weights=None):
        taken.append(action)
        return LatentState(state.deter, state.stoch)

    monkeypatch.setattr(model.rssm, "img_step", dream)
    found = open_loop_rollout_latent(model, rows, context=3)
    assert torch.equal(torch.stack(taken, 1).argmax(-1), rows.action[:, 2:-1])
    assert found.dreamed.shape == (3, 5, 2) and found.reconstructed.shape == (3, 8, 2)
    assert torch.equal(found.reward, rows.reward[:, 3:])
    assert found.same_episode.tolist() == [[True] * 3 + [False] * 2, [True] * 5, [True] * 5]


def perfect(error: float = 0.0) -> OpenLoopRollout:
    true = torch.randn(4, 18, 2)
    reward = torch.rand(4, 15)
    same = torch.ones(4, 15, dtype=torch.bool)
    return OpenLoopRollout(3, true, true, true[:, 3:] + error, reward, reward, same, 0.7)


def test_errors_are_shares_of_the_variance():
    found = perfect(error=0.5)
    spread = found.true.flatten(0, 1).var(0, correction=0).sum().item()
    report = open_loop_report(found)["open_loop"]
    assert report["reconstruction_error"] == 0.0 and report["kl"] == 0.7
    for step in (1, 3, 5, 8, 15):
        assert report[f"error_{step}"] == pytest.approx(2 * 0.25 / spread, rel=1e-4)
    assert open_loop_report(perfect())["open_loop"]["error_15"] == 0.0


def test_calibration_by_hand():
    received = torch.tensor([0.0, 0.0, 1.0, 1.0])
    assert reward_calibration(received, received)["calibration_gap"] == 0.0
    off = reward_calibration(received + 0.25, received)
    assert off["calibration_gap"] == pytest.approx(0.25) and off["correlation"] == pytest.approx(1.0)
    assert reward_calibration(1 - received, received)["correlation"] == pytest.approx(-1.0)
    assert "correlation" not in reward_calibration(torch.zeros(4), received)


def test_pictures_and_the_video_are_written(tmp_path):
    assert [path.name for path in save_open_loop_images(perfect(), tmp_path)] == ["dream.png"]
    model = world(3, **CONV)(SPEC._replace(obs_shape=(1, 8, 8), obs_dtype="uint8"), 0.9)
    found = open_loop_rollout_latent(model, batch(shape=(1, 8, 8)), context=3)
    frames = video_frames(found)
    assert len(frames) == 8 and frames[0].shape == (4 * 8, 3 * 8, 3) and frames[0].dtype == np.uint8
    assert (frames[0][:8, :8, 0] == batch(shape=(1, 8, 8)).obs[0, 0, 0].numpy()).all()
    assert [path.name for path in save_open_loop_images(found, tmp_path)] == ["dream.png", "open-loop.mp4"]
    assert (tmp_path / "videos/open-loop.mp4").stat().st_size > 0


def test_pictures_stay_inside_the_episode_that_was_seen():
    found = perfect()
    same = found.same_episode.clone()
    same[0], same[1, 4:], same[2, 7:], same[3, 4:] = False, False, False, False
    shown = inside_episodes(found._replace(same_episode=same))
    assert torch.equal(shown.true, found.true[[2, 1, 3, 0], :10])
    assert torch.equal(shown.dreamed, found.dreamed[[2, 1, 3, 0], :7]) and shown.dreamed_reward.shape == (
        4,
        7,
    )
    assert inside_episodes(found).true.shape == found.true.shape
    nowhere = found._replace(same_episode=torch.zeros_like(same))
    assert inside_episodes(nowhere) is nowhere
