"""Adafactor's quick step against torch's: parameters and state, of kernels small and large, matrices and vectors."""

import torch

from rl_lightning.kernels.cpu_adafactor import CPUAdafactor


def test_parameters_and_state_are_torchs():
    torch.manual_seed(0)
    ours = [torch.randn(shape, requires_grad=True) for shape in ((7,), (5, 6), (3, 4, 3, 3), (2, 3, 16, 16))]
    theirs = [p.detach().clone().requires_grad_() for p in ours]
    optimizers = (
        CPUAdafactor(ours, 0.01, weight_decay=0.01),
        torch.optim.Adafactor(theirs, 0.01, weight_decay=0.01),
    )
    for _ in range(5):
        for mine, other in zip(ours, theirs, strict=True):
            mine.grad = torch.randn_like(mine)
            other.grad = mine.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-4)
        states = [opt.state[p] for opt, p in zip(optimizers, (mine, other), strict=True)]
        assert states[0].keys() == states[1].keys()
        for key in states[0]:
            torch.testing.assert_close(states[0][key], states[1][key], atol=1e-5, rtol=1e-4)
