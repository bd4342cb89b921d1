"""What a model imagines beside what came: errors by step, and what a film shows."""

import numpy as np
import pytest
import torch

from rl_lightning.analysis.evaluation.imagined_film import imagined_film, imagined_table
from rl_lightning.envs.model_env.strip_chart import OTHER_PEN, PEN, strip_chart
from rl_lightning.models.imagined_windows import (
    ImaginedWindows,
    longest_first,
    squared_error,
    step_errors,
    variance_of,
)


def windows(**more):
    """Two windows of three steps; the first one's episode ends after its first step."""
    known = torch.tensor([[True, False, False], [True, True, False]])
    fields = {
        "unit": "something", "context": 2, "error": torch.tensor([[1.0, 9.0, 9.0], [3.0, 4.0, 9.0]]),
        "held_error": torch.ones(2, 3), "reward": torch.full((2, 3), 0.5), "imagined_reward": None,
        "same_episode": known, "true": torch.zeros(2, 3, 1), "imagined": torch.ones(2, 3, 1),
    }  # fmt: skip
    return ImaginedWindows(**{**fields, **more})


def test_means_are_over_windows_whose_episode_goes_on():
    means = step_errors(windows(imagined_reward=torch.arange(6.0).view(2, 3)))
    assert means.error.tolist() == [2.0, 4.0, 0.0] and means.windows.tolist() == [2, 1, 0]
    assert means.imagined_reward.tolist() == [1.5, 4.0, 0.0]


def test_a_table_ends_where_no_episode_goes_on():
    lines = imagined_table(windows()).splitlines()
    assert "2 real starts, 2 rows seen, then 3 steps" in lines[0]
    assert lines[1].split() == ["step", "error", "held", "reward", "windows"]
    assert [line.split()[0] for line in lines[2:-1]] == ["1", "2"] and "1 is something" in lines[-1]
    assert "imagined" in imagined_table(windows(imagined_reward=torch.zeros(2, 3))).splitlines()[1]


def test_the_longest_episode_is_shown_first():
    assert longest_first(windows()).error[:, 0].tolist() == [3.0, 1.0]


def test_an_error_of_one_is_the_variance():
    seen = torch.tensor([[[0.0, 0.0], [2.0, 4.0]]])
    spread = variance_of(seen)
    assert spread.item() == pytest.approx(1.0 + 4.0)
    assert squared_error(seen[:, 1:], torch.zeros(1, 1, 2), spread).item() == pytest.approx(20.0 / 5.0)


def test_two_curves_of_a_strip_have_two_colors():
    rows = np.zeros((4, 1), np.float32)
    chart = strip_chart(rows, np.zeros(1), np.ones(1), 3, rows[:2] + 2)
    inked = [np.where((chart == pen).all(-1).any(0))[0] for pen in (PEN, OTHER_PEN)]
    assert inked[0].max() > 470 and 150 < inked[1].max() < 200  # the second one stops after two of four
    assert not (strip_chart(rows, np.zeros(1), np.ones(1), 3) == OTHER_PEN).all(-1).any()


@pytest.mark.parametrize("shown", ["numbers", "levels", "indices"])
def test_films_are_written(tmp_path, shown):
    draw = torch.Generator().manual_seed(0)
    true = {
        "numbers": torch.randn(2, 3, 2, generator=draw),
        "levels": torch.rand(2, 3, 3, 8, 8, generator=draw),
        "indices": torch.randint(3, (2, 3, 1, 8, 8), generator=draw).byte(),
    }[shown]
    told = windows(true=true, imagined=true.clone(), colors=3 if shown == "indices" else 0)
    assert told.pictures == (shown != "numbers")
    assert imagined_film(told, tmp_path / "film.mp4").stat().st_size > 500
