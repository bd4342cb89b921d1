"""Losses, schedules and classes of worlds made of frames, by hand."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from rl_lightning.envs import palette
from rl_lightning.functional import frame_losses, reward_classes


def test_scheduled_sampling_golden_values():
    chance = [frame_losses.teacher_forcing_prob(i, 22_250) for i in (0, 5562, 11125, 22250, 50_000)]
    assert chance == pytest.approx([0.9999, 0.742, 0.495, 0.0, 0.0], abs=6e-4)
    assert frame_losses.teacher_forcing_prob(0, 0) == 0.0


def test_what_is_learned_well_enough_teaches_nothing():
    logits = torch.zeros(1, 3, 1, 1, 2)
    logits[0, 1, 0, 0, 0] = 20.0  # this pixel is certain
    frame = torch.tensor([[[[1, 2]]]], dtype=torch.uint8)
    expected = (np.log(3) - 0.03) / 2
    assert frame_losses.clipped_frame_loss(logits, frame, 0.03).item() == pytest.approx(expected, rel=1e-5)
    assert frame_losses.clipped_frame_loss(logits, frame, 0.0).item() == pytest.approx(
        np.log(3) / 2, rel=1e-5
    )
    logits.requires_grad_()
    frame_losses.clipped_frame_loss(logits, frame, 0.03).backward()
    assert not logits.grad[..., 0].any() and logits.grad[..., 1].any()


def test_what_changed_may_count_more_and_is_drawn_although_unsure():
    frame, before = torch.tensor([[[[1, 0]]]]), torch.tensor([[[[0, 0]]]])
    weight = frame_losses.motion_weights(frame, before, 5.0)
    assert weight.tolist() == [[[[5.0, 1.0]]]] and frame_losses.motion_weights(frame, before, 1.0) is None
    logits = torch.zeros(1, 2, 1, 1, 2)
    assert frame_losses.clipped_frame_loss(logits, frame, 0.0, weight).item() == pytest.approx(
        np.log(2) * 6 / 2
    )
    # Seen at one place of three: the likeliest class everywhere is the background, unless changes count more.
    seen = torch.eye(3, dtype=torch.int64).view(3, 1, 1, 3)
    for counts, drawn in ((1.0, 0), (5.0, 1)):
        logits = torch.zeros(1, 2, 1, 1, 3, requires_grad=True)
        optimizer = torch.optim.Adam([logits], 0.1)
        for _ in range(100):
            optimizer.zero_grad()
            rows = logits.expand(3, -1, -1, -1, -1)
            weight = frame_losses.motion_weights(seen, torch.zeros_like(seen), counts)
            frame_losses.clipped_frame_loss(rows, seen, 0.0, weight).backward()
            optimizer.step()
        assert (logits.argmax(1) == drawn).all()


def test_near_a_rare_colour_every_pixel_counts_more_changed_or_not():
    frame, before = torch.zeros(2, 1, 5, 6, dtype=torch.uint8), torch.zeros(2, 1, 5, 6, dtype=torch.uint8)
    frame[0, 0, 0, 0] = before[0, 0, 4, 5] = 2  # it was in one corner and is in another
    frame[1] = 1  # not rare
    weight = frame_losses.rare_pixel_weights(frame, before, torch.tensor([False, False, True]), 5.0, 1)
    expected = torch.ones(5, 6)
    expected[:2, :2] = expected[3:, 4:] = 5.0
    assert torch.equal(weight[0, 0], expected) and torch.equal(weight[1, 0], torch.ones(5, 6))


def test_colours_are_rare_below_a_share_of_all_pixels():
    counts = torch.tensor([950, 0, 49, 1])
    assert frame_losses.rare_colors(counts, 0.049).tolist() == [False, False, False, True], (
        "not at it, and not where none is"
    )
    assert frame_losses.rare_colors(counts, 0.05).tolist() == [False, False, True, True]


def test_mean_place_by_hand():
    there = torch.zeros(2, 3, 4, 5, dtype=torch.bool)
    there[0, 1, 2, 3] = there[1, 2, 0, 1] = there[1, 2, 3, 2] = True
    place = frame_losses.mean_place(there)
    assert place[0, 1].tolist() == [2.0, 3.0] and place[1, 2].tolist() == [1.5, 1.5]
    assert place.isnan().all(-1).sum() == 4


def test_noise_blots_out_a_share_with_the_background():
    draw = torch.Generator().manual_seed(0)
    stack = torch.full((4, 2, 50, 50), 7, dtype=torch.uint8)
    stack[:, :, :10] = 3
    noisy = frame_losses.noisy_colors(stack, 0.05, 128, draw)
    changed = noisy != stack
    assert set(noisy.unique().tolist()) == {3, 7} and (noisy[changed] == 7).all()
    assert changed[:, :, :10].float().mean().item() == pytest.approx(0.05, abs=0.01)
    assert frame_losses.noisy_colors(stack, 0.0, 128) is stack
    grey = frame_losses.noisy_frames(stack, 1.0, draw)
    assert (grey == stack.flatten().median()).all()


def test_copying_the_last_frame_scores_nothing():
    before, truth = torch.tensor([1, 2, 3]), torch.tensor([1, 0, 0])
    assert [int(v) for v in frame_losses.changed_accuracy(before, truth, before)] == [0, 2]
    assert [int(v) for v in frame_losses.changed_accuracy(torch.tensor([9, 0, 3]), truth, before)] == [1, 2]


def test_planes_are_standardized_but_not_blown_up():
    x = torch.zeros(1, 2, 10, 10)
    x[0, 0, :5] = 2.0
    x[0, 1, 0, 0] = 1e-6
    found = frame_losses.standardize(x)
    assert found[0, 0].mean().item() == pytest.approx(0.0, abs=1e-6) and found[0, 0].std(correction=0) == 1.0
    assert found[0, 1].abs().max() < 1e-4


def test_class_balanced_weights_by_hand():
    """The golden values of 58 rewards among 6,400 steps: the class that never occurs is left out."""
    assert reward_classes.class_balanced_weights(torch.tensor([1, 6342, 58])).tolist() == pytest.approx(
        [2.95, 6.3e-4, 0.051], rel=0.01
    )
    found = reward_classes.class_balanced_weights(torch.tensor([0, 6342, 58]))
    assert found.tolist() == pytest.approx([0.0, 0.024, 1.976], abs=1e-3)


def test_focal_loss_without_focus_is_cross_entropy():
    torch.manual_seed(0)
    logits, label = torch.randn(7, 3), torch.randint(3, (7,))
    flat = reward_classes.focal_loss(logits, label, torch.ones(3), gamma=0.0)
    assert flat.item() == pytest.approx(F.cross_entropy(logits, label).item(), rel=1e-6)
    sure = torch.tensor([[0.0, 10.0, 0.0]])
    assert reward_classes.focal_loss(sure, torch.tensor([1]), torch.ones(3)) < 1e-10


def test_labels_keep_the_sign():
    assert reward_classes.reward_label(torch.tensor([-7.0, 0.0, 0.5])).tolist() == [0, 1, 2]


def test_palette_goes_there_and_back():
    colors = palette.atari_palette()
    assert colors.shape == (128, 3) and len(np.unique(colors, axis=0)) == 128
    assert (palette.to_index(colors, palette.atari_index_table()) == np.arange(128)).all()
    assert palette.palette([0, 9]).tolist() == [[0, 0, 0], [9, 9, 9]]
