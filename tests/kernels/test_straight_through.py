"""One-hot draws: values, their gradient, and their frequencies."""

import pytest
import torch

from rl_lightning.functional import latent
from rl_lightning.kernels.straight_through import straight_through, straight_through_twin


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5])
def test_straight_through_is_one_hot_and_has_the_gradient_of_its_probabilities(share):
    torch.manual_seed(0)
    logits = torch.randn(5, 3, 4, requires_grad=True)
    noise = latent.gumbel(torch.empty(5, 3, 4).exponential_())
    drawn = straight_through(logits, noise, share)
    assert set(drawn.unique().tolist()) == {0.0, 1.0} and torch.equal(drawn.sum(-1), torch.ones(5, 3))
    probe = torch.randn(5, 3, 4)
    (ours,) = torch.autograd.grad((drawn * probe).sum(), logits)
    (theirs,) = torch.autograd.grad((latent.unimix(logits, share).exp() * probe).sum(), logits)
    assert torch.allclose(ours, theirs, atol=1e-6) and ours.abs().sum() > 0
    twin = straight_through_twin(logits, noise, share)
    torch.testing.assert_close(twin, drawn)
    torch.testing.assert_close(torch.autograd.grad((twin * probe).sum(), logits)[0], ours)


def test_draws_follow_the_mixed_probabilities():
    torch.manual_seed(0)
    logits = torch.tensor([2.0, 0.0, -3.0]).expand(40_000, 3)
    drawn = straight_through(logits, latent.gumbel(torch.empty(40_000, 3).exponential_()), 0.3)
    assert torch.allclose(drawn.mean(0), latent.unimix(logits[0], 0.3).exp(), atol=0.01)
