"""MOBILE's inconsistency, by hand."""

import pytest
import torch

from rl_lightning.functional.critics.model_doubt import bellman_inconsistency


def test_it_is_the_spread_of_the_members_means():
    value = torch.tensor([[[0.0], [6.0]], [[2.0], [4.0]]])  # means 1 and 5 of two members
    assert bellman_inconsistency(value).item() == pytest.approx(4.0 / 2**0.5)


def test_one_member_has_nobody_to_disagree_with():
    with pytest.raises(AssertionError):
        bellman_inconsistency(torch.zeros(4, 1, 3))
